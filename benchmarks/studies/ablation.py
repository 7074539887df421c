"""What each part of the stabilised recipe contributes on Swimmer: one part changed at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gamps._utils import console, figures, summaries
from gamps._utils.worker_pool import cores
from gamps.paper.best_settings import BEST, work
from gamps.paper.cells import fresh_folder, run_cells
from gamps.paper.swimmer_setup import Treatment

FIRST = 1100
STABILISED = BEST["gamps"]
VARIANTS: dict[str, Treatment] = {
    "as chosen": STABILISED,
    "no baseline": replace(STABILISED, baseline="none"),
    "per-time baseline": replace(STABILISED, baseline="per_time"),
    "window of 10 steps": replace(STABILISED, window=10),
    "ratios not clipped": replace(STABILISED, clip=0.0),
    "weights all gradient-aware": replace(STABILISED, uniform=0.0),
    "weights all alike (ML)": replace(STABILISED, uniform=1.0),
    "reward-weighted": replace(STABILISED, uniform=0.0, reward_weighted=True),
    "a single model": replace(STABILISED, members=1),
    "model rate 2e-4": replace(STABILISED, model_rate=2e-4),
    "horizon 10": replace(STABILISED, horizon=10),
    "fitted tail": replace(STABILISED, tail=True),
    "rests below 20 trajectories": replace(STABILISED, least_ess=20.0),
}


def ablation(
    *,
    seeds: int = 3,
    out: Path = Path("runs/ablation"),
    quick: bool = False,
    workers: int = cores(),
    overwrite: bool = False,
) -> None:
    """Swimmer: the stabilised GAMPS with one part changed at a time.

    On seeds 1100, 1101, …, on which nothing was chosen and nothing else is reported. Started again,
    it goes on where it was stopped.

    Example: python -m benchmarks.studies ablation --seeds 3

    Args:
      seeds: logs and runs of each variant.
      out: folder for ablation.json, ablation.png and the cells.
      quick: one seed, 2 iterations, 20 episodes, the first two variants.
      workers: processes, each on a core of its own.
      overwrite: replace an earlier result in the same folder, cells and all.
    """
    out = fresh_folder(out, "ablation", overwrite=overwrite)
    small = dict(iterations=2, episodes=20) if quick else {}
    variants = dict(list(VARIANTS.items())[:2]) if quick else VARIANTS
    chosen = range(FIRST, FIRST + (1 if quick else seeds))
    cells = {
        f"{i:02d}-{seed}": small | dict(recipe="gamps", seed=seed, treatment=variant.changes())
        for seed in chosen
        for i, variant in enumerate(variants.values())
    }
    with console.bar("ablation", len(cells)) as advance:
        found = run_cells(work, cells, out / "cells", workers=workers, advance=advance)
    finals = {
        name: np.array([found[f"{i:02d}-{seed}"]["final"] for seed in chosen])
        for i, name in enumerate(variants)
    }
    results = {
        name: {
            "final": summaries.summary(values),
            "difference": summaries.summary(values - finals["as chosen"]),
        }
        for name, values in finals.items()
    }
    console.save(
        out,
        "ablation",
        settings=dict(seeds=list(chosen), stabilised=STABILISED.changes(), **small),
        results=results,
        paper={},
        figure=_figure(finals),
        table=_table(results),
    )


def _table(results: dict[str, Any]) -> Any:
    table = console.rich_table(
        "Swimmer: stabilised GAMPS, one part changed (final undiscounted return)",
        ["changed", "final, mean ± std", "difference ± s.e."],
        caption="The difference is paired, on the same logs.",
    )
    for name, row in results.items():
        gap = row["difference"]
        table.add_row(
            name,
            summaries.spread(row["final"], 1),
            ""
            if name == "as chosen"
            else f"{gap['mean']:+.1f} ± {summaries.standard_error(gap):.1f}",
        )
    return table


def _figure(finals: dict[str, np.ndarray]) -> Any:
    figure, axes = figures.panels(1, 1, width=6.5, height=0.27 * len(finals) + 1.2)
    axis, places = axes[0, 0], np.arange(len(finals))[::-1]
    for place, (name, values) in zip(places, finals.items(), strict=True):
        colour = figures.COLOURS["gamps"] if name == "as chosen" else "#606060"
        axis.plot(values, np.full(len(values), place), "o", color=colour, alpha=0.5, markersize=4)
        axis.plot(values.mean(), place, "|", color=colour, markersize=14, markeredgewidth=2)
    axis.set_yticks(places, list(finals), fontsize=8)
    axis.axvline(finals["as chosen"].mean(), color=figures.COLOURS["gamps"], linewidth=0.6)
    axis.set_xlabel("final return; a dot a run, a bar the mean")
    return figure
