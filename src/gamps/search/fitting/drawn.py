"""Fits to some of the log, whose cost is set by the user."""

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
    """Fits to transitions drawn in proportion to their weights, which then count alike.

    The weighted likelihood keeps its mean. The model is noisier than that of the whole log, by as
    much as one fitted to so many effective transitions.

    Attributes:
      fit: how the model is fitted to them.
      steps: how many, anew each iteration.
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
        """The loss is that of the transitions drawn."""
        key_draw, key_fit = jax.random.split(key)
        used = jnp.where(trajectories.mask, weights, 0.0)
        # The largest is made one: sums of tiny weights would round.
        used = used / jnp.maximum(jnp.max(used), jnp.finfo(used.dtype).tiny)
        some = single(trajectories, *drawn(key_draw, used, self.steps))
        return self.fit(key_fit, model, some, some.mask.astype(weights.dtype))
