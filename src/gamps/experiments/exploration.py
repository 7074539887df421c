"""The search for each recipe's best setting on Swimmer, under a protocol fixed beforehand.

Twelve settings a recipe on the logs of seeds 1000-1003; the three best of them on 1004-1011 as
well; the one with the highest mean final return over all twelve logs is what `gamps reproduce
swimmer` reports, on seeds 0-19, which nothing was chosen on.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from gamps import report
from gamps.experiments.cells import run_cells
from gamps.experiments.swimmer_setup import Treatment, run
from gamps.processes import cores

FIRST, SECOND = tuple(range(1000, 1004)), tuple(range(1004, 1012))
FINALISTS = 3


def _model_based(**own: Any) -> Treatment:
    return Treatment(
        **({"baseline": "state_value", "window": 10, "model_rate": 1e-3, "rollouts": 4} | own)
    )


SHARED = (
    _model_based(),
    _model_based(window=5),
    _model_based(window=20),
    _model_based(clip=5.0),
    _model_based(clip=5.0, clipped=True),
    _model_based(clip=5.0, horizon=50),
    _model_based(clip=5.0, tail=True),
    _model_based(clip=5.0, members=3),
    _model_based(clip=5.0, least_ess=20.0),
    _model_based(clip=5.0, learning_rate=0.016),
)
TRIALS: dict[str, tuple[Treatment, ...]] = {
    "gamps": (
        *SHARED,
        _model_based(clip=5.0, weight_window=3),
        _model_based(clip=5.0, reward_weighted=True),
    ),
    "ml": (
        *SHARED,
        _model_based(clip=5.0, model_rate=3e-3),
        _model_based(clip=5.0, window=3),
    ),
    "pgt": (
        Treatment(baseline="regression", horizon=25, clip=5.0),
        Treatment(baseline="regression", horizon=25, clip=2.0),
        Treatment(baseline="regression", horizon=25, window=10),
        Treatment(baseline="regression", horizon=25, window=10, clip=5.0),
        Treatment(baseline="regression", horizon=25, window=20, clip=5.0),
        Treatment(baseline="regression", horizon=25, window=5),
        Treatment(baseline="regression", horizon=50, clip=5.0),
        Treatment(baseline="regression", horizon=50, window=10, clip=5.0),
        Treatment(baseline="per_time", horizon=25, clip=5.0),
        Treatment(baseline="minimum_variance", horizon=25, clip=5.0),
        Treatment(baseline="regression", horizon=25, window=10, clip=5.0, least_ess=20.0),
        Treatment(baseline="regression", horizon=25, clip=5.0, learning_rate=0.016),
    ),
    "reinforce": (
        Treatment(),
        Treatment(baseline="per_time"),
        Treatment(baseline="minimum_variance"),
        Treatment(baseline="minimum_variance", clip=5.0),
        Treatment(baseline="per_time", clip=5.0),
        Treatment(baseline="per_time", clip=2.0),
        Treatment(baseline="per_time", window=50),
        Treatment(baseline="per_time", window=50, clip=5.0),
        Treatment(baseline="per_time", window=10, clip=5.0),
        Treatment(baseline="regression", clip=5.0),
        Treatment(baseline="per_time", clip=5.0, least_ess=5.0),
        Treatment(baseline="per_time", clip=5.0, learning_rate=0.016),
    ),
}


def work(arguments: dict[str, Any]) -> dict[str, Any]:
    """One cell: a recipe, a seed, a treatment and how it is evaluated."""
    own = {k: v for k, v in arguments.items() if k not in ("recipe", "seed", "treatment")}
    treatment = Treatment(**arguments["treatment"])
    return run(arguments["recipe"], arguments["seed"], treatment, **own)


def exploration(
    *,
    out: Path = Path("runs/exploration"),
    recipes: tuple[str, ...] = tuple(TRIALS),
    workers: int = cores(),
) -> None:
    """Swimmer: twelve settings of every recipe, on logs that nothing is reported on."""

    def cells(trials: dict[str, Any], seeds: tuple[int, ...]) -> dict[str, Any]:
        return {
            f"{recipe}-{trial:02d}-{seed}": {
                "recipe": recipe,
                "seed": seed,
                "treatment": asdict(TRIALS[recipe][trial]),
            }
            for recipe, chosen in trials.items()
            for trial in chosen
            for seed in seeds
        }

    first = cells({r: range(len(TRIALS[r])) for r in recipes}, FIRST)
    with report.bar("exploration", len(first)) as advance:
        run_cells(work, first, out / "cells", workers=workers, advance=advance)
