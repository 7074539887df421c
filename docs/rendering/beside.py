"""Compare how gamps and d3rlpy get from a log to a policy file, and what each one leaves."""

from rendering.tables import load, table


def found(library: str) -> dict:
    """Return what was counted and tried with a library."""
    return load("beside")["results"][library]


def version(name: str) -> str:
    """Return the version of a library in that comparison."""
    return load("beside")["settings"]["versions"][name]


def algorithms() -> list[str]:
    """Return the names of d3rlpy's algorithms."""
    return found("d3rlpy")["algorithms"]


def quoted(text: str, most: int = 80) -> str:
    """Quote what a program printed, for a table, and cut it if it is long."""
    text = text.removeprefix("gamps: ").replace("|", "\\|")
    return f"`{text}`" if len(text) <= most else f"`{text[:most].rstrip()} …`"


def _left(library: str) -> str:
    left = found(library)["left"]
    return f"{left['files']} files, {left['bytes'] / 1e6:.1f} MB"


def _bits(same: bool) -> str:
    return "identical bits" if same else "different bits"


def _resumed(library: str) -> str:
    killed = found(library)["killed"]
    names = [f"`{name}`" for name in killed["how"].replace(" and ", ", ").split(", ")]
    how = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    if not killed["goes_on"]:
        return f"{how}: does not continue"
    same = "bits identical to" if killed["same_bits"] else "bits different from"
    return f"{how}: continues, and ends with {same} those of a run without the kill"


def _exports(library: str) -> str:
    said = []
    for name, export in found(library)["exports"].items():
        more = f"{name} needs one more package: {quoted(export['said'])}"
        said.append(name if export["works"] else more)
    return "; ".join(said)


def _alone(library: str) -> str:
    return "yes, with the same actions" if found(library)["alone"] else "no"


def _nan(library: str, when: str) -> str:
    nan = found(library)["nan"]
    return f"stops {when}: {quoted(nan['said'])}" if nan["stops"] else "is accepted"


def beside() -> str:
    """Return the measured table."""
    ours, theirs = found("gamps"), found("d3rlpy")
    lines, clone = theirs["lines"], theirs["cloned"]
    warned = "a warning" if clone["warned"] else "no warning"
    rows = [
        [
            "what you write",
            f"{ours['lines']['task']} lines: reward, end, discount; {ours['lines']['commands']} "
            "commands",
            f"{lines['read']} lines to read the file, {lines['train']} to train and save",
        ],
        ["lines printed", str(ours["printed"]), str(theirs["printed"])],
        ["files written", _left("gamps"), _left("d3rlpy")],
        ["the same seed twice", _bits(ours["same_bits"]), _bits(theirs["same_bits"])],
        ["killed half-way", _resumed("gamps"), _resumed("d3rlpy")],
        ["policy files", _exports("gamps"), _exports("d3rlpy")],
        ["the file runs without the library", _alone("gamps"), _alone("d3rlpy")],
        [
            "checkpoints",
            "arrays and JSON, hashed",
            "a pickle" if theirs["checkpoint_is_pickle"] else "no pickle",
        ],
        [
            "a reward that is NaN",
            _nan("gamps", "before training"),
            _nan("d3rlpy", "in training"),
        ],
        [
            "actions beyond ±1",
            "as logged",
            f"BC on a log with {clone['logged_beyond_one']:.0%} of its actions beyond ±1 reaches "
            f"at most {clone['without']:.2f} without an action scaler, and gives {warned}; "
            f"{clone['with']:.2f} with `MinMaxActionScaler`",
        ],
        [
            "what it says about the policy",
            f"a verdict with its reason ({ours['evaluation']['word']}), bounds on the improvement, "
            "the number of effective episodes, a report",
            "one number by FQE, if you train that as well; no bounds",
        ],
    ]
    return table(["", "gamps", "d3rlpy"], rows)
