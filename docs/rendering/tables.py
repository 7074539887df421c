"""Load result files and format tables and numbers with their spread, for all subjects."""

import json
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"
LABELS = {"gamps": "GAMPS", "ml": "ML", "pgt": "PGT", "reinforce": "REINFORCE"}
# Names of the files that pages have used, for the tests.
ASKED: set[str] = set()


@cache
def load(name: str) -> dict[str, Any]:
    """Return the content of docs/results/name.json; do not modify it."""
    ASKED.add(name)
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def there(name: str) -> bool:
    """Return whether docs/results/name.json exists."""
    return (RESULTS / f"{name}.json").exists()


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def interval(number: dict, digits: int = 3) -> str:
    """Format a mean and the half-width of its 95 % interval."""
    return f"{number['mean']:.{digits}f} ± {(number['high'] - number['low']) / 2:.{digits}f}"


def spread(number: dict, digits: int = 2) -> str:
    """Format a mean and its standard deviation over runs."""
    return f"{number['mean']:.{digits}f} ± {number['std']:.{digits}f}"


def error(number: dict) -> float:
    """Return the standard error of a mean."""
    if "standard_error" in number:
        return number["standard_error"]
    return number["std"] / math.sqrt(number["n"])


def gap(number: dict | None, digits: int = 2) -> str:
    """Format a paired difference and its standard error."""
    if number is None:
        return ""
    return f"{number['mean']:+.{digits}f} ± {error(number):.{digits}f}"


def in_errors(number: dict) -> float:
    """Return a paired difference in its standard errors."""
    if not number["mean"]:
        return 0.0
    return number["mean"] / error(number) if error(number) else math.copysign(1e9, number["mean"])


def span(values: Iterable[float], spec: str = ".0f") -> str:
    """Format the lowest and the highest value, as "3 to 8"."""
    shown = sorted(values)
    ends = [format(shown[0], spec), format(shown[-1], spec)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def paired(ours: dict, other: dict) -> dict[str, float]:
    """Return the difference on the logs that both have: mean, standard error, count."""
    theirs = dict(zip(other["seeds"], other["each"], strict=True))
    own = zip(ours["seeds"], ours["each"], strict=True)
    gaps = [value - theirs[seed] for seed, value in own if seed in theirs]
    n, mean = len(gaps), sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((g - mean) ** 2 for g in gaps) / max(n - 1, 1))
    return {"mean": mean, "standard_error": deviation / math.sqrt(n), "n": n}


def simple(file: str, columns: dict[str, str]) -> str:
    """Tabulate the rows of a result file by name, with some of its columns."""

    def shown(number: dict) -> str:
        return "∞" if number["mean"] is None else f"{number['mean']:.3g} ± {number['std']:.2g}"

    rows = [
        [name, *(shown(numbers[c]) if c in numbers else "" for c in columns)]
        for name, numbers in load(file)["results"].items()
    ]
    return table(["", *columns.values()], rows)
