"""Does what gamps hands out harm anybody, and is what it promises kept? Of a finished peers.json.

Usage: python -m benchmarks.peers.promises [--peers runs/peers/peers.json]

*No harm*: on every log, what is handed out earns as much as the controller less a twentieth of the
way from actions at random to the best that is known; a log fails where even the upper end of the
95 % interval of its true return lies below. *Promises*: discounted, one dot a log, in units of the
way from the controller to the best that is known; logs where the controller itself is handed out
are counted and have no dot.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.peers.domains import GOLF
from benchmarks.robots.known import ROBOTS
from gamps._utils import console, figures

LEAST = 0.05  # of the way from random to best
WAYS = {
    "mean action": ("each", "each_final_error"),
    "with noise": ("each_stochastic", "each_stochastic_error"),
}


def best_known(name: str, rows: dict[str, Any]) -> float:
    """The highest return that anybody reached, or that is known otherwise."""
    found = [row["final"]["mean"] for row in rows.values()]
    if name in ROBOTS:
        found.append(ROBOTS[name].best)
    if name.startswith("minigolf"):
        found.append(float(GOLF.optimal_return()))
    return max(found)


def harmed(name: str, rows: dict[str, Any], way: str) -> list[float]:
    """Of each log, what is left above the line, at the upper end of the interval."""
    ours, controller = rows["ours"], rows["behaviour"]
    margin = LEAST * (best_known(name, rows) - rows["random"]["final"]["mean"])
    key, error = WAYS[way]
    known = dict(zip(controller["seeds"], controller[key], strict=True))
    return [
        value + 1.96 * wide - (known[seed] - margin)
        for seed, value, wide in zip(ours["seeds"], ours[key], ours[error], strict=True)
    ]


def gaps(name: str, rows: dict[str, Any]) -> tuple[np.ndarray, int]:
    """Promise less truth, as a share of the way from the controller to the best, and who left.

    The best that is known is undiscounted: what discounting makes of it, our own returns tell.
    """
    ours, shown = rows["ours"], np.asarray(rows["ours"]["each_shown"])
    promise, truth = (np.asarray(ours[f"each_{k}"]) for k in ("promise", "discounted"))
    itself = np.isclose(promise, shown)
    best = best_known(name, rows) * truth.mean() / np.mean(ours["each_stochastic"])
    return ((promise - truth) / (max(best, truth.max()) - shown.mean()))[~itself], int(itself.sum())


def main(
    peers: Path = Path("runs/peers/peers.json"),
    out: Path = Path("runs/peers"),
) -> None:
    """Print both tables, and write promises.json and promises.png beside the other table.

    Args:
      peers: the table of run.py draw.
      out: folder.
    """
    results = json.loads(peers.read_text(encoding="utf-8"))["results"]
    needed = {"ours", "behaviour", "random"}
    found = {name: rows for name, rows in results.items() if needed <= rows.keys()}
    table = console.rich_table(
        "No harm, and promises", ["log", "logs", "harmed (mean action)", "harmed (with noise)",
                                  "controller handed out", "|promise - truth|, median"],
    )  # fmt: skip
    figure, axes = figures.panels(1, 1, width=4.6, height=4.2)
    kept: dict[str, Any] = {}
    for i, (name, rows) in enumerate(found.items()):
        failed = {way: sum(left < 0 for left in harmed(name, rows, way)) for way in WAYS}
        off, itself = gaps(name, rows)
        kept[name] = {"failed": failed, "itself": itself, "gaps": off.tolist()}
        median = f"{np.median(np.abs(off)):.0%}" if len(off) else "-"
        counts = (len(rows["ours"]["seeds"]), *failed.values(), itself)
        table.add_row(name, *map(str, counts), median)
        axes.ravel()[0].plot(off, [i] * len(off), ".", alpha=0.6)
    every = np.concatenate([row["gaps"] for row in kept.values()])
    axis = axes.ravel()[0]
    axis.set_yticks(range(len(kept)), list(kept), fontsize=8)
    axis.axvline(0.0, color="grey", linewidth=0.8)
    axis.set_xlabel("promise - truth, of the way from controller to best")
    console.save(
        out, "promises", settings={"least": LEAST}, figure=figure, table=table, paper={},
        results={"logs": kept, "median": float(np.median(np.abs(every)))},
    )  # fmt: skip
    console.say(f"median of all logs: {np.median(np.abs(every)):.0%}")


if __name__ == "__main__":
    tyro.cli(main)
