"""What can be trained: anything that starts, steps, and says how many steps there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from gamps.errors import CheckpointError
from gamps.learner import Progress


@runtime_checkable
class Training(Protocol):
    """A training, iteration by iteration; `learning.Learner` and `Climbing` are two.

    Every step depends on nothing but the progress handed to it, so that a training taken up again
    from a checkpoint ends with the same numbers to the last bit.
    """

    total: int

    def start(self) -> Progress:
        """Before the first iteration."""

    def like(self, plain: dict[str, Any]) -> Progress:
        """A progress of the structure that belongs to `plain`, its arrays of no account."""

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
    mend = "Resume with the settings of the run, or start a new one"
    named = _named(like)
    expected = {name for name, _ in named}
    for name in sorted(expected ^ set(arrays)):
        finding = "missing" if name in expected else "not expected"
        raise CheckpointError(name, finding, mend)
    for name, leaf in named:
        found, wanted = arrays[name], np.asarray(leaf)
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            finding = f"{found.dtype}{list(found.shape)} in place of {wanted.dtype}"
            raise CheckpointError(name, f"{finding}{list(wanted.shape)}", mend)
    dynamic, static = eqx.partition((like.state, like.best), eqx.is_array)
    leaves = [jax.numpy.asarray(arrays[name]) for name, _ in named]
    state, best = eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), leaves), static)
    return Progress(state, best, like.plain)


def _named(progress: Progress) -> list[tuple[str, Any]]:
    dynamic = eqx.filter((progress.state, progress.best), eqx.is_array)
    leaves, _ = jax.tree_util.tree_flatten_with_path(dynamic)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]
