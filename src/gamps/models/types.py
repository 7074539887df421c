"""The interface of transition models.

All is written for one unbatched transition, but for the sufficient statistics of models with a
closed-form fit, which are sums over transitions and so add up over shards of a log.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key


class Model(eqx.Module):
    """The interface of every transition model."""

    def log_prob(self, observation: Any, action: Any, next_observation: Any) -> Float[Array, ""]:
        """Log-density of one transition."""
        raise NotImplementedError

    @property
    def noise_size(self) -> int:
        """How many standard normal numbers one transition is made of."""
        raise NotImplementedError

    def step(self, observation: Any, action: Any, noise: Float[Array, "Z"]) -> Any:
        """The next observation that these standard normal numbers choose."""
        raise NotImplementedError

    def sample(self, key: Key[Array, ""], observation: Any, action: Any) -> Any:
        """Draw the next observation."""
        noise = jax.random.normal(key, (self.noise_size,), dtype=float)
        return self.step(observation, action, noise)


class ClosedFormModel(Model):
    """A model that is fitted from weighted sums over transitions."""

    @property
    def passes(self) -> int:
        """Over the log, each with the statistics of the model that the last one made."""
        return 1

    def statistics(
        self, observations: Any, actions: Any, next_observations: Any, weights: Float[Array, "n"]
    ) -> Any:
        """Weighted sufficient statistics of `n` transitions: a sum, so shards add up."""
        raise NotImplementedError

    def from_statistics(self, statistics: Any) -> ClosedFormModel:
        """The model that these statistics make most likely, or fit best."""
        raise NotImplementedError


class FiniteModel(ClosedFormModel):
    """A model of finitely many states and actions, whose values can be solved exactly."""

    @property
    def noise_size(self) -> int:
        """One number, inverted through the distribution function."""
        return 1

    def transitions(self) -> Float[Array, "S A S"]:
        """p̂(s'|s, a) as a table."""
        raise NotImplementedError

    def states(self) -> Any:
        """`[S, ...]`, one observation a state."""
        raise NotImplementedError

    def index(self, observation: Any) -> Int[Array, ""]:
        """The state that an observation shows."""
        raise NotImplementedError
