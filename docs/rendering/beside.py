"""What it takes to get a policy file, and what is left and said, with gamps and with d3rlpy."""

from rendering.tables import load, table


def found(library: str) -> dict:
    """What was counted and tried with a library."""
    return load("beside")["results"][library]


def version(name: str) -> str:
    """Of a library in that comparison."""
    return load("beside")["settings"]["versions"][name]


def algorithms() -> list[str]:
    """Those of d3rlpy."""
    return found("d3rlpy")["algorithms"]


def quoted(text: str, most: int = 80) -> str:
    """What a program said, in a table, cut where it grows long."""
    text = text.removeprefix("gamps: ").replace("|", "\\|")
    return f"`{text}`" if len(text) <= most else f"`{text[:most].rstrip()} …`"


def _left(library: str) -> str:
    left = found(library)["left"]
    return f"{left['files']} files, {left['bytes'] / 1e6:.1f} MB"


def _bits(same: bool) -> str:
    return "the same bits" if same else "other bits"


def _resumed(library: str) -> str:
    killed = found(library)["killed"]
    names = [f"`{name}`" for name in killed["how"].replace(" and ", ", ").split(", ")]
    how = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    if not killed["goes_on"]:
        return f"{how}: does not go on"
    same = "the same bits as" if killed["same_bits"] else "other bits than"
    return f"{how}: goes on, to {same} without the kill"


def _exports(library: str) -> str:
    said = []
    for name, export in found(library)["exports"].items():
        more = f"{name} with a further package, it says {quoted(export['said'])}"
        said.append(name if export["works"] else more)
    return "; ".join(said)


def _alone(library: str) -> str:
    return "yes, and acts the same" if found(library)["alone"] else "no"


def _nan(library: str, when: str) -> str:
    nan = found(library)["nan"]
    return f"stops {when}: {quoted(nan['said'])}" if nan["stops"] else "is taken"


def beside() -> str:
    """The measured table."""
    ours, theirs = found("gamps"), found("d3rlpy")
    lines, clone = theirs["lines"], theirs["cloned"]
    warned = "a warning" if clone["warned"] else "no warning"
    rows = [
        [
            "what you write",
            f"{ours['lines']['task']} lines: reward, end, discount; {ours['lines']['commands']} "
            "commands",
            f"{lines['read']} lines that read the file, {lines['train']} that train and save",
        ],
        ["lines printed", str(ours["printed"]), str(theirs["printed"])],
        ["left behind", _left("gamps"), _left("d3rlpy")],
        ["the same seed again", _bits(ours["same_bits"]), _bits(theirs["same_bits"])],
        ["killed half-way", _resumed("gamps"), _resumed("d3rlpy")],
        ["policy files", _exports("gamps"), _exports("d3rlpy")],
        ["the file runs without the library", _alone("gamps"), _alone("d3rlpy")],
        [
            "checkpoints",
            "arrays and JSON, hashed",
            "a pickle" if theirs["checkpoint_is_pickle"] else "no pickle",
        ],
        [
            "a reward that is not a number",
            _nan("gamps", "before training"),
            _nan("d3rlpy", "in training"),
        ],
        [
            "actions beyond ±1",
            "as logged",
            f"BC of a log with {clone['logged_beyond_one']:.0%} of its actions beyond reaches "
            f"{clone['without']:.2f} at most without an action scaler, and gives {warned}; "
            f"{clone['with']:.2f} with `MinMaxActionScaler`",
        ],
        [
            "said of the policy",
            f"a verdict with its reason ({ours['evaluation']['word']}), bounds of the improvement, "
            "how many episodes carry it, a report",
            "by FQE, if it is trained as well, one number; no bounds",
        ],
    ]
    return table(["", "gamps", "d3rlpy"], rows)
