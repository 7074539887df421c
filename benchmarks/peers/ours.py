"""gamps on the logs of the comparison: its default, with half a log, with an estimated task."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from benchmarks.peers.domains import DOMAINS, GOLF, evaluate, log_of, returns
from benchmarks.robots import known
from benchmarks.studies.simulated import Simulated
from gamps import datasets
from gamps.envs import pendulum, swimmer, tanks
from gamps.learner import ModelClass, Settings, learn, model_classes
from gamps.models import learned_task
from gamps.policies import Gaussian, LinearGaussianPolicy, Policy, SoftClipped
from gamps.search.fitting import Keep
from gamps.tasks import Task
from gamps.trajectories import split

TASKS = {
    "minigolf": GOLF.task,
    "swimmer": swimmer.task,
    "pendulum": pendulum.task,
    "tanks": tanks.task,
    "hopper": known.hopper,
    "cheetah": known.cheetah,
    "reacher": known.reacher,
}
FEATURES = {
    "minigolf": GOLF.model_features,
    "swimmer": swimmer.clipped,
    "pendulum": pendulum.clipped,
    "tanks": tanks.clipped,
    **dict.fromkeys(known.ROBOTS, known.clipped),
}
STATES = 40  # an iteration, with MuJoCo as the model: a thousand times slower than a network
TOGETHER = 8  # logs; programs of dozens would take all memory maps that a process has
_WORKED = itertools.count()
HALF = "half"  # of the log, as gamps train leaves to learning
ESTIMATED = "estimated"  # reward and termination, from the log in place of functions
VARIANTS = ("default", HALF, ESTIMATED)


@cache  # other functions would be other programs to compile
def problem(family: str) -> tuple[Task, dict[str, ModelClass]]:
    """The task, and kinds of models; the feature map is all that knows the problem."""
    return TASKS[family](), dict(model_classes(FEATURES[family], rectified=family == "minigolf"))


def start(name: str) -> Gaussian:
    """The behaviour policy, bent to the actuators, its deviation in the hands of the search."""
    behaviour = replace(DOMAINS[name].behaviour(), learn_std=False)
    if not isinstance(behaviour, LinearGaussianPolicy):
        return behaviour
    return SoftClipped.of(behaviour, *DOMAINS[name].bounds)


def at_random(name: str) -> _Uniform:
    """Any action that the actuators have, all equally likely."""
    low, high = DOMAINS[name].bounds
    shape = DOMAINS[name].behaviour().log_std.shape
    return _Uniform(jnp.full(shape, low, dtype=float), jnp.full(shape, high, dtype=float))


class _Uniform(Policy):
    """Between two actions, by the normal distribution function of the noise."""

    low: Array
    high: Array

    @property
    def noise_size(self) -> int:
        """One number a dimension."""
        return len(self.low)

    def act(self, observation: Any, noise: Array) -> Any:
        """Anywhere."""
        del observation
        return self.low + (self.high - self.low) * jax.scipy.stats.norm.cdf(noise)

    def log_prob(self, observation: Any, action: Any) -> Array:
        """The same everywhere."""
        del observation, action
        return -jnp.sum(jnp.log(self.high - self.low))


def silent(policy: Any) -> Policy:
    """The mean action."""
    return _Mean(policy)


class _Mean(Policy):
    """A policy without noise, whose density nobody asks for."""

    policy: Policy

    @property
    def noise_size(self) -> int:
        """That of the policy."""
        return self.policy.noise_size

    def act(self, observation: Any, noise: Array) -> Any:
        """The middle action."""
        return self.policy.act(observation, jnp.zeros_like(noise))

    def log_prob(self, observation: Any, action: Any) -> Array:
        """None."""
        del observation, action
        return jnp.zeros(())


def _true(name: str) -> ModelClass:
    """The problem itself; MuJoCo's takes minutes a training."""
    if name.startswith("minigolf"):
        return ModelClass(lambda *_: GOLF, Keep())
    env = DOMAINS[name].env
    return ModelClass(lambda key, _: Simulated(env, jax.random.uniform(key)), Keep())


def work(cell: dict[str, Any]) -> dict[str, Any]:
    """One training from scratch, and the return of its policies in the true simulator."""
    name, seed, variant = cell["domain"], cell["seed"], cell["variant"]
    if next(_WORKED) % TOGETHER == 0:
        jax.clear_caches()
    family = name.split("-")[0]
    os.environ["MINARI_DATASETS_PATH"] = cell["logs"]
    log_of(name, seed, Path(cell["logs"]))
    log = datasets.load(f"{name}/seed{seed}-v0").trajectories
    if variant == HALF:
        log, _ = split(log, 0.5, seed=seed)
    behaviour = start(name)
    quality: dict[str, Any] = {}
    if variant in ("behaviour", "random"):
        value = _measured(name, seed, behaviour if variant == "behaviour" else at_random(name))
        if variant == "random":  # it has no mean action to speak of
            value["final"] = value["stochastic"]
        return value | {"chosen": value["final"], "best": value["final"], "processor_seconds": 0.0}
    (task, chosen), settings = problem(family), Settings()
    if variant == "truth":
        chosen = {"truth": _true(name)}
        if family != "minigolf":  # members are alike, and each of them simulates every step
            settings = settings._replace(states=STATES, members=2)
    began, processor = time.perf_counter(), time.process_time()
    if variant == ESTIMATED:
        task, fit = learned_task(jax.random.key(seed), log, float(task.discount), FEATURES[family])
        quality = {"quality": fit._asdict()}
    key = jax.random.fold_in(jax.random.key(seed), 2)
    outcome = learn(log, task, behaviour, chosen, seed=key, settings=settings)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    handed_out, last = _measured(name, seed, outcome.policy), outcome.last
    last_return = evaluate(name, silent(last), seed)
    shown = np.where(log.mask, log.rewards, 0.0) @ float(task.discount) ** np.arange(log.n_steps)
    return (
        handed_out
        | quality
        | {
            "last": last_return,
            "best": max(last_return, handed_out["final"]),
            "chosen": handed_out["final"],
            "run": outcome.run._asdict(),
            "shown": float(shown.mean()),
            "seconds": seconds,
            "processor_seconds": processor,
        }
    )


def _measured(name: str, seed: int, policy: Policy) -> dict[str, float]:
    """Fresh returns of the mean action and with noise, with their errors, and discounted."""
    discount = float(TASKS[name.split("-")[0]]().discount)
    ways = {
        "final": returns(name, silent(policy), seed),
        "stochastic": returns(name, policy, seed),
        "discounted": returns(name, policy, seed, discount),
    }
    means = {way: float(each.mean()) for way, each in ways.items()}
    errors = {f"{way}_error": float(each.std(ddof=1) / len(each) ** 0.5)
              for way, each in ways.items()}  # fmt: skip
    return means | errors
