"""Feature maps for linear policies. Any function of one observation will do."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gamps._utils.fields import number


class OneHot(eqx.Module):
    """Feature map of a discrete observation.

    Attributes:
      size: number of states; with 1, every observation is that state.
      index: entry of a vector observation that holds the state; None if it is the state itself.
    """

    size: int = eqx.field(static=True)
    index: int | None = eqx.field(default=None, static=True)

    def state(self, observation: Int[Array, "..."]) -> Int[Array, ""]:
        """The number of the state."""
        if self.size == 1:
            return jnp.asarray(0)
        return observation if self.index is None else observation[self.index]

    def __call__(self, observation: Int[Array, "..."]) -> Float[Array, "F"]:
        """`[size]`, one at the state and zero elsewhere."""
        return jax.nn.one_hot(self.state(observation), self.size, dtype=jnp.result_type(float))


class Affine(eqx.Module):
    """The observation itself, with a one appended."""

    def __call__(self, observation: Float[Array, "D"]) -> Float[Array, "F"]:
        """`[D + 1]`."""
        return jnp.pad(observation, (0, 1), constant_values=1.0)


class RadialBasis(eqx.Module):
    """exp(-½ ‖(s - c_i) / width‖²), one feature per centre.

    Attributes:
      centres: `[F, D]`, not trained.
      width: one for all dimensions, or one per dimension; not trained.
      normalised: divide the features by their sum, so that they add up to one.

    Examples:
      >>> features = RadialBasis(jnp.array([[0.0], [1.0]]), width=1.0, normalised=True)
      >>> [round(float(x), 2) for x in features(jnp.array([0.5]))]
      [0.5, 0.5]
    """

    centres: Float[Array, "*seeds F D"]
    width: Float[Array, "..."] | float = number()
    normalised: bool = eqx.field(default=False, static=True)

    def __call__(self, observation: Float[Array, "D"]) -> Float[Array, "F"]:
        """`[F]`."""
        centres, width = jax.lax.stop_gradient((self.centres, self.width))
        exponent = -0.5 * jnp.sum(((observation - centres) / width) ** 2, axis=-1)
        # A softmax, because far from all centres every bump underflows but their shares do not.
        return jax.nn.softmax(exponent) if self.normalised else jnp.exp(exponent)
