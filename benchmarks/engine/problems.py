"""Searches of any size to measure, from spec that a process can be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from gamps.envs import Minigolf, swimmer
from gamps.models import LinearGaussianModel, MLPGaussianModel
from gamps.search import Search, State, recipes
from gamps.search.fitting import GradientDescent
from gamps.search.values import Imagined
from gamps.trajectories import Trajectories


@dataclass(frozen=True)
class ProblemSpec:
    """What a process is told.

    Attributes:
      problem: minigolf; swimmer, with a linear model; or network, the swimmer with a network.
      log: file of a log; empty for one of the swimmer's size, made up at once.
      trajectories: of a log made up.
      steps: of each of them.
      shards: folder of a log on disk, in place of one in memory.
      rollouts: imaginary ones of a step, `M`.
      horizon: of each, `H`.
      iterations: how many; the first, which compiles, is not timed.
      devices: that a process makes of its core or cores.
      coordinator: host:port, empty for a single process.
      processes: how many there are.
      process: the number of this one.
      core: that it keeps to; -1 for any.
      program: also say what its compiled program hands to other devices.
    """

    problem: str = "swimmer"
    log: str = ""
    trajectories: int = 100
    steps: int = 200
    shards: str = ""
    rollouts: int = 20
    horizon: int = 25
    iterations: int = 10
    devices: int = 1
    coordinator: str = ""
    processes: int = 1
    process: int = 0
    core: int = -1
    program: bool = False


def built(spec: ProblemSpec, log: Trajectories | None = None) -> tuple[Search, State]:
    """The search, on the log that the spec mean, or on the one that is given."""
    key_log, key_model = jax.random.split(jax.random.key(0))
    if log is None and spec.log:
        log = read(Path(spec.log))
    if log is None:
        log = swimming(key_log, spec.trajectories, spec.steps)
    values = Imagined(spec.rollouts, spec.horizon)
    if spec.problem == "minigolf":
        game = Minigolf()
        found = recipes.gamps(log, game.task(), values=values, learning_rate=0.08)
        return found, found.init(game.policy(), game.linear_model())
    policy = swimmer.policy(0.5)
    parts: dict[str, Any] = {"values": values, "learning_rate": 0.008}
    if spec.problem == "network":
        parts["fit"] = GradientDescent(steps=20)
        model: Any = MLPGaussianModel.create(key_model, log)
    else:
        zeros = jnp.zeros((log.states.shape[-1] + log.actions.shape[-1], log.states.shape[-1]))
        model = LinearGaussianModel(zeros, zeros)
    found = recipes.gamps(log, swimmer.task(), **parts)
    return found, found.init(policy, model)


def swimming(key: Any, n: int, steps: int) -> Trajectories:
    """A log of the swimmer's kind at once: a stable linear system, pushed by the random policy."""
    key_start, key_action, key_noise = jax.random.split(key, 3)
    policy = swimmer.policy(0.5)
    size = policy.weights.shape[0] - 1
    pull = 0.9 * jnp.linalg.qr(jax.random.normal(jax.random.key(7), (size, size)))[0]
    push = 0.3 * jax.random.normal(jax.random.key(8), (policy.noise_size, size))
    start = 0.1 * jax.random.normal(key_start, (n, size))
    noise = jax.random.normal(key_action, (steps, n, policy.noise_size))
    luck = 0.05 * jax.random.normal(key_noise, (steps, n, size))

    def one(states: Any, drawn: Any) -> Any:
        actions = jax.vmap(policy.act)(states, drawn[0])
        following = states @ pull + jnp.clip(actions, -1, 1) @ push + drawn[1]
        return following, (states, actions)

    last, (states, actions) = jax.lax.scan(one, start, (noise, luck))
    seen = jnp.concatenate([states, last[None]]).swapaxes(0, 1)
    actions = actions.swapaxes(0, 1)
    log_prob = jax.vmap(jax.vmap(policy.log_prob))(seen[:, :-1], actions)
    rewards = jax.vmap(jax.vmap(swimmer.task().reward))(seen[:, :-1], actions, seen[:, 1:])
    mask = jnp.ones((n, steps), bool)
    return Trajectories(seen, actions, rewards, log_prob, mask, jnp.zeros(n, bool))


def write(path: Path, log: Trajectories) -> Path:
    """Keep a log, for the processes to read."""
    arrays = {name: np.asarray(values) for name, values in vars(log).items() if values is not None}
    path.write_bytes(safetensors.numpy.save(arrays))
    return path


def read(path: Path) -> Trajectories:
    """A log that `write` kept."""
    return Trajectories(**jax.tree.map(jnp.asarray, safetensors.numpy.load(path.read_bytes())))
