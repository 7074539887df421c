"""What can be trained: anything that starts, steps, and says how many steps there are."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from gamps.errors import CheckpointError
from gamps.learner import Progress, RunState
from gamps.models import Quality
from gamps.tasks import Task

GONE = {"[0].model.support.typical"}  # arrays of version 0.1 that are of no use any more


@runtime_checkable
class Training(Protocol):
    """A training, iteration by iteration; `learner.Learner` and `SearchTraining` are two.

    Every step depends on nothing but the progress handed to it, so that a training taken up again
    from a checkpoint ends with the same numbers to the last bit.
    """

    total: int
    task: Task
    outcomes: Quality | None  # of reward and termination, where they are estimated

    def start(self) -> Progress:
        """Before the first iteration."""

    def like(self, run: RunState) -> Progress:
        """A progress of the structure that belongs to a state, its arrays of no account."""

    def step(self, progress: Progress) -> tuple[Progress, dict[str, float]]:
        """One iteration, and what to report of it."""


def arrays_of(progress: Progress) -> dict[str, np.ndarray]:
    """All arrays of a progress by their place in it."""
    return {name: np.asarray(leaf) for name, leaf in _named(progress)}


def restored(like: Progress, arrays: Mapping[str, np.ndarray]) -> Progress:
    """A progress with these arrays in the places that `like` has.

    Raises:
      CheckpointError: if they are those of another policy, model or optimiser.
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
            problem = f"{found.dtype}{list(found.shape)} in place of {wanted.dtype}"
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
    """A state as JSON holds it."""
    return run._asdict()


def from_json(content: Mapping[str, Any]) -> RunState:
    """A state from what `to_json` made, or of what version 0.1 kept what there is a place for."""
    known = dict(content)
    if "choice" in known:
        known["model_class"] = known["choice"][0]
    known["best_promise"] = known.get("best_promise", known.get("best_lower"))
    return RunState(**{name: known[name] for name in RunState._fields if name in known})
