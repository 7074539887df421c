"""Two problems on which off-policy evaluation is tested: their truth is known or can be had."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gamps.envs import Minigolf, collect
from gamps.envs.minigolf import HORIZON
from gamps.envs.two_areas import two_areas
from gamps.evaluation import Evidence
from gamps.exact import tabular
from gamps.paper.setup import policy_table
from gamps.policies import Boltzmann, LinearGaussianPolicy, Policy
from gamps.trajectories import Trajectories

FRESH = 40_000  # episodes that stand for the truth of minigolf, eight times over


@dataclasses.dataclass(frozen=True)
class Problem:
    """An environment, its logging policy, and policies ever further from it.

    Attributes:
      env: functional.
      behaviour: the logging policy.
      target: a policy at a signed distance; better in one direction, at first.
      distances: that coverage is looked at for.
      steps: of an episode, at most.
      discount: γ.
      lowest: return that an episode can have.
      value: the true mean return of a policy, and its standard error.
      gain: over the logging policy, in the same games.
    """

    env: Any
    behaviour: Policy
    target: Callable[[float], Policy]
    distances: tuple[float, ...]
    steps: int
    discount: float
    lowest: float
    value: Callable[[Policy], tuple[float, float]]
    gain: Callable[[Policy], tuple[float, float]]

    def log(self, policy: Policy, key: Any, n: int) -> Trajectories:
        """Episodes under a policy."""
        return _collect(self.env, policy, key, n, self.steps)


@eqx.filter_jit
def _collect(env: Any, policy: Policy, key: Any, n: int, steps: int) -> Trajectories:
    return collect(env, policy, key, n=n, steps=steps)


def exact(env: Any) -> Callable[[np.ndarray], float]:
    """Of a gridworld: the value of probabilities `[S, A]`, step by step through an episode."""
    mdp, discount = env.mdp(), env.layout.discount
    rewards, moves, first = (
        np.asarray(x, np.float64) for x in (mdp.rewards, mdp.transitions, mdp.initial)
    )

    def value(pi: np.ndarray) -> float:
        v = np.zeros(len(pi))
        for _ in range(env.layout.horizon):
            v = (pi * (rewards + discount * moves @ v)).sum(axis=1)
        return float(first @ v)

    return value


@eqx.filter_jit
def _probabilities(env: Any, policy: Policy) -> Any:
    return policy_table(env, policy)


def probabilities(env: Any, policy: Policy) -> np.ndarray:
    """`[S, A]` of a policy, in a gridworld."""
    return np.asarray(_probabilities(env, policy), np.float64)


def gridworld() -> Problem:
    """Layout B, its truth by dynamic programming over the steps of an episode."""
    env = two_areas("B")
    steps, discount, mdp = env.layout.horizon, env.layout.discount, env.mdp()
    behaviour = env.behaviour(jax.random.key(0))
    best = mdp.rewards + discount * mdp.transitions @ tabular.optimal_values(mdp)
    loss = jnp.where((env.forced < 0)[:, None], best - best.max(axis=1, keepdims=True), 0.0)

    def target(distance: float) -> Boltzmann:
        moved = behaviour.weights + 4 * distance * loss
        return eqx.tree_at(lambda p: p.weights, behaviour, moved)

    of_table = exact(env)
    base = of_table(probabilities(env, behaviour))

    def value(policy: Policy) -> tuple[float, float]:
        return of_table(probabilities(env, policy)), 0.0

    def gain(policy: Policy) -> tuple[float, float]:
        return value(policy)[0] - base, 0.0

    lowest = -(1 - discount**steps) / (1 - discount)
    distances = (-0.6, -0.3, -0.1, 0.1, 0.3, 1.0)
    return Problem(env, behaviour, target, distances, steps, discount, lowest, value, gain)


def minigolf() -> Problem:
    """Strokes that become weaker and steadier; the truth by fresh games, the same for everyone."""
    env = Minigolf()
    behaviour, discount = env.policy(), float(env.discount)

    def target(distance: float) -> LinearGaussianPolicy:
        std = jnp.log(jnp.full(1, 1 - 0.3 * abs(distance)))
        moved = (behaviour.weights * (1 - 0.45 * distance), std)
        return eqx.tree_at(lambda p: (p.weights, p.log_std), behaviour, moved)

    def returns(policy: Policy) -> np.ndarray:
        found = []
        for i in range(8):
            log = _collect(env, policy, jax.random.key(10**6 + i), FRESH, HORIZON)
            found.append(np.asarray(log.rewards, np.float64) @ discount ** np.arange(HORIZON))
        return np.concatenate(found)

    def mean(numbers: np.ndarray) -> tuple[float, float]:
        return float(numbers.mean()), float(numbers.std() / np.sqrt(len(numbers)))

    base = returns(behaviour)

    distances = (-0.5, 0.15, 0.3, 0.45, 0.6, 1.0)
    # Nineteen strokes short of the hole, and one past it, undiscounted.
    return Problem(
        env, behaviour, target, distances, HORIZON, discount, -119.0,
        value=lambda policy: mean(returns(policy)),
        gain=lambda policy: mean(returns(policy) - base),
    )  # fmt: skip


PROBLEMS: dict[str, Callable[[], Problem]] = {"gridworld": gridworld, "minigolf": minigolf}


def part(found: Evidence, rows: slice) -> Evidence:
    """The evidence of some episodes."""
    return Evidence(
        *(x if x is None or name == "discounts" else x[rows] for name, x in found._asdict().items())
    )
