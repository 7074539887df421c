"""The paper's swimmer model: a network gives mean and standard deviation of the difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Key

from gamps._utils.fields import number
from gamps._utils.networks import MLP
from gamps.models.gaussian import GaussianDifference, concatenated
from gamps.trajectories import Trajectories, flat

STILL = 1e-3  # unit of change for an entry that never changes, as a share of its deviation


class Scale(eqx.Module):
    """Shift and scale that give logged values mean zero and deviation one; not trained."""

    mean: Float[Array, "*seeds n"]
    std: Float[Array, "*seeds n"]

    @classmethod
    def of(
        cls, values: Float[Array, "n_samples n"], mask: Array, constant: ArrayLike = 1.0
    ) -> Scale:
        """Use the values where the mask is True; a constant column has the unit `constant`."""
        share = (mask / jnp.sum(mask))[:, None]
        mean = jnp.sum(share * values, axis=0)
        std = jnp.sqrt(jnp.sum(share * (values - mean) ** 2, axis=0))
        used = mask[:, None]
        largest = jnp.max(jnp.where(used, values, -jnp.inf), axis=0)
        # Compare the extremes: rounding makes the deviation of a constant seldom exactly zero.
        varies = largest > jnp.min(jnp.where(used, values, jnp.inf), axis=0)
        return cls(mean, jnp.where(varies, std, constant))


class MLPGaussianModel(GaussianDifference):
    """ε = scaled (m + exp(l) noise); a network computes m and l from standardised input.

    Attributes:
      network: maps standardised input to `[2 D]`: means, then log standard deviations.
      inputs: standardisation of φ(s, a).
      outputs: standardisation of ε.
      features: φ, a function of one observation and one action; their concatenation by default.
      least_std: added to every standard deviation, in units of the log's: without it, a network
        that can predict a simulator concentrates on what it predicts best.
      most_std: the largest standard deviation for any input, in units of the log's; a logistic
        function replaces exp. None keeps exp.
    """

    network: MLP
    inputs: Scale
    outputs: Scale
    features: Callable[[Any, Any], Float[Array, "F"]] = concatenated
    least_std: Float[Array, "*seeds"] | float = number(0.0)
    most_std: float | None = eqx.field(default=None, static=True)

    @classmethod
    def create(
        cls,
        key: Key[Array, ""],
        trajectories: Trajectories,
        *,
        hidden: Sequence[int] = (32, 32),
        features: Callable[[Any, Any], Float[Array, "F"]] = concatenated,
        rectified: bool = False,
        least_std: float = 0.0,
        most_std: float | None = None,
    ) -> MLPGaussianModel:
        """Make a random network, standardised for a log."""
        states, mask = flat(trajectories.states), flat(trajectories.mask)
        x = jax.vmap(features)(states, flat(trajectories.actions))
        following = flat(trajectories.next_states)
        differences = states - following if rectified else following - states
        size = states.shape[-1]
        network = MLP(key, (x.shape[-1], *hidden, 2 * size))
        # An entry that is constant within an episode, such as a target, must not drift.
        still = STILL * Scale.of(states, mask).std
        inputs, outputs = Scale.of(x, mask), Scale.of(differences, mask, still)
        return cls(network, inputs, outputs, features, least_std, most_std, rectified=rectified)

    @property
    def noise_size(self) -> int:
        """One number per dimension of the observation."""
        return int(self.outputs.mean.shape[-1])

    def moments(self, observation: Any, action: Any) -> tuple[Float[Array, "D"], Float[Array, "D"]]:
        """Mean and standard deviation of the difference, in its own units."""
        inputs, outputs, least = jax.lax.stop_gradient((self.inputs, self.outputs, self.least_std))
        x = (self.features(observation, action) - inputs.mean) / inputs.std
        mean, log_std = jnp.split(self.network(x), 2)
        most = self.most_std
        # For small values the logistic function equals exp.
        std = jnp.exp(log_std) if most is None else most * jax.nn.sigmoid(log_std - math.log(most))
        return outputs.mean + outputs.std * mean, outputs.std * (least + std)
