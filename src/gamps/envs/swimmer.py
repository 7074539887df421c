"""The three-link swimmer of Gymnasium, `Swimmer-v5` on MuJoCo: what a user knows about it.

The physics is Gymnasium's own; this file has the known part: reward, policy class, discount. MuJoCo
clips controls to ±1, while the control cost and every density use the raw action.
"""

import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps.models.gaussian import concatenated
from gamps.policies import LinearGaussianPolicy
from gamps.tasks import Task

ID = "Swimmer-v5"
HORIZON = 200
DISCOUNT = 0.99
CONTROL_COST = 1e-4
FORWARD = 3  # entry of an observation that holds the velocity along x
OBSERVATIONS, ACTIONS = 8, 2


def reward(
    observation: Float[Array, "D"], action: Float[Array, "A"], next_observation: Float[Array, "D"]
) -> Float[Array, ""]:
    """Forward velocity over the step, minus the cost of control.

    The simulator uses (x' - x) / dt, but x is not observed. The mean of the velocities before and
    after the step equals that difference up to the curvature within a step.
    """
    velocity = (observation[FORWARD] + next_observation[FORWARD]) / 2
    return velocity - CONTROL_COST * jnp.sum(action**2)


def task() -> Task:
    """The known reward; an episode never ends by itself."""
    return Task(reward, DISCOUNT)


def policy(std: float = 0.5) -> LinearGaussianPolicy:
    """A policy with mean zero everywhere, affine in the observation, fixed standard deviation."""
    return LinearGaussianPolicy(
        jnp.zeros((OBSERVATIONS + 1, ACTIONS)),
        log_std=jnp.full(ACTIONS, math.log(std), dtype=float),
        learn_std=False,
    )


def clipped(observation: Any, action: Float[Array, "A"]) -> Float[Array, "F"]:
    """Input for a model that knows what the actuators do: they clip the action to ±1."""
    return concatenated(observation, jnp.clip(action, -1.0, 1.0))
