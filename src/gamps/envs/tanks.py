"""Two tanks in a row: a pump fills the first, which drains into the second, which drains away.

The level of the second tank has to stay at a set point. The logging controller only looks at the
second level, has no integral part and a wrong offset, so it settles well below the set point.
Levels are shares of a tank's height; the pump's power lies between zero and full.
"""

import math
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from gymnasium.experimental.functional import FuncEnv
from gymnasium.wrappers import TimeLimit
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gamps.envs.adapter import NumpyEnv
from gamps.models.gaussian import concatenated
from gamps.policies import LinearGaussianPolicy
from gamps.tasks import Task

ID = "gamps/TwoTanks-v0"
HORIZON = 60
DISCOUNT = 0.98
SET_POINT = 0.6
PUMP, FIRST_OUTLET, SECOND_OUTLET = 0.12, 0.11, 0.10
NOISE = 0.01
EFFORT = 0.1
GAINS = (0.0, -0.8, 0.7)  # for both levels, and the constant 1


class TwoTanks(FuncEnv[Any, Any, Any, Any, Any, Any, Any]):
    """The plant; an observation is both levels."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

    def initial(self, rng: PRNGKeyArray, params: None = None) -> Float[Array, "2"]:
        """Start anywhere between a tenth and nine tenths full."""
        del params
        return jax.random.uniform(rng, (2,), dtype=float, minval=0.1, maxval=0.9)

    def transition(
        self,
        state: Float[Array, "2"],
        action: Float[Array, "1"],
        rng: PRNGKeyArray,
        params: None = None,
    ) -> Float[Array, "2"]:
        """One step of the water balance, with noise; a full tank overflows."""
        del params
        through = FIRST_OUTLET * jnp.sqrt(state[0])
        away = SECOND_OUTLET * jnp.sqrt(state[1])
        change = jnp.stack([PUMP * jnp.clip(action[0], 0.0, 1.0) - through, through - away])
        noise = NOISE * jax.random.normal(rng, (2,), dtype=float)
        return jnp.clip(state + change + noise, 0.0, 1.0)

    def observation(
        self, state: Float[Array, "2"], rng: PRNGKeyArray, params: None = None
    ) -> Float[Array, "2"]:
        """Both levels."""
        del rng, params
        return state

    def reward(
        self,
        state: Float[Array, "2"],
        action: Float[Array, "1"],
        next_state: Float[Array, "2"],
        rng: PRNGKeyArray | None = None,
        params: None = None,
    ) -> Float[Array, ""]:
        """The reward of the task."""
        del rng, params
        return reward(state, action, next_state)

    def terminal(
        self, state: Float[Array, "2"], rng: PRNGKeyArray | None = None, params: None = None
    ) -> Bool[Array, ""]:
        """Never: the plant runs until the episode is cut off."""
        del state, rng, params
        return jnp.asarray(False)


def reward(
    observation: Float[Array, "2"], action: Float[Array, "1"], next_observation: Float[Array, "2"]
) -> Float[Array, ""]:
    """Minus the squared distance to the set point, in tenths, minus the pump's effort."""
    del observation
    off = 10 * (next_observation[1] - SET_POINT)
    return -(off**2) - EFFORT * jnp.clip(action[0], 0.0, 1.0)


def task() -> Task:
    """The known reward; an episode never ends by itself."""
    return Task(reward, DISCOUNT)


def policy(std: float = 0.2) -> LinearGaussianPolicy:
    """The controller of the log: affine in both levels, with fixed standard deviation."""
    return LinearGaussianPolicy(
        jnp.asarray(GAINS, dtype=float)[:, None],
        log_std=jnp.full(1, math.log(std), dtype=float),
        learn_std=False,
    )


def clipped(observation: Float[Array, "2"], action: Float[Array, "1"]) -> Float[Array, "3"]:
    """Input for a model that knows what the pump does: it clips the action to its range."""
    return concatenated(observation, jnp.clip(action, 0.0, 1.0))


def make(render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Entry point for `gymnasium.make("gamps/TwoTanks-v0")`."""
    return TimeLimit(NumpyEnv(TwoTanks(), render_mode=render_mode), HORIZON)
