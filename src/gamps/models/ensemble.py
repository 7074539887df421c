"""Several models as one: their mixture."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps.errors import SettingError
from gamps.models.types import Model
from gamps.noise import categorical


class Ensemble(Model):
    """Each transition follows one of the members, all equally likely.

    Attributes:
      members: a model whose every array has a leading axis of members, as
        `eqx.filter_vmap(make)(keys)` gives.
      size: how many.
    """

    members: Any
    size: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        found = {len(x) for x in jax.tree.leaves(eqx.filter(self.members, eqx.is_array))}
        if found != {self.size}:
            raise SettingError(
                "members",
                f"leading axes of {sorted(found)} for size {self.size}",
                "Build them by eqx.filter_vmap(make)(jax.random.split(key, size))",
            )

    def _each(self, method: str, *arguments: Any) -> Any:
        """A method of every member, on the same arguments; members as the leading axis."""
        apply = eqx.filter_vmap(
            lambda member: getattr(member, method)(*arguments), in_axes=(eqx.if_array(0),)
        )
        return apply(self.members)

    def log_prob(self, observation: Any, action: Any, next_observation: Any) -> Float[Array, ""]:
        """Of the mixture."""
        each = self._each("log_prob", observation, action, next_observation)
        return jax.nn.logsumexp(each) - jnp.log(self.size)

    @property
    def noise_size(self) -> int:
        """One number for the choice of the member, the rest is the member's own."""
        return 1 + int(self.members.noise_size)

    def step(self, observation: Any, action: Any, noise: Float[Array, "Z"]) -> Any:
        """The next observation of the member that the first number chooses."""
        following = self._each("step", observation, action, noise[1:])
        chosen = categorical(jnp.zeros(self.size, noise.dtype), noise[:1])
        # All are computed and one is picked: a gather of weights for each column is far slower.
        picked = jnp.arange(self.size) == chosen
        picked = picked.reshape(-1, *(1,) * (following.ndim - 1))
        return jnp.sum(jnp.where(picked, following, 0), axis=0).astype(following.dtype)
