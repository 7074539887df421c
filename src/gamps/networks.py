"""The network that policies and models share: dense layers with tanh between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


class MLP(eqx.Module):
    """Dense layers, tanh after all but the last, for one unbatched input.

    Mapped over a trailing axis of the input (`jax.vmap(net, in_axes=-1, out_axes=-1)`) every
    product is weights times a matrix of columns, which is the fast arrangement on a CPU.

    Attributes:
      layers: each `y = W x + b`.

    Examples:
      >>> MLP(jax.random.key(0), (3, 32, 32, 2))(jnp.ones(3)).shape
      (2,)
    """

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, key: Key[Array, ""], sizes: Sequence[int]) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        dtype = jnp.result_type(float)
        self.layers = tuple(
            eqx.nn.Linear(inputs, outputs, key=k, dtype=dtype)
            for k, (inputs, outputs) in zip(keys, pairwise(sizes), strict=True)
        )

    def __call__(self, x: Float[Array, "inputs"]) -> Float[Array, "outputs"]:
        """The last layer is linear."""
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x))
        return self.layers[-1](x)
