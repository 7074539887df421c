"""Logs as people have them, and a finite problem from a hospital."""

import math
from statistics import fmean, stdev

from rendering.tables import load, table

LOGS = {
    "oven": "flags, no column of episodes", "ward": "four treatments with propensities",
    "pump": "two controllers, dates, gaps",
}  # fmt: skip


def of_users() -> str:
    """Verdict, bound, and what the plant says."""
    rows = [
        [f"{row['log']}: {LOGS[row['log']]}", row["verdict"], f"{row['bound']:.3g}",
         f"{row['true']:.3g} ± {row['error']:.1g}", f"{row['controller']:.3g}"]
        for row in load("users")["results"]
    ]  # fmt: skip
    return table(["log", "verdict", "at least", "true gain, ± s.e.", "the controller"], rows)


def sepsis_values(size: str) -> dict[str, list[float]]:
    """Exact values by learner, one a log."""
    return load("sepsis")["results"][size]["values"]


def sepsis_gap(size: str) -> tuple[float, float]:
    """By how much gamps is ahead of the next, and the standard error of that."""
    values = sepsis_values(size)
    others = [x for who, x in values.items() if who != "gamps"]
    best = max(others, key=fmean)
    errors = [stdev(x) / math.sqrt(len(x)) for x in (values["gamps"], best)]
    return fmean(values["gamps"]) - fmean(best), math.hypot(*errors)


def sepsis() -> str:
    """Exact values, mean ± standard deviation over logs, in brackets how many."""
    rows = []
    for size in load("sepsis")["results"]:
        cells = [
            f"{'SPIBB' if 'SPIBB' in who else who} {fmean(x):.4f} ± {stdev(x):.4f} ({len(x)})"
            for who, x in sepsis_values(size).items()
        ]
        gap, error = sepsis_gap(size)
        rows.append([f"{int(size):,}", *cells, f"{gap:+.4f} ± {error:.4f}"])
    header = ["episodes", "default", "SPIBB", "frequencies", "ahead of the next, ± s.e."]
    return table(header, rows)
