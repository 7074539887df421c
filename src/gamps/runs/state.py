"""What can be trained: anything that starts, steps, and knows its number of steps."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from gamps.errors import CheckpointError
from gamps.learner import Progress, RunState
from gamps.models import Quality
from gamps.policies import Policy
from gamps.tasks import Task

GONE = {"[0].model.support.typical"}  # arrays of version 0.1 that are no longer used


@runtime_checkable
class Training(Protocol):
    """A training, iteration by iteration; `learner.Learner` and `SearchTraining` are two.

    A step depends only on the progress passed to it, so a training that continues from a
    checkpoint ends with the same numbers to the last bit.
    """

    total: int
    task: Task
    outcomes: Quality | None  # of reward and termination, if they are estimated
    controller: (
        Policy  # the newest controller, or a fit to it; the search may start at a better one
    )

    def start(self) -> Progress:
        """Return the progress before the first iteration."""

    def like(self, run: RunState) -> Progress:
        """Return a progress with the structure that belongs to a state; its arrays are unused."""

    def step(self, progress: Progress) -> tuple[Progress, dict[str, float]]:
        """Run one iteration; return the progress and the metrics to report."""


def arrays_of(progress: Progress) -> dict[str, np.ndarray]:
    """Return all arrays of a progress, by their place in it."""
    return {name: np.asarray(leaf) for name, leaf in _named(progress)}


def restored(like: Progress, arrays: Mapping[str, np.ndarray]) -> Progress:
    """Return a progress of the structure of `like`, with these arrays.

    Raises:
      CheckpointError: if they belong to another policy, model or optimiser.
    """
    fix = "Resume with the settings of the run, or start a new one"
    named = _named(like)
    expected = {name for name, _ in named}
    arrays = {name: array for name, array in arrays.items() if name not in GONE}
    for name in sorted(expected ^ set(arrays)):
        problem = "missing" if name in expected else "not expected"
        raise CheckpointError(name, problem, fix)
    for name, leaf in named:
        found, wanted = arrays[name], np.asarray(leaf)
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            problem = f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}"
            raise CheckpointError(name, f"{problem}{list(wanted.shape)}", fix)
    dynamic, static = eqx.partition((like.state, like.best), eqx.is_array)
    leaves = [jax.numpy.asarray(arrays[name]) for name, _ in named]
    state, best = eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), leaves), static)
    return Progress(state, best, like.run)


def _named(progress: Progress) -> list[tuple[str, Any]]:
    dynamic = eqx.filter((progress.state, progress.best), eqx.is_array)
    leaves, _ = jax.tree_util.tree_flatten_with_path(dynamic)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def to_json(run: RunState) -> dict[str, Any]:
    """Return a state in values that JSON can hold."""
    return run._asdict()


def from_json(content: Mapping[str, Any]) -> RunState:
    """Rebuild a state from `to_json`, or from version 0.1, as far as its fields still exist."""
    known = dict(content)
    if "choice" in known:
        known["model_class"] = known["choice"][0]
    known["best_promise"] = known.get("best_promise", known.get("best_lower"))
    return RunState(**{name: known[name] for name in RunState._fields if name in known})
