"""The inverted pendulum of Gymnasium, `InvertedPendulum-v5` on MuJoCo: what a user knows about it.

A cart carries a pole that has to stay upright. The physics is Gymnasium's own; this file has the
known part: reward, termination, discount, and the noisy linear controller that made the log. The
controller ignores the cart, so it drifts away and loses the pole after about a hundred steps.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gamps.models.gaussian import concatenated
from gamps.policies import LinearGaussianPolicy
from gamps.tasks import Task

ID = "InvertedPendulum-v5"
HORIZON = 1000
DISCOUNT = 0.99
ANGLE = 1  # entry of an observation that holds the pole's angle
LARGEST_ANGLE = 0.2
GAINS = (0.0, 4.0, 0.0, 0.5, 0.0)  # for position, angle, their velocities, and the constant 1


def terminal(
    observation: Float[Array, "D"], action: Float[Array, "A"], next_observation: Float[Array, "D"]
) -> Bool[Array, ""]:
    """Whether the pole has fallen."""
    del observation, action
    return jnp.abs(next_observation[ANGLE]) > LARGEST_ANGLE


def reward(
    observation: Float[Array, "D"], action: Float[Array, "A"], next_observation: Float[Array, "D"]
) -> Float[Array, ""]:
    """One for every step that the pole stays up."""
    return 1.0 - terminal(observation, action, next_observation)


def task() -> Task:
    """The known reward; an episode ends when the pole has fallen."""
    return Task(reward, DISCOUNT, terminal)


def policy(std: float = 0.5) -> LinearGaussianPolicy:
    """The controller of the log: affine in the observation, with fixed standard deviation."""
    return LinearGaussianPolicy(
        jnp.asarray(GAINS, dtype=float)[:, None],
        log_std=jnp.full(1, math.log(std), dtype=float),
        learn_std=False,
    )


def clipped(observation: Float[Array, "D"], action: Float[Array, "A"]) -> Float[Array, "F"]:
    """Input for a model that knows what the actuator does: it clips the action to ±3."""
    return concatenated(observation, jnp.clip(action, -3.0, 3.0))
