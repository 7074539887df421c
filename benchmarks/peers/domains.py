"""The problems of the comparison: their logs, and what a policy is worth in the true simulator."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from benchmarks.robots.known import ROBOTS, controller
from benchmarks.robots.logs import collected
from gamps import datasets
from gamps.envs import Minigolf, TwoTanks, pendulum, swimmer, tanks
from gamps.errors import OutputError
from gamps.policies import Policy

GOLF = Minigolf()


@dataclass(frozen=True)
class Domain:
    """One problem with one size of its log.

    Attributes:
      env: the id that a log names.
      source: what is simulated.
      behaviour: made the log.
      episodes: in a log; of a robot, None: as few as hold 100,000 steps.
      logs: how many logs are reported, seeds 0, 1, …
      horizon: steps after which an episode is cut off.
      bounds: what the actuators clip actions to.
      discount: of the reported return; one is undiscounted.
      steps: gradient steps of a peer.
      fresh: episodes of an evaluation.
    """

    env: str
    source: Any
    behaviour: Callable[[], Any]
    episodes: int | None
    logs: int
    horizon: int
    bounds: tuple[float, float]
    discount: float
    steps: int
    fresh: int


def _golf(episodes: int, logs: int) -> Domain:
    name, bounds = "gamps/Minigolf-v0", (1e-5, 5.0)
    return Domain(name, GOLF, GOLF.policy, episodes, logs, 20, bounds, 0.99, 3_000, 5_000)


def _swimmer(episodes: int, logs: int) -> Domain:
    name, bounds = swimmer.ID, (-1.0, 1.0)
    return Domain(name, name, swimmer.policy, episodes, logs, 200, bounds, 1.0, 10_000, 10)


def _robot(name: str) -> Domain:
    at = ROBOTS[name]
    behaviour = partial(controller, name)
    return Domain(
        at.env, at.env, behaviour, None, 5, at.horizon, (-1.0, 1.0), 1.0, 100_000, ROBOT_FRESH[name]
    )


ROBOT_FRESH = {"hopper": 40, "cheetah": 20, "reacher": 400}
DOMAINS = {
    "minigolf-50": _golf(50, 20),
    "minigolf-500": _golf(500, 20),
    "minigolf-5000": _golf(5_000, 20),
    "swimmer-100": _swimmer(100, 10),
    "swimmer-1000": _swimmer(1_000, 10),
    "pendulum-100": Domain(
        pendulum.ID, pendulum.ID, pendulum.policy, 100, 10, 1_000, (-3.0, 3.0), 1.0, 5_000, 10
    ),
    "tanks-100": Domain(
        tanks.ID, TwoTanks(), tanks.policy, 100, 10, 30, (0.0, 1.0), 0.99, 3_000, 2_000
    ),
    **{name: _robot(name) for name in ROBOTS},
}
# Settings are tried on these logs and reported on none of them.
TUNING = (1000, 1001)


def log_of(name: str, seed: int, root: Path) -> Path:
    """The Minari folder of one log, made if it is not there."""
    domain = DOMAINS[name]
    os.environ["MINARI_DATASETS_PATH"] = str(root)
    dataset = f"{name}/seed{seed}-v0"
    folder = datasets.folder_of(dataset)
    if not folder.exists():
        behaviour = domain.behaviour()
        key = jax.random.fold_in(jax.random.key(seed), 0)
        if domain.episodes is None:
            log = collected(name, "medium", seed)
        else:
            log = datasets.collect(
                domain.source, behaviour, key, n=domain.episodes, steps=domain.horizon
            )
        steps = domain.horizon
        # Another process may have been faster with the same log.
        with contextlib.suppress(OutputError):
            datasets.save(dataset, log, behaviour, env=domain.env, steps=steps, discount=0.99)
    return folder


def returns(
    name: str, policy: Policy, seed: int, discount: float | None = None
) -> Float[np.ndarray, "n"]:
    """Of fresh episodes in the true simulator, the same starts for every policy.

    Args:
      name: of the problem.
      policy: acts.
      seed: of the log.
      discount: another than that of the reported return.
    """
    domain = DOMAINS[name]
    key = jax.random.fold_in(jax.random.key(seed), 1)
    fresh = datasets.collect(domain.source, policy, key, n=domain.fresh, steps=domain.horizon)
    discount = domain.discount if discount is None else discount
    discounts = discount ** np.arange(fresh.n_steps)
    return np.sum(discounts * np.asarray(fresh.rewards), axis=1)


def evaluate(name: str, policy: Policy, seed: int) -> float:
    """Mean return of fresh episodes."""
    return float(np.mean(returns(name, policy, seed)))


class Actor(Policy):
    """A peer's mean action, from the plain numbers that it left.

    Attributes:
      layers: weights and biases, ReLU between them, tanh at the end.
      observations: mean and standard deviation that inputs are scaled by.
      actions: what -1 and 1 stand for.
    """

    layers: tuple[tuple[Array, Array], ...]
    observations: tuple[Array, Array]
    actions: tuple[Array, Array]

    @classmethod
    def of(cls, content: dict[str, Any]) -> Actor:
        """From a checkpoint of train.py."""

        def pair(values: Any) -> tuple[Array, Array]:
            return jnp.asarray(values[0]), jnp.asarray(values[1])

        layers = tuple(pair(layer) for layer in content["layers"])
        width = layers[0][0].shape[1]
        scaler = content["observations"] or (np.zeros(width), np.ones(width))
        return cls(layers, pair(scaler), pair(content["actions"]))

    @property
    def noise_size(self) -> int:
        """None is used; one is drawn."""
        return 1

    def act(self, observation: Array, noise: Array) -> Array:
        """The mean action."""
        del noise
        x = (observation - self.observations[0]) / self.observations[1]
        for weights, bias in self.layers[:-1]:
            x = jax.nn.relu(weights @ x + bias)
        weights, bias = self.layers[-1]
        low, high = self.actions
        return low + (jnp.tanh(weights @ x + bias) + 1) / 2 * (high - low)

    def log_prob(self, observation: Array, action: Array) -> Array:
        """Nobody asks for the density of a fixed action."""
        del observation, action
        return jnp.zeros(())
