"""The interface of transition models.

Everything is written for one unbatched transition, except the sufficient statistics of models with
a closed-form fit: they are sums over transitions, so they add up over the shards of a log.
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
        """Number of standard normal numbers that `step` needs."""
        raise NotImplementedError

    def step(self, observation: Any, action: Any, noise: Float[Array, "Z"]) -> Any:
        """The next observation for these standard normal numbers."""
        raise NotImplementedError

    def sample(self, key: Key[Array, ""], observation: Any, action: Any) -> Any:
        """Draw the next observation."""
        noise = jax.random.normal(key, (self.noise_size,), dtype=float)
        return self.step(observation, action, noise)


class ClosedFormModel(Model):
    """A model that is fitted from weighted sums over transitions."""

    @property
    def passes(self) -> int:
        """Number of passes over the log; each uses the model that the previous one fitted."""
        return 1

    def statistics(
        self, observations: Any, actions: Any, next_observations: Any, weights: Float[Array, "n"]
    ) -> Any:
        """Weighted sufficient statistics of `n` transitions; they add up over shards."""
        raise NotImplementedError

    def from_statistics(self, statistics: Any) -> ClosedFormModel:
        """The model that is most likely given these statistics, or fits them best."""
        raise NotImplementedError


class FiniteModel(ClosedFormModel):
    """A model of finitely many states and actions, whose values can be computed exactly."""

    @property
    def noise_size(self) -> int:
        """One number, for the inverse of the distribution function."""
        return 1

    def transitions(self) -> Float[Array, "S A S"]:
        """p̂(s'|s, a) as a table."""
        raise NotImplementedError

    def states(self) -> Any:
        """`[S, ...]`, one observation per state."""
        raise NotImplementedError

    def index(self, observation: Any) -> Int[Array, ""]:
        """The number of the state that an observation shows."""
        raise NotImplementedError
