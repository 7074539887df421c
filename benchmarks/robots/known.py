"""What a user knows of each robot: reward, end, actuators, and the controller of the log.

The physics is Gymnasium's own. Forward velocity is (x' - x) / dt there, and x is not observed; the
mean of the velocities before and after a step stands for it. The controllers were trained by
controller.py; around their mean action lies normal noise, so that every density is known.
"""

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from safetensors import safe_open

from gamps._utils.networks import MLP
from gamps.models import concatenated
from gamps.policies import MLPGaussianPolicy
from gamps.tasks import Task

NOISES = {"small": 0.1, "medium": 0.2, "large": 0.4}
DISCOUNT = 0.99
HERE = Path(__file__).parent


class Robot(NamedTuple):
    """One of them.

    Attributes:
      env: Gymnasium's id.
      task: what is known.
      horizon: steps after which an episode is cut off.
      random: return of actions at random.
      best: a good return: of SAC after a million steps, as published or measured.
    """

    env: str
    task: Task
    horizon: int
    random: float
    best: float


def hopper_fell(
    observation: Float[Array, "D"], action: Float[Array, "A"], next_observation: Float[Array, "D"]
) -> Bool[Array, ""]:
    """Too low, too far bent, or flung away."""
    del observation, action
    height, angle, rest = next_observation[0], next_observation[1], next_observation[1:]
    return (height <= 0.7) | (jnp.abs(angle) >= 0.2) | jnp.any(jnp.abs(rest) >= 100.0)


def hopper_reward(
    observation: Float[Array, "D"], action: Float[Array, "A"], next_observation: Float[Array, "D"]
) -> Float[Array, ""]:
    """Forward, upright, at little cost."""
    forward = (observation[5] + next_observation[5]) / 2
    upright = 1.0 - hopper_fell(observation, action, next_observation)
    return forward + upright - 1e-3 * jnp.sum(action**2)


def cheetah_reward(
    observation: Float[Array, "D"], action: Float[Array, "A"], next_observation: Float[Array, "D"]
) -> Float[Array, ""]:
    """Forward, at little cost."""
    return (observation[8] + next_observation[8]) / 2 - 0.1 * jnp.sum(action**2)


def reacher_reward(
    observation: Float[Array, "D"], action: Float[Array, "A"], next_observation: Float[Array, "D"]
) -> Float[Array, ""]:
    """Near the target, at little cost."""
    del observation
    return -jnp.linalg.norm(next_observation[8:10]) - jnp.sum(action**2)


ROBOTS = {
    "hopper": Robot("Hopper-v5", Task(hopper_reward, DISCOUNT, hopper_fell), 1_000, 20.0, 3_300.0),
    "cheetah": Robot("HalfCheetah-v5", Task(cheetah_reward, DISCOUNT), 1_000, -280.0, 10_000.0),
    "reacher": Robot("Reacher-v5", Task(reacher_reward, DISCOUNT), 50, -43.0, -4.0),
}


def hopper() -> Task:
    """Its task."""
    return ROBOTS["hopper"].task


def cheetah() -> Task:
    """Its task."""
    return ROBOTS["cheetah"].task


def reacher() -> Task:
    """Its task."""
    return ROBOTS["reacher"].task


def clipped(observation: Any, action: Float[Array, "A"]) -> Float[Array, "F"]:
    """Input of a model that knows what the actuators do: the action clipped to ±1."""
    return concatenated(observation, jnp.clip(action, -1.0, 1.0))


@cache
def controller(name: str, noise: str = "medium") -> MLPGaussianPolicy:
    """What made the logs: tanh after each layer, and a last one that passes on what comes."""
    with safe_open(HERE / f"{ROBOTS[name].env}.safetensors", framework="numpy") as file:
        arrays = {key: jnp.asarray(file.get_tensor(key)) for key in file.keys()}  # noqa: SIM118
    depth = len(arrays) // 2
    actions = len(arrays[f"{depth - 1}.bias"])
    pairs = [(arrays[f"{i}.weight"], arrays[f"{i}.bias"]) for i in range(depth)]
    pairs.append((jnp.eye(actions), jnp.zeros(actions)))
    network = MLP(jax.random.key(0), [pairs[0][0].shape[1], *(len(bias) for _, bias in pairs)])
    leaves = [leaf for pair in pairs for leaf in pair]
    network = eqx.tree_at(
        lambda n: [x for layer in n.layers for x in (layer.weight, layer.bias)], network, leaves
    )
    deviation = jnp.full(actions, math.log(NOISES[noise]), dtype=float)
    return MLPGaussianPolicy(network, log_std=deviation, learn_std=False)


def made(name: str) -> dict[str, Any]:
    """What is known of a controller: the command, its steps, what it was worth."""
    with safe_open(HERE / f"{ROBOTS[name].env}.safetensors", framework="numpy") as file:
        found: dict[str, Any] = json.loads(file.metadata()["made"])
    return found
