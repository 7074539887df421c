"""Show logs as people have them, and a finite problem from a hospital."""

import math
from statistics import fmean, stdev

from rendering.tables import load, table

LOGS = {
    "oven": "end flags, no episode column", "ward": "four treatments with propensities",
    "pump": "two controllers, dates, gaps",
}  # fmt: skip


def of_users() -> str:
    """Tabulate the verdict, its bound, and the true gain on the plant."""
    rows = [
        [f"{row['log']}: {LOGS[row['log']]}", row["verdict"], f"{row['bound']:.3g}",
         f"{row['true']:.3g} ± {row['error']:.1g}", f"{row['controller']:.3g}"]
        for row in load("users")["results"]
    ]  # fmt: skip
    return table(["log", "verdict", "bound", "true gain, ± s.e.", "controller's return"], rows)


def sepsis_values(size: str) -> dict[str, list[float]]:
    """Return exact values by learner, one per log."""
    return load("sepsis")["results"][size]["values"]


def sepsis_gap(size: str) -> tuple[float, float]:
    """Return the lead of gamps over the next learner, and its standard error."""
    values = sepsis_values(size)
    others = [x for who, x in values.items() if who != "gamps"]
    best = max(others, key=fmean)
    errors = [stdev(x) / math.sqrt(len(x)) for x in (values["gamps"], best)]
    return fmean(values["gamps"]) - fmean(best), math.hypot(*errors)


def sepsis() -> str:
    """Tabulate exact values, mean ± standard deviation over logs, with their number."""
    rows = []
    for size in load("sepsis")["results"]:
        cells = [
            f"{'SPIBB' if 'SPIBB' in who else who} {fmean(x):.4f} ± {stdev(x):.4f} ({len(x)})"
            for who, x in sepsis_values(size).items()
        ]
        gap, error = sepsis_gap(size)
        rows.append([f"{int(size):,}", *cells, f"{gap:+.4f} ± {error:.4f}"])
    header = ["episodes", "default", "SPIBB", "frequencies", "lead over the next, ± s.e."]
    return table(header, rows)
