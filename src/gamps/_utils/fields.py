"""Numbers that a user sets and sweeps."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array


def as_number(value: Any) -> Array:
    """An array of the default float type, whatever kind of number it was.

    Python's and NumPy's numbers are of different types to a compiler; after this they are not, so
    that a sweep over either compiles once.
    """
    return jnp.asarray(value, dtype=jnp.result_type(float))


def number(default: float | None = None) -> Any:
    """A field of a module for a number that can be swept without compiling again."""
    if default is None:
        return eqx.field(converter=as_number)
    return eqx.field(default=default, converter=as_number)


def as_count(value: Any) -> Array:
    """An array of the default integer type."""
    return jnp.asarray(value, dtype=jnp.result_type(int))


def count(default: int) -> Any:
    """A field of a module for how often something is done, at most, by one program for all."""
    return eqx.field(default=default, converter=as_count)
