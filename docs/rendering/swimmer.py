"""Show Swimmer: its table, how settings were explored, what each part does."""

from rendering.tables import LABELS, gap, in_errors, load, spread, table


def words(changes: dict) -> str:
    """Describe a treatment in one line."""
    said = [f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in changes.items()]
    return ", ".join(said).replace("_", " ") or "none"


def swimmer(file: str = "swimmer") -> str:
    """Tabulate the final policies of Swimmer, every treatment."""
    columns = ("final", "mean", "max", "mean_action")
    rows = [
        [
            treatment,
            label,
            *(spread(numbers[name][k], 1) for k in columns),
            gap(numbers["paired"].get(name)),
        ]
        for treatment, numbers in load(file)["results"].items()
        for name, label in LABELS.items()
    ]
    header = ["treatment", "recipe", "final", "mean", "max", "mean action"]
    return table([*header, "GAMPS − recipe (paired, ± s.e.)"], rows)


def swum(treatment: str, *recipes: str) -> list[float]:
    """Return mean final returns of Swimmer."""
    found = load("swimmer")["results"][treatment]
    return [found[name]["final"]["mean"] for name in recipes or LABELS]


def swum_errors(treatment: str, other: str) -> float:
    """Return GAMPS minus another recipe on Swimmer, in standard errors."""
    return in_errors(load("swimmer")["results"][treatment]["paired"][other])


def trial(recipe: str, **changes: object) -> float:
    """Return the mean final return of one setting of the exploration."""
    trials = load("exploration")["results"][recipe]["trials"]
    (found,) = [row for row in trials if row["changes"] == changes]
    return found["final"]["mean"]


def exploration() -> str:
    """Tabulate every setting that was tried on Swimmer."""
    rows = []
    for recipe, found in load("exploration")["results"].items():
        for i, row in enumerate(found["trials"]):
            mark = "**chosen**" if i == found["chosen"] else ""
            final = row["final"]
            setting = words(row["changes"])
            rows.append([LABELS[recipe], setting, spread(final, 1), str(final["n"]), mark])
    return table(["recipe", "changes to the paper's setting", "final", "runs", ""], rows)


def ablation() -> str:
    """Tabulate the stabilised recipe with one part changed at a time."""
    rows = [
        [name, spread(row["final"], 1), "" if name == "as chosen" else gap(row["difference"], 1)]
        for name, row in load("ablation")["results"].items()
    ]
    return table(["changed", "final", "difference (paired, ± s.e.)"], rows)


def changed(name: str) -> float:
    """Return the difference that changing one part of the stabilised recipe makes."""
    return load("ablation")["results"][name]["difference"]["mean"]
