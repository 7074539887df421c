"""Small finite problems and the exact numbers that estimators are held against."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from gymnasium.experimental.functional import FuncEnv
from jax.flatten_util import ravel_pytree

from gamps.exact import tabular
from gamps.policies import Boltzmann, OneHot
from gamps.tasks import Task
from gamps.trajectories import Trajectories


def random_mdp(seed: int, n_states: int, n_actions: int, discount: float) -> tabular.MDP:
    rng = np.random.default_rng(seed)
    return tabular.MDP(
        transitions=jnp.asarray(rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))),
        rewards=jnp.asarray(rng.uniform(-1, 1, (n_states, n_actions))),
        initial=jnp.asarray(rng.dirichlet(np.ones(n_states))),
        discount=jnp.asarray(discount, dtype=float),
    )


def random_policy(seed: int, n_states: int, n_actions: int, scale: float = 1.0) -> Boltzmann:
    weights = scale * np.random.default_rng(1000 + seed).normal(size=(n_states, n_actions))
    return Boltzmann(jnp.asarray(weights), OneHot(n_states))


def exact_limits(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """Of a probability, by how often it came true (Clopper and Pearson)."""
    off = (1 - confidence) / 2
    low = scipy.stats.beta.ppf(off, hits, trials - hits + 1) if hits else 0.0
    high = scipy.stats.beta.ppf(1 - off, hits + 1, trials - hits) if hits < trials else 1.0
    return float(low), float(high)


def stacked(trees: list[Any]) -> Any:
    """Trees of one shape, as one tree with a leading axis to `vmap` over."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def tables(policy: Boltzmann) -> tuple[jax.Array, jax.Array]:
    """π and its scores over all states."""
    n_states, n_actions = policy.weights.shape
    states = jnp.arange(n_states)
    return (
        tabular.policy_table(policy, states, n_actions),
        tabular.score_table(policy, states, n_actions),
    )


def flat(gradient: Any) -> jax.Array:
    return ravel_pytree(eqx.filter(gradient, eqx.is_inexact_array))[0]


class TableTask:
    """Reward r(s, a) of a table; entering `end` terminates. One object is one compiled program."""

    def __init__(self, mdp: tabular.MDP, end: int | None = None) -> None:
        self.rewards, self.end, self.discount = mdp.rewards, end, mdp.discount

    def task(self) -> Task:
        return Task(self.reward, self.discount, self.terminal)

    def reward(self, s, a, following):
        return self.rewards[s, a]

    def terminal(self, s, a, following):
        return following == self.end if self.end is not None else jnp.asarray(False)


class TableEnv(FuncEnv):
    """A finite MDP as a functional environment; entering `end` terminates."""

    def __init__(self, mdp: tabular.MDP, end: int | None = None) -> None:
        super().__init__()
        self.mdp, self.end = mdp, end

    def initial(self, rng, params=None):
        return jax.random.categorical(rng, jnp.log(self.mdp.initial))

    def transition(self, state, action, rng, params=None):
        return jax.random.categorical(rng, jnp.log(self.mdp.transitions[state, action]))

    def observation(self, state, rng, params=None):
        return state

    def reward(self, state, action, next_state, rng, params=None):
        return self.mdp.rewards[state, action]

    def terminal(self, state, rng, params=None):
        return state == self.end if self.end is not None else jnp.asarray(False)


def cut_at(mdp: tabular.MDP, end: int) -> tabular.MDP:
    """The same MDP with nothing after `end`: missing mass, never started there."""
    initial = mdp.initial.at[end].set(0.0)
    return eqx.tree_at(
        lambda m: (m.transitions, m.initial),
        mdp,
        (mdp.transitions.at[:, :, end].set(0.0), initial / jnp.sum(initial)),
    )


def enumerate_trajectories(
    n_states: int, n_actions: int, steps: int, end: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every trajectory of at most `steps` steps that ends on entering `end`, once.

    Returns observations `[n, steps + 1]`, actions `[n, steps]` and mask `[n, steps]`.
    """
    rows = []
    for start in range(n_states):
        if start == end:
            continue
        for moves in itertools.product(
            itertools.product(range(n_actions), range(n_states)), repeat=steps
        ):
            observations, actions, mask = [start], [], []
            for action, following in moves:
                alive = observations[-1] != end
                actions.append(action if alive else 0)
                observations.append(following if alive else end)
                mask.append(alive)
            # Of all continuations past the end keep one.
            if all(a or m == (0, end) for a, m in zip(mask, moves, strict=True)):
                rows.append((observations, actions, mask))
    observations, actions, mask = (np.array(x) for x in zip(*rows, strict=True))
    return observations, actions, mask


def enumerated_log(
    mdp: tabular.MDP, behaviour: Boltzmann, enumerated: tuple[np.ndarray, ...]
) -> tuple[Trajectories, jax.Array]:
    """All trajectories as a log, and the probability of each under the behaviour policy."""
    observations, actions, mask = map(jnp.asarray, enumerated)
    pi_b, _ = tables(behaviour)
    states, following = observations[:, :-1], observations[:, 1:]
    step = pi_b[states, actions] * mdp.transitions[states, actions, following]
    probability = mdp.initial[observations[:, 0]] * jnp.prod(jnp.where(mask, step, 1.0), axis=1)
    log = Trajectories(
        observations=observations,
        actions=actions,
        rewards=jnp.where(mask, mdp.rewards[states, actions], 0.0),
        behaviour_log_prob=jnp.where(mask, jnp.log(pi_b[states, actions]), 0.0),
        mask=mask,
        terminated=~mask[:, -1],
    )
    return log, probability


def weighted_occupancy(mdp, pi, pi_b, norms, steps: int):
    """Σ_{t<steps} γ^t E_b[ρ_{0:t} Σ_{l≤t} n_l 1(s_t, a_t)] by forward recursion over pairs.

    Written from the definition, with behaviour probabilities and ratios step by step.
    """
    ratio = pi / pi_b

    def forward(carry, discount):
        state_mass, state_score = carry  # E[ρ_{0:t-1} 1(s_t)], E[ρ_{0:t-1} Σ_{l<t} n_l 1(s_t)]
        mass = state_mass[:, None] * pi_b * ratio
        score = state_score[:, None] * pi_b * ratio + mass * norms
        following = tuple(jnp.einsum("sa,sat->t", x, mdp.transitions) for x in (mass, score))
        return following, discount * score

    discounts = mdp.discount ** jnp.arange(steps)
    start = (mdp.initial, jnp.zeros_like(mdp.initial))
    return jnp.sum(jax.lax.scan(forward, start, discounts)[1], axis=0)
