"""gamps on the logs of the comparison: its default, and each of its decisions taken away."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from domains import DOMAINS, GOLF, evaluate, log_of
from jaxtyping import Array

from gamps import datasets
from gamps.envs import pendulum, swimmer
from gamps.envs.simulated import Simulated
from gamps.fitting import Keep
from gamps.learning import ModelClass, Settings, classes_of, learn
from gamps.policies import LinearGaussian, Policy

TASKS = {"minigolf": GOLF.task, "swimmer": swimmer.task, "pendulum": pendulum.task}
FEATURES = {
    "minigolf": GOLF.model_features,
    "swimmer": swimmer.clipped,
    "pendulum": pendulum.clipped,
}
STATES = 40  # an iteration, with MuJoCo as the model: a thousand times slower than a network
VARIANTS = ("default", "β = 0", "β = 1", "quadratic", "network")


def classes(family: str) -> dict[str, ModelClass]:
    """What evidence chooses among; the feature map is all that knows the problem."""
    return dict(classes_of(FEATURES[family], rectified=family == "minigolf"))


def start(behaviour: LinearGaussian) -> LinearGaussian:
    """The behaviour policy, its deviation in the hands of the search."""
    return LinearGaussian(
        behaviour.weights, behaviour.features, log_std=behaviour.log_std, learn_std=False
    )


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
    jax.clear_caches()  # programs of dozens of logs would take all memory maps that a process has
    family = name.split("-")[0]
    os.environ["MINARI_DATASETS_PATH"] = cell["logs"]
    log_of(name, seed, Path(cell["logs"]))
    log = datasets.load(f"{name}/seed{seed}-v0").trajectories
    behaviour = start(DOMAINS[name].behaviour())
    if variant == "behaviour":
        value = evaluate(name, silent(behaviour), seed)
        return {"final": value, "chosen": value, "best": value, "processor_seconds": 0.0}
    chosen, settings = classes(family), Settings()
    if variant in chosen:
        chosen = {variant: chosen[variant]}
    if variant.startswith("β"):
        settings = settings._replace(exponents=(float(variant.split("=")[1]),))
    if variant == "truth":
        chosen, settings = {"truth": _true(name)}, settings._replace(exponents=(0.0,))
        if family != "minigolf":
            settings = settings._replace(states=STATES)
    began, processor = time.perf_counter(), time.process_time()
    key = jax.random.fold_in(jax.random.key(seed), 2)
    outcome = learn(key, log, TASKS[family](), behaviour, chosen, settings=settings)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    curve = [evaluate(name, silent(r.policy), seed) for r in outcome.rounds]
    final = evaluate(name, silent(outcome.policy), seed)
    return {
        "final": final,
        "last": curve[-1],
        "best": max(curve),
        "curve": curve,
        "stochastic": evaluate(name, outcome.policy, seed),
        "chosen": final,
        "round": outcome.chosen,
        "rounds": [{k: v for k, v in r._asdict().items() if k != "policy"} for r in outcome.rounds],
        "seconds": seconds,
        "processor_seconds": processor,
    }
