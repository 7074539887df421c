"""Rows of the table: from cells at hand, and from a table whose cells are not at hand any more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import stdtrit

from gamps._utils import summaries
from gamps.errors import SettingError

LISTS = {"each": "final", "each_chosen": "chosen", "each_best": "best"}
# Of gamps, the logging policy and actions at random: with noise, discounted, and promised.
OURS = ("final_error", "stochastic", "stochastic_error", "discounted", "promise", "shown")


def row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one who on one problem: every log's numbers, and what a reader looks at."""
    lists = {name: [r[key] for r in runs] for name, key in LISTS.items()}
    seconds = [r["processor_seconds"] for r in runs]
    return {
        **{key: summaries.summary(lists[name]) for name, key in LISTS.items()},
        "least": min(lists["each"]),
        "seeds": [r["seed"] for r in runs],
        **lists,
        **{f"each_{key}": [r[key] for r in runs] for key in OURS if all(key in r for r in runs)},
        "each_last": [r.get("last", r["final"]) for r in runs],
        "each_seconds": seconds,
        "seconds": float(np.median(seconds)),
    }


def pooled(one: Mapping[str, float], two: Mapping[str, float]) -> dict[str, float | int]:
    """The `summaries.summary` of two sets of numbers, from those of each."""
    n, m = int(one["n"]), int(two["n"])
    mean = (n * one["mean"] + m * two["mean"]) / (n + m)
    squares = sum(
        (s["n"] - 1) * s["std"] ** 2 + s["n"] * (s["mean"] - mean) ** 2 for s in (one, two)
    )
    std = math.sqrt(squares / (n + m - 1))
    half = float(stdtrit(n + m - 1, 0.975)) * std / math.sqrt(n + m)
    return {"mean": mean, "std": std, "low": mean - half, "high": mean + half, "n": n + m}


def together(earlier: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Two rows of different logs as one; `now` replaces `earlier` if it has all its logs."""
    if set(earlier["seeds"]) <= set(now["seeds"]):
        return now
    if common := set(earlier["seeds"]) & set(now["seeds"]):
        problem = f"logs {sorted(common)} are in both tables, and others in the earlier one only"
        raise SettingError("earlier", problem, "Run the rest of them, or leave these out of --out")
    order = np.argsort(earlier["seeds"] + now["seeds"])
    made: dict[str, Any] = {key: pooled(earlier[key], now[key]) for key in LISTS.values()}
    for name in ("seeds", *LISTS, "each_last", "each_seconds"):
        if name in earlier:
            made[name] = [(earlier[name] + now[name])[i] for i in order]
    before, later = len(earlier["seeds"]), now["each_seconds"]
    seconds = earlier.get("each_seconds", [earlier["seconds"]] * before) + later
    least = min(earlier["least"], now["least"])
    return made | {"least": least, "seconds": float(np.median(seconds))}
