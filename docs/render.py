"""Write docs/results.md from the result files in docs/results; no number is typed by hand.

Usage: python docs/render.py
"""

import json
import math
from pathlib import Path

HERE = Path(__file__).parent
LABELS = {"gamps": "GAMPS", "ml": "ML", "pgt": "PGT", "reinforce": "REINFORCE"}


def load(name: str) -> dict:
    """One result file."""
    return json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8"))


def interval(number: dict, digits: int = 3) -> str:
    """Mean and half-width of the 95 % interval."""
    return f"{number['mean']:.{digits}f} ± {(number['high'] - number['low']) / 2:.{digits}f}"


def spread(number: dict, digits: int = 2) -> str:
    """Mean and standard deviation over runs."""
    return f"{number['mean']:.{digits}f} ± {number['std']:.{digits}f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def estimation() -> str:
    """The estimation table, both fits beside the paper."""
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


def curves(layout: str) -> str:
    """Final returns of one layout."""
    content = load(f"gridworld-{layout}")
    results, rows = content["results"], []
    for treatment in content["settings"]["baselines"]:
        for n, recipes in results[treatment].items():
            paired = results["gamps_minus"][treatment][n]
            ahead = min(paired, key=lambda name: paired[name]["mean"])
            error = paired[ahead]["std"] / math.sqrt(paired[ahead]["n"])
            gap = f"{paired[ahead]['mean']:+.3f} ± {error:.3f} ({LABELS[ahead]})"
            row = [spread(recipes[name]["final"]) for name in LABELS]
            rows.append([treatment.replace("_", " "), n, *row, gap])
    header = ["baseline", "N", *LABELS.values(), "GAMPS − nearest (paired, s.e.)"]
    return table(header, rows)


def simple(file: str, columns: dict[str, str]) -> str:
    """Rows of a result file by name, some columns of it."""

    def shown(number: dict) -> str:
        return "∞" if number["mean"] is None else f"{number['mean']:.3g} ± {number['std']:.2g}"

    rows = [
        [name, *(shown(numbers[c]) if c in numbers else "" for c in columns)]
        for name, numbers in load(file)["results"].items()
    ]
    return table(["", *columns.values()], rows)


def minigolf() -> str:
    """Final policies of minigolf, every treatment."""
    rows = []
    for treatment, by_std in load("minigolf")["results"].items():
        for std, numbers in by_std.items():
            for name, label in LABELS.items():
                row, gap = numbers[name], numbers["paired"].get(name)
                rows.append(
                    [
                        treatment.replace("_", " "),
                        std,
                        label,
                        *(spread(row[k]) for k in ("final", "best")),
                        *(f"{row[k]['mean']:.3f}" for k in ("holes", "overshoots")),
                        spread(row["mean_action"]),
                        f"{gap['mean']:+.2f} ± {gap['standard_error']:.2f}" if gap else "",
                    ]
                )
    header = ["treatment", "std", "recipe", "final", "best", "holes", "overshoots", "mean action"]
    return table([*header, "GAMPS − it (paired, s.e.)"], rows)


def rollouts() -> str:
    """Speed of the rollout kernels."""
    rows = [
        [
            name,
            f"{row['ns_per_step']:.0f}",
            f"{row['ratio_to_bare']:.2f}",
            f"{100 * row['share_of_peak']:.0f} %",
        ]
        for name, row in load("bench-rollouts")["results"].items()
    ]
    return table(["kernel", "ns per model step", "ratio to bare", "share of sgemm peak"], rows)


def noise() -> str:
    """Variance and time of the gradient, by arrangement of the noise."""
    rows = [
        [problem, baseline, name, *(f"{number:.2f}" for number in row.values())]
        for problem, by_baseline in load("bench-noise")["results"].items()
        for baseline, by_name in by_baseline.items()
        for name, row in by_name.items()
    ]
    return table(["problem", "baseline", "noise", "variance", "time", "variance × time"], rows)


def page() -> str:
    """The whole page."""
    text = (HERE / "results.md.in").read_text(encoding="utf-8")
    slow = load("minigolf-slow")["results"]["per_time"]["1"]["gamps"]
    parts = {
        "ESTIMATION": estimation(),
        "CURVES_A": curves("A"),
        "CURVES_PLAIN": curves("plain"),
        "WEIGHTS": simple("weights", {"lower": "in S1", "upper": "in S2"}),
        "MINIGOLF": minigolf(),
        "SLOW_HOLES": spread(slow["holes"], 3),
        "SLOW_FINAL": spread(slow["final"]),
        "SLOW_MEAN": spread(slow["mean_action"]),
        "MINIGOLF_BEHAVIOUR": f"{load('minigolf')['settings']['behaviour_mean_action']:.2f}",
        "MINIGOLF_OPTIMUM": f"{load('minigolf')['settings']['optimum']:.2f}",
        "ROLLOUTS": rollouts(),
        "NOISE": noise(),
        "QNORM": simple("qnorm", {"final": "final return", "best": "best return"}),
        "BOUNDS": simple(
            "bounds",
            {
                "error": "true error",
                "gradient_aware": "Theorem 1, corrected",
                "gradient_aware_printed": "Theorem 1, printed",
                "gradient_unaware": "ML bound",
                "twice_visited": "ML bound, provable",
            },
        ),
    }
    for name, content in parts.items():
        text = text.replace(f"@{name}@", content)
    return text


if __name__ == "__main__":
    (HERE / "results.md").write_text(page(), encoding="utf-8")
