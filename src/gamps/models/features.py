"""Features for closed-form models: richer functions of observation and action."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gamps.models.gaussian import concatenated
from gamps.trajectories import Trajectories, flat

Features = Callable[[Any, Any], Float[Array, "F"]]
SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(6))  # of Taylor's series


def products(x: Float[Array, "n"]) -> Float[Array, "F"]:
    """One, the entries, and all products of two entries."""
    # Products of (1, x), so that two gathers make them all: concatenated pieces, mapped over
    # columns, would be transposed twice.
    rows, columns = np.triu_indices(len(x) + 1)
    extended = jnp.pad(x, (1, 0), constant_values=1)
    return extended[rows] * extended[columns]


def cosine(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Cosine, to 1e-6 in single precision, in a fifth of the compiler's time on a CPU.

    It counts turns, drops the whole ones, and shifts by a quarter: the sine of at most a right
    angle.
    """
    if x.dtype != jnp.float32:
        return jnp.cos(x)
    turns = x * (0.5 / math.pi)
    angle = 2 * math.pi * (0.25 - jnp.abs(turns - jnp.round(turns)))
    square = angle * angle
    series = jnp.full_like(x, SINE[-1])
    for coefficient in SINE[-2::-1]:
        series = series * square + coefficient
    return series * angle


class Quadratic(eqx.Module):
    """One, all entries of the base features, and all products of two of them.

    Attributes:
      base: features of one observation and one action; their concatenation by default.

    Examples:
      >>> Quadratic()(jnp.array([2.0]), jnp.array([3.0])).tolist()
      [1.0, 2.0, 3.0, 4.0, 6.0, 9.0]
    """

    base: Features = concatenated

    def __call__(self, observation: Any, action: Any) -> Float[Array, "F"]:
        """`[1 + n + n (n + 1) / 2]`."""
        return products(self.base(observation, action))


class RandomFourier(eqx.Module):
    """One, the base features, and random cosines of them: an approximate Gaussian kernel.

    Attributes:
      frequencies: `[F, n]`, drawn once, for features that are not standardised.
      phases: `[F]`.
      base: features of one observation and one action; their concatenation by default.
    """

    frequencies: Float[Array, "*seeds F n"]
    phases: Float[Array, "*seeds F"]
    base: Features = concatenated

    @classmethod
    def create(
        cls,
        key: Key[Array, ""],
        trajectories: Trajectories,
        *,
        size: int = 100,
        width: float = 2.0,
        base: Features = concatenated,
    ) -> RandomFourier:
        """Draw cosines for a kernel whose width is `width` standard deviations of the log."""
        x = jax.vmap(base)(flat(trajectories.states), flat(trajectories.actions))
        used = flat(trajectories.mask)[:, None]
        share = used / jnp.sum(used)
        mean = jnp.sum(share * x, axis=0)
        std = jnp.sqrt(jnp.sum(share * (x - mean) ** 2, axis=0))
        key_frequency, key_phase = jax.random.split(key)
        normals = jax.random.normal(key_frequency, (size, x.shape[1]), x.dtype)
        phases = jax.random.uniform(key_phase, (size,), x.dtype, 0.0, 2 * math.pi)
        return cls(normals / (width * jnp.where(std > 0, std, 1.0)), phases, base)

    def __call__(self, observation: Any, action: Any) -> Float[Array, "F"]:
        """`[1 + n + F]`."""
        frequencies, phases = jax.lax.stop_gradient((self.frequencies, self.phases))
        x = self.base(observation, action)
        return jnp.concatenate([jnp.ones_like(x[:1]), x, cosine(frequencies @ x + phases)])
