"""Fields for numbers that a user sets and sweeps."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array


def as_number(value: Any) -> Array:
    """Convert any kind of number to an array of the default float type.

    To a compiler, Python's and NumPy's numbers have different types; after this they do not, so a
    sweep over either compiles once.
    """
    return jnp.asarray(value, dtype=jnp.result_type(float))


def number(default: float | None = None) -> Any:
    """A module field for a number that can be swept without recompiling."""
    if default is None:
        return eqx.field(converter=as_number)
    return eqx.field(default=default, converter=as_number)


def as_count(value: Any) -> Array:
    """Convert a number to an array of the default integer type."""
    return jnp.asarray(value, dtype=jnp.result_type(int))


def count(default: int) -> Any:
    """A module field for the most times something is done; one program serves all values."""
    return eqx.field(default=default, converter=as_count)
