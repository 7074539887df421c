"""The map on Swimmer: the all-action gradient in a fitted model and in MuJoCo itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from benchmarks.studies.awareness.all_action import fitted, gradient
from benchmarks.studies.awareness.weighting import WEIGHTS
from benchmarks.studies.simulated import Simulated
from gamps import datasets
from gamps.envs import swimmer
from gamps.learner import Classes, ModelClass, model_classes
from gamps.models import Ensemble, LinearGaussianModel, LogRange
from gamps.paper.table1 import cosine
from gamps.policies import LinearGaussianPolicy
from gamps.trajectories import Trajectories

DISTANCES = (0.0, 0.5, 1.0)
STATES, AHEAD = 400, 25
STD = 0.25
GENERATIONS, POPULATION, ELITE = 12, 40, 8


def searched(
    generations: int = GENERATIONS,
    seed: int = 0,
    tell: Callable[[int, np.ndarray], None] | None = None,
) -> Float[np.ndarray, "F A"]:
    """Weights found by the cross-entropy method in the simulator, which no log allows.

    Whole episodes of 200 steps, undiscounted, one a candidate.

    Args:
      generations: of candidates.
      seed: of candidates and starts.
      tell: called with the number of each generation and its mean weights.
    """
    env = gymnasium.make(swimmer.ID, max_episode_steps=swimmer.HORIZON)
    rng = np.random.default_rng(seed)
    shape = (swimmer.OBSERVATIONS + 1, swimmer.ACTIONS)
    middle, spread = np.zeros(shape), np.full(shape, 0.5)
    for generation in range(generations):
        candidates = middle + spread * rng.standard_normal((POPULATION, *shape))
        worth = [episode(env, candidate, generation) for candidate in candidates]
        best = candidates[np.argsort(worth)[-ELITE:]]
        middle, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        if tell is not None:
            tell(generation, middle)
    env.close()
    return middle


def episode(env: Any, weights: np.ndarray, number: int) -> float:
    """The return of the mean action from one start."""
    observation, _ = env.reset(seed=number)
    total, over = 0.0, False
    while not over:
        action = weights.T @ np.append(observation, 1.0)
        observation, reward, _, over, _ = env.step(np.clip(action, -1, 1))
        total += float(reward)
    return total


def with_bias(observation: Array, action: Array) -> Array:
    """Input of the linear class."""
    return jnp.append(swimmer.clipped(observation, action), 1.0)


def classes() -> Classes:
    """A linear class, and those of the default."""
    rich = model_classes(swimmer.clipped)
    size = swimmer.OBSERVATIONS + swimmer.ACTIONS + 1

    def linear(*_: Any) -> LinearGaussianModel:
        zeros = jnp.zeros((size, swimmer.OBSERVATIONS), dtype=float)
        least = jnp.full(swimmer.OBSERVATIONS, 1e-3)
        return LinearGaussianModel(zeros, zeros, with_bias, least, reweighted=True)

    return {"linear": ModelClass(linear, rich["quadratic"].fit), **rich}


def policy_at(distance: float, goal: np.ndarray) -> LinearGaussianPolicy:
    """Between the behaviour policy and the best found, with less noise the nearer to it."""
    start = swimmer.policy()
    log_std = start.log_std + distance * jnp.log(STD / jnp.exp(start.log_std))
    return LinearGaussianPolicy(
        jnp.asarray(distance * goal, dtype=float), log_std=log_std, learn_std=False
    )


@eqx.filter_jit
def _true(key: Array, policy: LinearGaussianPolicy, log: Trajectories) -> Array:
    simulator = Simulated(swimmer.ID, jnp.zeros(()))
    return gradient(key, policy, simulator, swimmer.task(), log, states=STATES, horizon=AHEAD)


@eqx.filter_jit
def _ours(
    key: Array, policy: LinearGaussianPolicy, log: Trajectories, kind: Any, weights: str
) -> Array:
    task = swimmer.task()
    key_make, key_fit = jax.random.split(jax.random.fold_in(key, 1))
    alone = fitted(key_make, key_fit, policy, kind, weights, task, log)
    # In the range of the log, as the default has it: a quadratic model leaves every other.
    members = jax.tree.map(lambda x: x[None] if eqx.is_array(x) else x, alone)
    model = Ensemble(members, 1, LogRange.of(log))
    return gradient(key, policy, model, task, log, states=STATES, horizon=AHEAD)


def rows(
    keys: Key[Array, "seeds"], n: int, kinds: tuple[str, ...], advance: Callable[[str], None]
) -> dict[str, Any]:
    """By model class, distance and weights: one cosine a log."""
    known, goal = classes(), searched()
    start = swimmer.policy()
    found: dict[str, Any] = {
        kind: {str(d): {w: [] for w in WEIGHTS} for d in DISTANCES} for kind in kinds
    }
    for key in keys:
        key_log, key_gradient = jax.random.split(key)
        log = datasets.collect(swimmer.ID, start, key_log, n=n, steps=swimmer.HORIZON)
        for distance in DISTANCES:
            policy = policy_at(distance, goal)
            true = _true(key_gradient, policy, log)
            for kind in kinds:
                for weights in WEIGHTS:
                    ours = _ours(key_gradient, policy, log, known[kind], weights)
                    found[kind][str(distance)][weights].append(float(cosine(ours, true)))
                    advance(f"{n} {kind} {weights}")
    return found
