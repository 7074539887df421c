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


def page() -> str:
    """The whole page."""
    text = (HERE / "results.md.in").read_text(encoding="utf-8")
    parts = {
        "ESTIMATION": estimation(),
        "CURVES_A": curves("A"),
        "CURVES_PLAIN": curves("plain"),
        "WEIGHTS": simple("weights", {"lower": "in S1", "upper": "in S2"}),
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
