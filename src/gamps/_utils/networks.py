"""The network that policies and models share: dense layers with tanh between them."""

import math
from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


class MLP(eqx.Module):
    """Dense layers, tanh after all but the last, for one unbatched input.

    When mapped over a trailing axis of the input (`jax.vmap(net, in_axes=-1, out_axes=-1)`), every
    product is weights times a matrix of columns, which is the fast arrangement on a CPU.

    Attributes:
      layers: each `y = W x + b`.

    Examples:
      >>> MLP(jax.random.key(0), (3, 32, 32, 2))(jnp.ones(3)).shape
      (2,)
    """

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, key: Key[Array, ""], sizes: Sequence[int]) -> None:
        dtype = jnp.result_type(float)
        pairs = list(pairwise(sizes))
        keys = jax.random.split(key, len(pairs))
        bounds = jnp.asarray([1 / math.sqrt(inputs) for inputs in sizes[:-1]], dtype)
        largest = max(inputs * outputs for inputs, outputs in pairs)

        def uniform(key: Array, bound: Array) -> Array:
            return jax.random.uniform(key, (largest,), dtype, -bound, bound)

        # The same numbers as `eqx.nn.Linear`, but in one draw: each draw takes long to compile.
        draws = jax.vmap(jax.vmap(uniform, (0, None)))(jax.vmap(jax.random.split)(keys), bounds)
        self.layers = tuple(
            _linear(weight[: inputs * outputs].reshape(outputs, inputs), bias[:outputs])
            for (weight, bias), (inputs, outputs) in zip(draws, pairs, strict=True)
        )

    def __call__(self, x: Float[Array, "inputs"]) -> Float[Array, "outputs"]:
        """Apply the network; the last layer is linear."""
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x))
        return self.layers[-1](x)


def _linear(weight: Array, bias: Array) -> eqx.nn.Linear:
    outputs, inputs = weight.shape
    shaped = eqx.filter_eval_shape(eqx.nn.Linear, inputs, outputs, key=jax.random.key(0))
    layer: eqx.nn.Linear = eqx.tree_at(lambda x: (x.weight, x.bias), shaped, (weight, bias))
    return layer
