"""The known part of the MDP: reward, termination and discount."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gamps.errors import SettingError


def never(observation: Any, action: Any, next_observation: Any) -> Array:
    """Termination of a task that goes on until the log is cut off."""
    del observation, action, next_observation
    return jnp.asarray(False)


def _discount(value: Any) -> Array:
    if isinstance(value, (int, float, np.floating)) and not 0 < value <= 1:
        raise SettingError("discount", f"{value}", "Choose it in (0, 1]")
    return jnp.asarray(value, dtype=jnp.result_type(float))


class Task(eqx.Module):
    """What the user knows about the problem; the same for real and imagined transitions.

    Attributes:
      reward: `reward(observation, action, next_observation)`, one unbatched transition.
      discount: γ in (0, 1]; a traced value, so sweeping it does not recompile.
      terminal: `terminal(observation, action, next_observation)`, True where an episode ends.
    """

    reward: Callable[[Any, Any, Any], Any]
    discount: Float[Array, "*seeds"] | float = eqx.field(converter=_discount)
    terminal: Callable[[Any, Any, Any], Any] = never
