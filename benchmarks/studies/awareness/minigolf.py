"""The map on minigolf: the all-action gradient in a fitted model and in the true game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from benchmarks.studies.awareness.all_action import fitted, gradient
from benchmarks.studies.awareness.weighting import WEIGHTS
from gamps.envs import Minigolf
from gamps.envs.minigolf import HORIZON
from gamps.learner import Classes, ModelClass, model_classes
from gamps.paper.golf_setup import logs_of
from gamps.paper.table1 import cosine
from gamps.policies import LinearGaussianPolicy
from gamps.trajectories import Trajectories

DISTANCES = (0.0, 0.5, 1.0)
STATES = 400
STD = 0.5


def target(env: Minigolf) -> Float[Array, "F A"]:
    """Weights whose mean action is closest to the best one, by least squares over the green."""
    _, best = env.solution()
    middles = (jnp.arange(len(best)) + 0.5) / len(best) * env.length
    features = jax.vmap(env.policy().features)(middles[:, None])
    found: Array = jnp.linalg.lstsq(features, best[:, None])[0]
    return found


def policy_at(env: Minigolf, distance: float, goal: Float[Array, "F A"]) -> LinearGaussianPolicy:
    """Between the behaviour policy and the best, with less noise the nearer to the best."""
    start = env.policy()
    weights = (1 - distance) * start.weights + distance * goal
    log_std = distance * jnp.log(jnp.full(1, STD))
    return LinearGaussianPolicy(weights, start.features, log_std=log_std, learn_std=False)


def classes(env: Minigolf) -> Classes:
    """The paper's class, and those of the default."""
    rich = model_classes(env.model_features, rectified=True)
    linear = ModelClass(lambda *_: env.linear_model(), rich["quadratic"].fit)
    return {"linear": linear, **rich}


@eqx.filter_jit
def cosines(
    env: Minigolf,
    logs: Trajectories,
    keys: Key[Array, "seeds"],
    policy: LinearGaussianPolicy,
    kind: ModelClass,
    weights: str,
) -> Float[Array, "seeds"]:
    """Of the all-action gradient in the fitted model to that in the true game, log by log."""
    task = env.task()

    def one(log: Trajectories, key: Array) -> Array:
        # Apart from the keys that made the log, which are the first of the same split.
        key_make, key_fit, key_gradient = jax.random.split(jax.random.fold_in(key, 1_000), 3)
        model = fitted(key_make, key_fit, policy, kind, weights, task, log)
        ours, true = (
            gradient(key_gradient, policy, m, task, log, states=STATES, horizon=HORIZON)
            for m in (model, env)
        )
        return cosine(ours, true)

    each: Array = jax.lax.map(lambda both: one(*both), (logs, keys))
    return each


def rows(
    keys: Key[Array, "seeds"], n: int, kinds: tuple[str, ...], advance: Callable[[str], None]
) -> dict[str, Any]:
    """By model class, distance and weights: one cosine a log."""
    env = Minigolf()
    goal, known, logs = target(env), classes(env), logs_of(env, keys, std=1.0, n=n)
    found: dict[str, Any] = {}
    for name in kinds:
        for distance in DISTANCES:
            policy, row = policy_at(env, distance, goal), {}
            for weights in WEIGHTS:
                row[weights] = np.asarray(cosines(env, logs, keys, policy, known[name], weights))
                advance(f"{n} {name} {weights}")
            found.setdefault(name, {})[str(distance)] = row
    return found
