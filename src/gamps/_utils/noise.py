"""Randomness as standard normal numbers, so that it can be drawn once, shared, or negated.

A policy or model says how many it needs (`noise_size`) and turns them into a draw. Negated standard
normal numbers are equally likely, so they give every part an antithetic draw.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key


def normal(key: Key[Array, ""], shape: Sequence[int], dtype: Any) -> Float[Array, "..."]:
    """The same numbers as `jax.random.normal`, bit for bit, drawn flat and reshaped afterwards.

    With several axes, the last ones short, each number's position is computed from all axes, which
    takes seconds to compile and makes draws slower.
    """
    return jax.random.normal(key, (math.prod(shape),), dtype).reshape(*shape)


def categorical(logits: Float[Array, "A"], noise: Float[Array, "1"]) -> Int[Array, ""]:
    """Invert the distribution function of softmax(logits) at Φ(noise); some logits may be -inf.

    Examples:
      >>> logits = jnp.log(jnp.array([0.2, 0.0, 0.8]))
      >>> [int(categorical(logits, jnp.array([z]))) for z in (-2.0, 0.0)]
      [0, 2]
    """
    cumulative = jnp.cumsum(jax.nn.softmax(logits))
    # Below one even after rounding, so that no impossible outcome at the end is chosen.
    below = 1 - jnp.finfo(cumulative.dtype).epsneg
    level = jnp.minimum(jax.scipy.special.ndtr(noise[0]), below).astype(cumulative.dtype)
    return jnp.sum(cumulative <= level * cumulative[-1])
