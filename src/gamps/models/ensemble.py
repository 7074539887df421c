"""Several models as one: a mixture that stays within the range of the log."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps._utils.noise import categorical
from gamps.errors import SettingError
from gamps.models.types import Model
from gamps.trajectories import Trajectories


class LogRange(eqx.Module):
    """The range of the log, within which a model may be trusted.

    Attributes:
      low: `[D]`, the least observation of the log in each dimension; imagined ones stay above.
      high: `[D]`, the largest; imagined ones stay below.
      unit: `[D]`, standard deviation of the logged differences.
    """

    low: Float[Array, "*seeds D"]
    high: Float[Array, "*seeds D"]
    unit: Float[Array, "*seeds D"]

    @classmethod
    def of(cls, trajectories: Trajectories) -> LogRange:
        """Compute the range of a log."""
        mask = trajectories.mask[..., None]
        observations, following = trajectories.states, trajectories.next_states
        count = jnp.sum(mask)
        differences = following - observations
        mean = jnp.sum(jnp.where(mask, differences, 0.0), axis=(0, 1)) / count
        square = jnp.sum(jnp.where(mask, (differences - mean) ** 2, 0.0), axis=(0, 1)) / count
        observed = trajectories.observations  # padding repeats real observations
        return cls(
            jnp.min(observed, axis=(0, 1)),
            jnp.max(observed, axis=(0, 1)),
            jnp.sqrt(jnp.where(square > 0, square, 1.0)),
        )


class Ensemble(Model):
    """Each transition follows one of the members, all equally likely.

    Attributes:
      members: a model whose arrays all have a leading axis of members, as
        `eqx.filter_vmap(make)(keys)` returns.
      size: number of members.
      support: keeps imagined observations within the range of the log; None leaves them unchanged.
    """

    members: Any
    size: int = eqx.field(static=True)
    support: LogRange | None = None

    def __check_init__(self) -> None:
        sizes = {len(x) for x in jax.tree.leaves(eqx.filter(self.members, eqx.is_array))}
        if sizes != {self.size}:
            raise SettingError(
                "members",
                f"leading axes of {sorted(sizes)} for size {self.size}",
                "Build them with eqx.filter_vmap(make)(jax.random.split(key, size))",
            )

    def member(self, i: int) -> Any:
        """Member `i` alone."""
        return jax.tree.map(lambda x: x[i] if eqx.is_array(x) else x, self.members)

    def alone(self, arrays: Any) -> Model:
        """The member with these arrays, within the ensemble's support."""
        if self.support is None:
            member: Model = eqx.combine(arrays, self.members)
            return member
        members = eqx.combine(jax.tree.map(lambda x: x[None], arrays), self.members)
        return Ensemble(members, 1, self.support)

    def _each(self, method: str, *arguments: Any) -> Any:
        """Call a method of every member with the same arguments; members are the leading axis."""
        apply = eqx.filter_vmap(
            lambda member: getattr(member, method)(*arguments), in_axes=(eqx.if_array(0),)
        )
        return apply(self.members)

    def log_prob(self, observation: Any, action: Any, next_observation: Any) -> Float[Array, ""]:
        """Log-density of the mixture."""
        each = self._each("log_prob", observation, action, next_observation)
        return jax.nn.logsumexp(each) - jnp.log(self.size)

    @property
    def noise_size(self) -> int:
        """One number to choose the member; the member uses the rest."""
        return 1 + int(self.members.noise_size)

    def step(self, observation: Any, action: Any, noise: Float[Array, "Z"]) -> Any:
        """The next observation of the member that the first number selects, within the range."""
        return self.step_and_beyond(observation, action, noise)[0]

    def step_and_beyond(
        self, observation: Any, action: Any, noise: Float[Array, "Z"]
    ) -> tuple[Any, Float[Array, ""]]:
        """The next observation, and how far outside the log's range it would have been."""
        each = self._each("step", observation, action, noise[1:])
        return self.confined(self.choose(each, noise[:1]))

    def choose(self, each: Float[Array, "K ..."], noise: Float[Array, "1"]) -> Float[Array, "..."]:
        """Select one of the members' next observations by a standard normal number."""
        chosen = categorical(jnp.zeros(self.size, noise.dtype), noise)
        # Computing all and picking one is far faster than gathering weights for each column.
        picked = jnp.arange(self.size) == chosen
        picked = picked.reshape(-1, *(1,) * (each.ndim - 1))
        return jnp.sum(jnp.where(picked, each, 0), axis=0).astype(each.dtype)

    def confined(self, following: Float[Array, "D"]) -> tuple[Float[Array, "D"], Float[Array, ""]]:
        """Clip an imagined observation to the log's range; also returns how far outside it was.

        The distance is in widths of the range, summed over the dimensions.
        """
        if self.support is None:
            return following, jnp.zeros((), following.dtype)
        low, high, unit = jax.lax.stop_gradient(
            (self.support.low, self.support.high, self.support.unit)
        )
        inside = jnp.clip(following, low, high).astype(following.dtype)
        width = jnp.where(high > low, high - low, unit)
        return inside, jnp.sum(jnp.abs(following - inside) / width)
