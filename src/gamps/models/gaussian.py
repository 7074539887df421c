"""Models of the difference between successive observations, normal in each dimension."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from gamps.models.types import Model


def concatenated(
    observation: Float[Array, "D"], action: Float[Array, "A"]
) -> Float[Array, "D_plus_A"]:
    """Observation and action as one vector: the usual input of a model."""
    # Padded and added: mapped over columns, a concatenation would be transposed twice.
    return jnp.pad(observation, (0, len(action))) + jnp.pad(action, (len(observation), 0))


class WithChoice(eqx.Module):
    """Observation and choice as one vector, with the choice one-hot.

    Attributes:
      count: number of choices.

    Examples:
      >>> WithChoice(3)(jnp.array([0.5]), jnp.asarray(2)).tolist()
      [0.5, 0.0, 0.0, 1.0]
    """

    count: int = eqx.field(static=True)

    def __call__(self, observation: Float[Array, "D"], action: Any) -> Float[Array, "F"]:
        """`[D + count]`."""
        chosen = jax.nn.one_hot(action, self.count, dtype=observation.dtype)
        return concatenated(observation, chosen)


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


class WithinLimits(eqx.Module):
    """Observation and action as one vector, with the action clipped as the actuators clip it.

    Attributes:
      low: `[A]`, the least action that makes a difference.
      high: `[A]`, the largest action that makes a difference.

    Examples:
      >>> features = WithinLimits([-1.0], [1.0])
      >>> features(jnp.array([0.5]), jnp.array([3.0])).tolist()
      [0.5, 1.0]
    """

    # In a model the limits are constants, not parameters.
    low: tuple[float, ...] = eqx.field(static=True, converter=_numbers)
    high: tuple[float, ...] = eqx.field(static=True, converter=_numbers)

    def __call__(self, observation: Float[Array, "D"], action: Float[Array, "A"]) -> Any:
        """`[D + A]`."""
        limits = (jnp.asarray(limit, action.dtype) for limit in (self.low, self.high))
        return concatenated(observation, jnp.clip(action, *limits))


class GaussianDifference(Model):
    """s' = s + ε, or s' = s - max(0, ε) if rectified; ε is normal, subclasses give its moments.

    The rectified form, used for minigolf, never moves up: its density has a point mass at s' = s.

    Attributes:
      rectified: s' = s - max(0, ε) instead of s' = s + ε.
    """

    rectified: bool = eqx.field(default=False, static=True, kw_only=True)

    def moments(self, observation: Any, action: Any) -> tuple[Float[Array, "D"], Float[Array, "D"]]:
        """Mean and standard deviation of ε."""
        raise NotImplementedError

    def difference(
        self, observations: Float[Array, "*n D"], next_observations: Float[Array, "*n D"]
    ) -> Float[Array, "*n D"]:
        """The ε of a transition, unless the rectifier cut it off."""
        if self.rectified:
            return observations - next_observations
        return next_observations - observations

    def log_prob(
        self, observation: Float[Array, "D"], action: Any, next_observation: Float[Array, "D"]
    ) -> Float[Array, ""]:
        """Log-density of ε, or log-probability of staying where the rectifier cuts it off."""
        mean, std = self.moments(observation, action)
        difference = self.difference(observation, next_observation)
        density = norm.logpdf(difference, mean, std)
        if self.rectified:
            stays = jnp.where(difference == 0, norm.logcdf(-mean / std), -jnp.inf)
            density = jnp.where(difference > 0, density, stays)
        return jnp.sum(density)

    def step(
        self, observation: Float[Array, "D"], action: Any, noise: Float[Array, "D"]
    ) -> Float[Array, "D"]:
        """The next observation."""
        mean, std = self.moments(observation, action)
        difference = mean + std * noise
        if self.rectified:
            return observation - jnp.maximum(difference, 0.0)
        return observation + difference
