"""Show off-policy evaluation (coverage, other libraries) and when gradient-awareness pays."""

from rendering.tables import interval, load, span, table

ESTIMATES = ("per-decision", "self-normalised", "doubly robust", "weighted doubly robust")
WEIGHTS = ("ML", "ratio", "score", "ω", "√ω")


def awareness(problem: str = "") -> str:
    """Tabulate the cosines of the awareness study, and its returns if there are any."""
    rows = []
    for n, by_class in load(f"awareness{problem}")["results"].items():
        for name, by_distance in by_class.items():
            for distance, row in by_distance.items():
                digits = 3 if distance == "return" else 2
                rows.append([n, name, distance, *(interval(row[w], digits) for w in WEIGHTS)])
    return table(["episodes", "model", "distance", *WEIGHTS], rows)


def aware(distance: float | str, problem: str = "", *kinds: str) -> list[dict[str, dict]]:
    """Return the study's rows at a distance, for some model classes or for all."""
    return [
        by_distance[str(distance)]
        for by_class in load(f"awareness{problem}")["results"].values()
        for kind, by_distance in by_class.items()
        if not kinds or kind in kinds
    ]


def best_of(weight: str, kind: str) -> str:
    """Return the largest mean cosine of a weighting with a model class, on the gridworld."""
    rows = [row for d in ("0.0", "0.5", "1.0") for row in aware(d, "-gridworld", kind)]
    return f"{max(row[weight]['mean'] for row in rows):.2f}"


def lowest(weight: str, distance: float) -> str:
    """Count the rows in which a weighting has the lowest mean, as "5 of 6"."""
    rows = aware(distance)
    count = sum(min(row, key=lambda w: row[w]["mean"]) == weight for row in rows)
    return f"{count} of {len(rows)}"


def coverage() -> str:
    """Tabulate the coverage of four estimators with Student's t, and of the guaranteed bounds."""
    rows = []
    for name, cell in load("coverage")["results"]["cells"].items():
        misses = cell["misses"]
        shown = [f"{1 - misses[f'{n}, student']['all']:.3f}" for n in ESTIMATES]
        problem = f"{name.rpartition('-')[0]} {cell['distance']:g}"
        effective, good = f"{cell['effective']:.3f}", f"{cell['grades']['good']:.2f}"
        rows.append([problem, effective, good, *shown, f"{1 - misses['guaranteed']['all']:.3f}"])
    return table(["problem, distance", "effective", "graded good", *ESTIMATES, "guaranteed"], rows)


def covered(name: str) -> tuple[float, float]:
    """Return the lowest and highest coverage over the policies with adequate support."""
    low, high = load("coverage")["results"]["summary"][name]["adequate"]
    return low, high


def beyond(name: str) -> dict[str, float]:
    """Return coverage by policy where less than a third of the episodes is effective."""
    cells = load("coverage")["results"]["cells"]
    far = {k: cell for k, cell in cells.items() if cell["effective"] < 1 / 3}
    return {k: 1 - cell["misses"][name]["all"] for k, cell in far.items()}


def intervals() -> str:
    """Tabulate every interval: coverage with adequate support, flagged misses elsewhere."""
    rows = []
    for name, numbers in load("coverage")["results"]["summary"].items():
        flagged = "none"
        if numbers["misses"]:
            flagged = f"{numbers['flagged']:.3f} of {numbers['misses']}"
        rows.append([name, span(numbers["adequate"], ".3f"), flagged])
    header = ["estimate, interval", "coverage, adequate support", "misses elsewhere flagged"]
    return table(header, rows)


def bounds_of_verdicts(grade: str) -> str:
    """Return how often the bound of a verdict is above the truth, over policies of a grade."""
    return span(verdicts(grade).values(), ".1%")


def verdicts(grade: str) -> dict[str, float]:
    """Return that share by policy, if at least a twentieth of its logs has the grade."""
    cells = load("coverage")["results"]["cells"]
    return {k: c["verdict"][grade] for k, c in cells.items() if c["grades"][grade] >= 0.05}


def judged_by_peers() -> str:
    """Tabulate the errors of our estimates and of those of d3rlpy and SCOPE-RL."""
    content = load("evaluation")
    rms, bias = content["results"]["rms"], content["results"]["bias"]
    rows = [
        [name, *(f"{r:.1f} ({b:+.1f})" for r, b in zip(rms[name], bias[name], strict=True))]
        for name in rms
    ]
    distances = [f"distance {d:g}" for d in content["settings"]["distances"]]
    return table(["estimate", *distances], rows)
