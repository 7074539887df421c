"""Add sums of different scales without overflow or underflow."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Sums(NamedTuple):
    """Sums over a part of the log.

    Attributes:
      log_scale: the true sums are `scaled` times the exponential of this.
      scaled: sums whose true size may be too large to represent.
      plain: sums without a scale.
    """

    log_scale: Float[Array, ""]
    scaled: Any
    plain: Any


@jax.jit
def add(a: Sums, b: Sums) -> Sums:
    """Add two sums, on the larger of their scales.

    Examples:
      >>> zero = jnp.zeros(())
      >>> float(add(Sums(zero + 200, zero + 1, ()), Sums(zero - 200, zero + 1, ())).scaled)
      1.0
    """
    scale = jnp.maximum(a.log_scale, b.log_scale)
    left, right = jnp.exp(a.log_scale - scale), jnp.exp(b.log_scale - scale)
    return Sums(
        scale,
        jax.tree.map(lambda x, y: left * x + right * y, a.scaled, b.scaled),
        jax.tree.map(jnp.add, a.plain, b.plain),
    )


def totals(sums: Iterable[tuple[Sums, ...]]) -> tuple[Sums, ...]:
    """Add sums as they arrive; wait for each, or shards would pile up in memory before use."""
    total: tuple[Sums, ...] = ()
    for more in sums:
        total = tuple(add(a, b) for a, b in zip(total, more, strict=True)) if total else more
        jax.block_until_ready(total)
    return total
