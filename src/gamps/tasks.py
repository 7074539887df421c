"""The known part of the MDP: reward, termination and discount."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gamps.errors import SettingError


def never(observation: Any, action: Any, next_observation: Any) -> Array:
    """Never terminate: episodes go on until they are cut off."""
    del observation, action, next_observation
    return jnp.asarray(False)


def _discount(value: Any) -> Array:
    if isinstance(value, (int, float, np.floating)) and not 0 < value <= 1:
        raise SettingError("discount", f"{value}", "Choose it in (0, 1]")
    return jnp.asarray(value, dtype=jnp.result_type(float))


def _bounds(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    least, most = (float(x) for x in value)
    if not (math.isfinite(least) and math.isfinite(most) and least < most):
        raise SettingError("bounds", f"{value}", "Give two numbers, the least and the largest")
    return least, most


class Task(eqx.Module):
    """What the user knows about the problem; the same for real and imagined transitions.

    Attributes:
      reward: `reward(observation, action, next_observation)` of one unbatched transition.
      discount: γ in (0, 1]; a traced value, so sweeping it does not recompile.
      terminal: `terminal(observation, action, next_observation)`, True where an episode ends.
      returns: the least and the largest discounted return that an episode can have, if you know
        them for sure; a verdict then holds however rare the losing episodes are.
      rewards: the least and the largest reward of a step, which imply bounds on the return.
    """

    reward: Callable[[Any, Any, Any], Any]
    discount: Float[Array, "*seeds"] | float = eqx.field(converter=_discount)
    terminal: Callable[[Any, Any, Any], Any] = never
    returns: tuple[float, float] | None = eqx.field(default=None, static=True, converter=_bounds)
    rewards: tuple[float, float] | None = eqx.field(default=None, static=True, converter=_bounds)

    def return_bounds(self, steps: int | None) -> tuple[float, float] | None:
        """Declared bounds on the return of an episode of at most `steps` steps, or None.

        Without `steps` an episode may last for ever.

        Examples:
          >>> Task(lambda s, a, n: 0.0, 0.5, rewards=(-1, 2)).return_bounds(2)
          (-1.5, 3.0)
          >>> Task(lambda s, a, n: 0.0, 0.5, rewards=(-1, 2)).return_bounds(None)
          (-2.0, 4.0)
        """
        if self.returns is not None or self.rewards is None:
            return self.returns
        discount = float(self.discount)
        if steps is None and discount == 1:
            problem = "no episode was cut off, so nothing limits how long one may last"
            raise SettingError(
                "rewards", problem, "Give the bounds of the return: returns=(low, high)"
            )
        whole = 1 / (1 - discount) if steps is None else float(np.sum(discount ** np.arange(steps)))
        least, most = self.rewards  # an episode may end at once
        return (whole * min(least, 0.0), whole * max(most, 0.0))
