"""The paper's swimmer model: a network for mean and standard deviation of the difference."""

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

STILL = 1e-3  # of its deviation is the unit in which an observation that never changes may change


class Scale(eqx.Module):
    """Shift and scale that make a quantity's log have mean zero and deviation one; not trained."""

    mean: Float[Array, "*seeds n"]
    std: Float[Array, "*seeds n"]

    @classmethod
    def of(
        cls, values: Float[Array, "n_samples n"], mask: Array, constant: ArrayLike = 1.0
    ) -> Scale:
        """Of the values where the mask is True; a column that never changes has the given unit."""
        share = (mask / jnp.sum(mask))[:, None]
        mean = jnp.sum(share * values, axis=0)
        std = jnp.sqrt(jnp.sum(share * (values - mean) ** 2, axis=0))
        used = mask[:, None]
        largest = jnp.max(jnp.where(used, values, -jnp.inf), axis=0)
        # Compared by its ends: the deviation of a constant is rounding, and seldom exactly zero.
        varies = largest > jnp.min(jnp.where(used, values, jnp.inf), axis=0)
        return cls(mean, jnp.where(varies, std, constant))


class MLPGaussianModel(GaussianDifference):
    """ε = scale of (m + exp(l) noise), where the network gives m and l of standardised input.

    Attributes:
      network: from standardised input to `[2 D]`: means, then log standard deviations.
      inputs: standardisation of φ(s, a).
      outputs: standardisation of ε.
      features: φ, a function of one observation and one action; their concatenation by default.
      least_std: added to every standard deviation, in the unit of the log's: without it a network
        that can predict a simulator spends itself on what it predicts best.
      most_std: no standard deviation beyond so many of the log's, whatever the input: a logistic
        function in place of exp; None is exp.
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
        """A random network, with the standardisation of a log."""
        states, mask = flat(trajectories.states), flat(trajectories.mask)
        x = jax.vmap(features)(states, flat(trajectories.actions))
        following = flat(trajectories.next_states)
        differences = states - following if rectified else following - states
        size = states.shape[-1]
        network = MLP(key, (x.shape[-1], *hidden, 2 * size))
        # What is the same throughout an episode, a target say, must not be made to wander.
        still = STILL * Scale.of(states, mask).std
        inputs, outputs = Scale.of(x, mask), Scale.of(differences, mask, still)
        return cls(network, inputs, outputs, features, least_std, most_std, rectified=rectified)

    @property
    def noise_size(self) -> int:
        """One number a dimension of the observation."""
        return int(self.outputs.mean.shape[-1])

    def moments(self, observation: Any, action: Any) -> tuple[Float[Array, "D"], Float[Array, "D"]]:
        """Of the difference in its own unit."""
        inputs, outputs, least = jax.lax.stop_gradient((self.inputs, self.outputs, self.least_std))
        x = (self.features(observation, action) - inputs.mean) / inputs.std
        mean, log_std = jnp.split(self.network(x), 2)
        most = self.most_std
        # For small ones the logistic function is exp.
        std = jnp.exp(log_std) if most is None else most * jax.nn.sigmoid(log_std - math.log(most))
        return outputs.mean + outputs.std * mean, outputs.std * (least + std)
