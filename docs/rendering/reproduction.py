"""Show the paper's problems except Swimmer: the gridworld, minigolf, and all three together."""

from rendering.tables import LABELS, error, gap, in_errors, interval, load, simple, spread, table

LAYOUTS = ("A", "plain")


def estimation() -> str:
    """Tabulate the estimation, both fits and the paper's numbers."""
    rows = []
    for file, fit in (("table1-adam", "130 Adam steps"), ("table1-closed", "closed form")):
        content = load(file)
        for name in ("ml", "gamps"):
            ours = content["results"][name]
            keys = ("accuracy", "q_mse", "gradient_cosine", "gradient_cosine_exact")
            rows.append([LABELS[name], fit, *(interval(ours[k]) for k in keys)])
    for name, numbers in load("table1-adam")["paper"].items():
        rows.append([LABELS[name], "paper", *numbers.values(), ""])
    header = ["model", "fit", "p̂ accuracy", "Q̂ MSE", "cosine to sample", "cosine to exact"]
    return table(header, rows)


def nearest_of(others: dict) -> str:
    """Return the recipe that ends nearest to GAMPS, or furthest ahead of it."""
    return min(others, key=lambda name: others[name]["mean"])


def curves(layout: str) -> str:
    """Tabulate the final returns of one layout."""
    content = load(f"gridworld-{layout}")
    results, rows = content["results"], []
    for treatment in content["settings"]["baselines"]:
        for n, recipes in results[treatment].items():
            others = results["gamps_minus"][treatment][n]
            ahead = nearest_of(others)
            row = [spread(recipes[name]["final"]) for name in LABELS]
            shown = f"{gap(others[ahead], 3)} ({LABELS[ahead]})"
            rows.append([treatment.replace("_", " "), n, *row, shown])
    header = ["baseline", "N", *LABELS.values(), "GAMPS − nearest (paired, ± s.e.)"]
    return table(header, rows)


def grid(layout: str, treatment: str, n: int, recipe: str, which: str = "final") -> float:
    """Return a mean return of the gridworld; treatment may be "stabilised"."""
    file = f"gridworld-{layout}" + ("-stabilised" if treatment == "stabilised" else "")
    return load(file)["results"][treatment][str(n)][recipe][which]["mean"]


def sizes(layout: str) -> list[int]:
    """Return the sizes of the gridworld's logs."""
    return load(f"gridworld-{layout}")["settings"]["trajectories"]


def optimum(layout: str) -> float:
    """Return the optimum of the gridworld."""
    return load(f"gridworld-{layout}")["settings"]["optimum"]


def golf(treatment: str, std: int, recipe: str, which: str) -> dict:
    """Return one number of minigolf with its spread; treatment may be "stabilised"."""
    file = "minigolf-stabilised" if treatment == "stabilised" else "minigolf"
    return load(file)["results"][treatment][str(std)][recipe][which]


def golf_errors(treatment: str) -> list[float]:
    """Return GAMPS minus each other recipe on minigolf, in standard errors."""
    by_std = load("minigolf")["results"][treatment].values()
    return [in_errors(row) for numbers in by_std for row in numbers["paired"].values()]


def minigolf() -> str:
    """Tabulate the final policies of minigolf, every treatment."""
    rows = []
    for treatment, by_std in load("minigolf")["results"].items():
        for std, numbers in by_std.items():
            for name, label in LABELS.items():
                row = numbers[name]
                rows.append(
                    [
                        treatment.replace("_", " "),
                        std,
                        label,
                        *(spread(row[k]) for k in ("final", "best")),
                        *(f"{row[k]['mean']:.3f}" for k in ("holes", "overshoots")),
                        spread(row["mean_action"]),
                        gap(numbers["paired"].get(name)),
                    ]
                )
    header = ["treatment", "std", "recipe", "final", "best", "holes", "overshoots", "mean action"]
    return table([*header, "GAMPS − recipe (paired, ± s.e.)"], rows)


def stabilised_elsewhere() -> str:
    """Tabulate the stabilised and the literal recipe on minigolf and the gridworld."""
    rows = []
    for std, numbers in load("minigolf-stabilised")["results"]["stabilised"].items():
        plain = load("minigolf")["results"]["none"][std]["gamps"]["final"]
        rows.append(_elsewhere(f"minigolf, std {std}", plain, numbers, numbers["paired"]))
    for layout in LAYOUTS:
        results = load(f"gridworld-{layout}-stabilised")["results"]
        literal = load(f"gridworld-{layout}")["results"]["none"]
        for n, numbers in results["stabilised"].items():
            plain = literal[n]["gamps"]["final"]
            others = results["gamps_minus"]["stabilised"][n]
            rows.append(_elsewhere(f"gridworld {layout}, N = {n}", plain, numbers, others))
    header = ["problem", "GAMPS literal", *(f"{label} stabilised" for label in LABELS.values())]
    return table([*header, "GAMPS − nearest (paired, ± s.e.)"], rows)


def _elsewhere(problem: str, literal: dict, numbers: dict, others: dict) -> list[str]:
    ahead = nearest_of(others)
    finals = [spread(numbers[name]["final"]) for name in LABELS]
    return [problem, spread(literal), *finals, f"{gap(others[ahead], 3)} ({LABELS[ahead]})"]


def overview() -> str:
    """Tabulate final returns, one row per problem and treatment."""

    def row(problem: str, command: str, treatment: str, numbers: dict, digits: int) -> list[str]:
        finals = [spread(numbers[name]["final"], digits) for name in LABELS]
        return [problem, f"`gamps reproduce {command}`", treatment, *finals]

    rows = []
    for layout in LAYOUTS:
        problem, command = f"gridworld {layout}, N = 50", f"gridworld --layout {layout}"
        literal = load(f"gridworld-{layout}")["results"]["none"]["50"]
        best = load(f"gridworld-{layout}-stabilised")["results"]["stabilised"]["50"]
        rows.append(row(problem, command, "literal", literal, 2))
        rows.append(row(problem, f"{command} --baselines stabilised", "stabilised", best, 2))
    played = load("minigolf")["results"]
    best = load("minigolf-stabilised")["results"]["stabilised"]["1"]
    rows.append(row("minigolf, std 1", "minigolf", "literal", played["none"]["1"], 2))
    rows.append(row("minigolf, std 1", "minigolf", "per time", played["per_time"]["1"], 2))
    command = "minigolf --treatments stabilised"
    rows.append(row("minigolf, std 1", command, "stabilised", best, 2))
    for treatment, numbers in load("swimmer")["results"].items():
        rows.append(row("swimmer", "swimmer", treatment, numbers, 1))
    return table(["problem", "command", "treatment", *LABELS.values()], rows)


def slow(which: str, digits: int = 2) -> str:
    """Show a result of minigolf at half the learning rate, per-time baseline, std 1."""
    return spread(load("minigolf-slow")["results"]["per_time"]["1"]["gamps"][which], digits)


def holes_error() -> float:
    """Return the standard error of GAMPS's share of holed balls, per-time baseline, std 1."""
    return error(golf("per_time", 1, "gamps", "holes"))


def bounds() -> str:
    """Tabulate true errors and the bounds of Theorem 1 and of maximum likelihood."""
    columns = {
        "error": "true error",
        "gradient_aware": "Theorem 1, corrected",
        "gradient_aware_printed": "Theorem 1, printed",
        "gradient_unaware": "ML bound",
        "twice_visited": "ML bound, provable",
    }
    return simple("bounds", columns)


def looseness() -> list[float]:
    """Return corrected Theorem 1 over the true error, for models whose error exceeds rounding."""
    found = load("bounds")["results"].values()
    pairs = [(row["gradient_aware"]["mean"], row["error"]["mean"]) for row in found]
    return [bound / error for bound, error in pairs if bound > 0]
