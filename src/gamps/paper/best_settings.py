"""Each recipe's best setting on Swimmer, as chosen by the exploration on other seeds."""

from typing import Any

from gamps.paper.swimmer_setup import Treatment, baseline_of, ratio_of, run
from gamps.search.weights import Mixed

_MODEL_BASED: dict[str, Any] = dict(
    baseline="state_value", model_rate=3e-3, members=3, rollouts=6, window=0, learning_rate=0.016
)

# `benchmarks.studies exploration` tries 22 settings per recipe; a test compares these with it.
BEST = {
    "gamps": Treatment(**_MODEL_BASED, uniform=0.5, clip=2.0),
    "ml": Treatment(**_MODEL_BASED, clip=5.0),
    "pgt": Treatment(baseline="regression", horizon=50, clip=2.0, learning_rate=0.024),
    "reinforce": Treatment(baseline="regression", clip=2.0, learning_rate=0.016),
}


def stabilised(recipe: str, *, continuous: bool) -> dict[str, Any]:
    """The parts of a recipe's best setting for another problem, without Swimmer's model and rates.

    A regression on products of observations means nothing for cells of a grid. If states are not
    continuous, the minimum-variance baseline replaces it.
    """
    chosen = BEST[recipe]
    baseline = chosen.baseline
    if baseline == "regression" and not continuous:
        baseline = "minimum_variance"
    parts = {"baseline": baseline_of(baseline), "ratio": ratio_of(chosen.window, chosen.clip)}
    mixed = recipe == "gamps" and chosen.uniform
    return parts | ({"weighting": Mixed(uniform=chosen.uniform)} if mixed else {})


def work(arguments: dict[str, Any]) -> dict[str, Any]:
    """Run one cell: a recipe, a seed, a treatment, and any other argument of `run`."""
    treatment = Treatment(**arguments["treatment"])
    return run(**(arguments | {"treatment": treatment}))
