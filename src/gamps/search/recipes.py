"""Recipes: named assemblies of parts. A baseline differs from `gamps` only in the part it swaps."""

from typing import Any

from gamps.search import Search
from gamps.search.fitting import ClosedForm, Keep
from gamps.search.values import (
    EpisodeReturn,
    Exact,
    MinimumVariance,
    NoBaseline,
    PerDecisionReturn,
    StateValue,
)
from gamps.search.weights import GradientAware, Ones
from gamps.tasks import Task
from gamps.trajectories import Trajectories


def gamps(trajectories: Trajectories, task: Task, **parts: Any) -> Search:
    """Gradient-aware weights, weighted likelihood, and values of the model: our default.

    Args:
      trajectories: the log.
      task: reward, termination and discount.
      **parts: any field of `Search` to swap, for example `values=Exact(horizon=64)`.
    """
    shared = {
        "fit": ClosedForm(),
        "values": Exact(),
        "baseline": StateValue(),
        "learning_rate": 0.2,
    }
    return Search(trajectories, task, **({"weighting": GradientAware(q=2.0)} | shared | parts))


def gamps_paper(trajectories: Trajectories, task: Task, **parts: Any) -> Search:
    """Algorithm 1 exactly as in the paper: `gamps` without a baseline."""
    return gamps(trajectories, task, **({"baseline": NoBaseline()} | parts))


def ml(trajectories: Trajectories, task: Task, **parts: Any) -> Search:
    """`gamps` with every transition weighted alike: the maximum-likelihood model."""
    return gamps(trajectories, task, **({"weighting": Ones()} | parts))


def pgt(trajectories: Trajectories, task: Task, **parts: Any) -> Search:
    """`gamps` with the logged per-decision return as values, hence without a model.

    It has no V(s) to subtract either; its baseline is the best that the log alone gives.
    """
    logged = {"weighting": Ones(), "fit": Keep(), "values": PerDecisionReturn()}
    return gamps(trajectories, task, **(logged | {"baseline": MinimumVariance()} | parts))


def reinforce(trajectories: Trajectories, task: Task, **parts: Any) -> Search:
    """`pgt` with the whole-episode return as values."""
    return pgt(trajectories, task, **({"values": EpisodeReturn()} | parts))
