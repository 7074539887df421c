"""Learning curves on Swimmer: the real simulator, a network as the model, four recipes."""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from gamps._utils import console, figures, summaries
from gamps._utils.worker_pool import cores
from gamps.paper.best_settings import BEST, work
from gamps.paper.cells import fresh_folder, run_cells
from gamps.paper.swimmer_setup import ITERATIONS, Treatment
from gamps.paper.treatments import RECIPES, paired

PAPER = {"claim": "GAMPS is above ML, PGT and REINFORCE, by curves of 10 runs"}
TreatmentName = Literal["literal", "stabilised"]
# Literal is the paper's setting: no baseline, all ratios, all logged rewards in PGT and REINFORCE.
TREATMENTS: dict[str, dict[str, Treatment]] = {
    "literal": {name: Treatment(horizon=0) if name == "pgt" else Treatment() for name in RECIPES},
    "stabilised": BEST,
}


def swimmer(
    *,
    seeds: int = 20,
    out: Path = Path("runs/swimmer"),
    quick: bool = False,
    treatments: tuple[TreatmentName, ...] = ("literal", "stabilised"),
    episodes: int = 100,
    iterations: int = ITERATIONS,
    std: float = 0.5,
    workers: int = cores(),
    overwrite: bool = False,
) -> None:
    """Swimmer on MuJoCo: GAMPS, ML, PGT and REINFORCE from 100 logged episodes of 200 steps.

    Compares the paper's setting (literal) with each recipe's best setting (stabilised), found on
    other seeds with equally many tries for each: see `benchmarks.studies exploration`. Returns are
    undiscounted, over fresh episodes in the simulator. Finished runs are kept in the cells folder
    of --out; the same command, started again, continues where it stopped.

    Example: gamps reproduce swimmer --seeds 20

    Args:
      seeds: independent logs and runs, seeds 0, 1, …
      out: folder for swimmer.json, swimmer.png and the cells.
      quick: 2 seeds, 3 iterations, 40 episodes.
      treatments: literal, stabilised, or both.
      episodes: in the log.
      iterations: policy steps.
      std: standard deviation of the behaviour policy, from which learning starts.
      workers: number of processes, each on its own core.
      overwrite: replace an earlier result in the same folder, cells and all.
    """
    if quick:
        seeds, iterations, episodes = min(seeds, 2), min(iterations, 3), min(episodes, 40)
    out = fresh_folder(out, "swimmer", overwrite=overwrite)
    shared = dict(episodes=episodes, iterations=iterations, std=std)
    # Seeds in the outer loop: after half the time, half the seeds of every setting are done.
    cells = {
        f"{treatment}-{recipe}-{seed}": shared
        | dict(recipe=recipe, seed=seed, treatment=TREATMENTS[treatment][recipe].changes())
        for seed in range(seeds)
        for treatment in treatments
        for recipe in RECIPES
    }
    with console.bar("swimmer", len(cells)) as advance:
        by_cell = run_cells(work, cells, out / "cells", workers=workers, advance=advance)
    runs: dict[str, Any] = {
        treatment: {
            recipe: [by_cell[f"{treatment}-{recipe}-{seed}"] for seed in range(seeds)]
            for recipe in RECIPES
        }
        for treatment in treatments
    }
    results = {treatment: numbers(by_recipe) for treatment, by_recipe in runs.items()}
    settings = dict(
        seeds=seeds,
        **shared,
        treatments={t: {r: TREATMENTS[t][r].changes() for r in RECIPES} for t in treatments},
    )
    figure, table = _figure(runs), _table(results, settings)
    console.save(
        out, "swimmer", settings=settings, results=results, paper=PAPER, figure=figure, table=table
    )


def numbers(by_recipe: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The numbers reported for the runs of one treatment."""

    def of(runs: list[dict[str, Any]]) -> dict[str, Any]:
        curves = np.array([run["curve"] for run in runs])
        return {
            "final": summaries.summary([run["final"] for run in runs]),
            "mean": summaries.summary(curves[:, 1:].mean(axis=1)),
            "max": summaries.summary(curves.max(axis=1)),
            "mean_action": summaries.summary([run["mean_action"] for run in runs]),
            "ess": summaries.summary([run["ess"][-1] for run in runs]),
            "weights_ess": summaries.summary([run["weights_ess"][-1] for run in runs]),
        }

    by_name: dict[str, Any] = {recipe: of(runs) for recipe, runs in by_recipe.items()}
    finals = {r: np.array([run["final"] for run in runs]) for r, runs in by_recipe.items()}
    return by_name | {"paired": paired(finals)}


def _table(results: dict[str, Any], settings: dict[str, Any]) -> Any:
    table = console.rich_table(
        f"Swimmer, {settings['seeds']} runs, {settings['episodes']} logged episodes "
        "(undiscounted return, mean ± std)",
        ["treatment", "recipe", "final", "mean", "max", "mean action", "GAMPS - it"],
        caption="final: after the last iteration, 20 episodes. mean, max: over iterations, 5 "
        "episodes each. mean action: the final policy without its noise. Last column: paired, ± "
        "standard error. The paper shows curves only and claims GAMPS first.",
    )
    for treatment, by_recipe in results.items():
        for name, label in figures.LABELS.items():
            row, gap = by_recipe[name], by_recipe["paired"].get(name)
            table.add_row(
                treatment,
                label,
                *(summaries.spread(row[k], 1) for k in ("final", "mean", "max", "mean_action")),
                "" if gap is None else f"{gap['mean']:+.2f} ± {gap['standard_error']:.2f}",
            )
        table.add_section()
    return table


def _figure(runs: dict[str, Any]) -> Any:
    figure, axes = figures.panels(1, len(runs), width=4.6, height=3.4)
    for axis, (treatment, by_recipe) in zip(axes[0], runs.items(), strict=True):
        curves = {r: np.array([run["curve"] for run in each]).T for r, each in by_recipe.items()}
        figures.recipe_curves(axis, curves)
        axis.set_title(treatment, fontsize=9)
        axis.set_xlabel("iteration")
        axis.set_ylim(-5, 35)
    axes[0, 0].set_ylabel("undiscounted return")
    figures.legend_below(figure, axes, "Swimmer: mean ± std over runs")
    return figure
