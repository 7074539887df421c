"""Result files, tables, and numbers with their spread: what all subjects share."""

import json
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"
LABELS = {"gamps": "GAMPS", "ml": "ML", "pgt": "PGT", "reinforce": "REINFORCE"}
# Names of the files that pages have asked for, for the tests.
ASKED: set[str] = set()


@cache
def load(name: str) -> dict[str, Any]:
    """The content of docs/results/name.json; not to be changed."""
    ASKED.add(name)
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def there(name: str) -> bool:
    """Whether docs/results/name.json is there."""
    return (RESULTS / f"{name}.json").exists()


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def interval(number: dict, digits: int = 3) -> str:
    """Mean and half-width of the 95 % interval."""
    return f"{number['mean']:.{digits}f} ± {(number['high'] - number['low']) / 2:.{digits}f}"


def spread(number: dict, digits: int = 2) -> str:
    """Mean and standard deviation over runs."""
    return f"{number['mean']:.{digits}f} ± {number['std']:.{digits}f}"


def error(number: dict) -> float:
    """Standard error of a mean."""
    if "standard_error" in number:
        return number["standard_error"]
    return number["std"] / math.sqrt(number["n"])


def gap(number: dict | None, digits: int = 2) -> str:
    """A paired difference and its standard error."""
    if number is None:
        return ""
    return f"{number['mean']:+.{digits}f} ± {error(number):.{digits}f}"


def in_errors(number: dict) -> float:
    """A paired difference in its standard errors."""
    if not number["mean"]:
        return 0.0
    return number["mean"] / error(number) if error(number) else math.copysign(1e9, number["mean"])


def span(values: Iterable[float], spec: str = ".0f") -> str:
    """From the least to the most, as "3 to 8"."""
    shown = sorted(values)
    ends = [format(shown[0], spec), format(shown[-1], spec)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def paired(ours: dict, other: dict) -> dict[str, float]:
    """Difference on the logs that both have: mean, standard error, how many."""
    theirs = dict(zip(other["seeds"], other["each"], strict=True))
    own = zip(ours["seeds"], ours["each"], strict=True)
    gaps = [value - theirs[seed] for seed, value in own if seed in theirs]
    n, mean = len(gaps), sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((g - mean) ** 2 for g in gaps) / max(n - 1, 1))
    return {"mean": mean, "standard_error": deviation / math.sqrt(n), "n": n}


def simple(file: str, columns: dict[str, str]) -> str:
    """Rows of a result file by name, some columns of it."""

    def shown(number: dict) -> str:
        return "∞" if number["mean"] is None else f"{number['mean']:.3g} ± {number['std']:.2g}"

    rows = [
        [name, *(shown(numbers[c]) if c in numbers else "" for c in columns)]
        for name, numbers in load(file)["results"].items()
    ]
    return table(["", *columns.values()], rows)
