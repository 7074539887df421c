"""Fitted Q evaluation for numbered states and actions: a table from frequencies."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from gamps.policies import OneHot, Policy
from gamps.trajectories import Trajectories

LARGE = 1_000  # with more pairs, a regression with one feature each would not fit into memory


class FittedTable(NamedTuple):
    """Q̂_h(s, a), with h steps left.

    Attributes:
      q_values: `[T, S, A]`, the first with one step left.
      policy: `[S, A]`, probabilities of the policy whose values these are.
      features: features that give a state's number.
    """

    q_values: np.ndarray
    policy: np.ndarray
    features: OneHot

    def at(
        self, key: Array, log: Trajectories, horizon: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`[N, T]` Q at the pairs of a log and V at its states; nothing is drawn."""
        del key
        mask = np.asarray(log.mask)
        states = _states(self.features, log.states)[mask]
        last = (log.n_steps if horizon is None else horizon) - 1
        left = np.broadcast_to(last - np.arange(log.n_steps), mask.shape)[mask]
        q = self.q_values[left, states]
        table = np.zeros((2, *mask.shape))
        table[0][mask] = q[np.arange(len(q)), np.asarray(log.actions)[mask]]
        table[1][mask] = (self.policy[states] * q).sum(axis=1)
        return table[0], table[1]


def fitted_table(
    policy: Policy, log: Trajectories, discount: float, features: Any, steps: int
) -> FittedTable:
    """Average r + γ V̂(s') over the transitions of each pair, once for each step.

    A pair that was never seen gets the mean of its state's other pairs, weighted by their counts; a
    state that was never seen gets the mean of all states, weighted alike.

    Args:
      policy: the policy to evaluate.
      log: episodes to learn from.
      discount: γ.
      features: features that give a state's number.
      steps: length of the episodes to judge by.
    """
    mask = np.asarray(log.mask)
    last = np.arange(log.n_steps) == mask.sum(axis=1)[:, None] - 1
    goes_on = ~(last & np.asarray(log.terminated)[:, None])[mask]
    states, following = (_states(features, x)[mask] for x in (log.states, log.next_states))
    shape = (features.size, int(policy.choices or 0))
    pairs = states * shape[1] + np.asarray(log.actions)[mask]
    size = shape[0] * shape[1]
    counts = np.bincount(pairs, minlength=size)
    seen, n = counts > 0, np.maximum(counts, 1)
    rewards = np.bincount(pairs, np.asarray(log.rewards, np.float64)[mask], size) / n
    visits = counts.reshape(shape)
    shares = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1)
    new, of_all = shares.sum(axis=1) == 0, visits.sum(axis=1) / max(visits.sum(), 1)
    pi = np.asarray(_probabilities(policy, features, shape), np.float64)
    tables, v = [], np.zeros(shape[0])
    for _ in range(steps):
        q = rewards + discount * np.bincount(pairs, goes_on * v[following], size) / n
        q = q.reshape(shape)
        q = np.where(seen.reshape(shape), q, (shares * q).sum(axis=1, keepdims=True))
        v = (pi * q).sum(axis=1)
        q[new] = v[new] = of_all @ v
        tables.append(q)
    return FittedTable(np.stack(tables), pi, features)


def _states(features: OneHot, observations: Array) -> np.ndarray:
    return np.asarray(jax.vmap(jax.vmap(features.state))(observations))


@eqx.filter_jit
def _probabilities(policy: Policy, features: OneHot, shape: tuple[int, int]) -> Array:
    states, actions = jax.numpy.arange(shape[0]), jax.numpy.arange(shape[1])
    if features.index is not None:
        states = jax.numpy.zeros((shape[0], features.index + 1), int).at[:, -1].set(states)
    each = jax.vmap(jax.vmap(policy.log_prob, (None, 0)), (0, None))
    return jax.numpy.exp(each(states, actions))
