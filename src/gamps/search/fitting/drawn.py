"""Fits to a sample of the log, at a cost that the user sets."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps.errors import SettingError
from gamps.search.sampling import drawn, single
from gamps.trajectories import Trajectories


class SubsampledFit(eqx.Module):
    """Fit to transitions drawn in proportion to their weights; all drawn ones then count alike.

    The weighted likelihood keeps its mean. The model is noisier than one fitted to the whole log,
    as noisy as one fitted to this many effective transitions.

    Attributes:
      fit: how to fit the model to the drawn transitions.
      steps: number of transitions, drawn anew each iteration.
    """

    fit: Callable[..., tuple[Any, Float[Array, ""]]]
    steps: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.steps < 1:
            raise SettingError("steps", f"{self.steps}", "Draw at least one")

    def __call__(
        self,
        key: Key[Array, ""],
        model: Any,
        trajectories: Trajectories,
        weights: Float[Array, "N T"],
    ) -> tuple[Any, Float[Array, ""]]:
        """Fit to drawn transitions; the loss is theirs."""
        key_draw, key_fit = jax.random.split(key)
        used = jnp.where(trajectories.mask, weights, 0.0)
        # Scale the largest weight to one: sums of tiny weights would be rounded.
        used = used / jnp.maximum(jnp.max(used), jnp.finfo(used.dtype).tiny)
        some = single(trajectories, *drawn(key_draw, used, self.steps))
        return self.fit(key_fit, model, some, some.mask.astype(weights.dtype))
