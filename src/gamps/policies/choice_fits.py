"""Fit a softmax policy to logged choices, or recover it from their logged probabilities."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gamps._utils.networks import MLP
from gamps.errors import SettingError
from gamps.policies.boltzmann import Boltzmann
from gamps.policies.features import Affine, OneHot
from gamps.trajectories import Trajectories, flat

HIDDEN = (32, 32)
STEPS, ROWS, KNOWN = 30, 20_000, 5e-4  # Newton's steps; steps of the log they use; tolerance
NEVER = -20.0  # logit of an action that a policy never takes


def unfitted_choices(
    key: Array, log: Trajectories, *, network: bool = False, space: Trajectories | None = None
) -> Boltzmann:
    """An unfitted policy: a table for numbered states, otherwise affine or a network.

    Args:
      key: randomness of the network's weights.
      log: the log that the policy will be fitted to.
      network: use a network instead of an affine policy.
      space: a log that has all existing states and choices; by default `log`.
    """
    log = log if space is None else space
    count = int(log.actions.max()) + 1
    if jnp.issubdtype(log.states.dtype, jnp.integer):
        number = None if log.states.ndim == 2 else 0
        states = log.observations if number is None else log.observations[..., 0]
        table = OneHot(int(states.max()) + 1, index=number)
        return Boltzmann(jnp.zeros((table.size, count), dtype=float), table)
    if log.states.ndim != 3:
        raise SettingError("observations", f"{log.states.shape[2:]}", "Flatten them into a vector")
    size = log.states.shape[-1]
    if not network:
        return Boltzmann(jnp.zeros((size + 1, count), dtype=float), Affine())
    return Boltzmann(jnp.eye(count, dtype=float), MLP(key, (size, *HIDDEN, count)))


def frequencies(policy: Boltzmann, log: Trajectories) -> Boltzmann:
    """Fit a table: how often each action was taken in each state.

    An action never taken in a state gets no probability there, because it may be forbidden.
    """
    states, actions, _ = _pairs(policy, log)
    counts = np.zeros(policy.weights.shape)
    np.add.at(counts, (states, actions), 1.0)
    visits = counts.sum(axis=1, keepdims=True)
    shares = np.maximum(counts / np.maximum(visits, 1.0), np.exp(NEVER))
    return _with_logits(policy, np.where(visits > 0, np.log(shares), 0.0))


def recognised_choices(policy: Boltzmann, log: Trajectories) -> Boltzmann:
    """The softmax that made the log, if a policy of this class has the logged probabilities."""
    if isinstance(policy.features, OneHot):
        return _recognised_table(policy, log)
    if not isinstance(policy.features, Affine):
        return policy
    mask = np.asarray(flat(log.mask))
    states, actions, densities = (
        np.asarray(flat(x))[mask] for x in (log.states, log.actions, log.behaviour_log_prob)
    )
    x = np.concatenate([states, np.ones((len(states), 1))], axis=1).astype(np.float64)
    chosen = np.eye(policy.choices)[actions]
    weights = np.asarray(policy.weights, np.float64)
    some = np.random.default_rng(0).permutation(len(x))[:ROWS]

    def off(rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = x[rows] @ weights
        logits = logits - logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return densities[rows] - (chosen[rows] * log_p).sum(axis=1), np.exp(log_p)

    for _ in range(STEPS):  # Gauss-Newton steps
        missing, p = off(some)
        if np.abs(missing).max() < KNOWN:
            everywhere = np.abs(off(slice(None))[0]).max() < KNOWN
            return _with_logits(policy, weights) if everywhere else policy
        slopes = x[some][:, :, None] * (chosen[some] - p)[:, None, :]
        step = np.linalg.lstsq(slopes.reshape(len(some), -1), missing, rcond=None)[0]
        weights = weights + np.clip(step, -2.0, 2.0).reshape(weights.shape)
    return policy


def _recognised_table(policy: Boltzmann, log: Trajectories) -> Boltzmann:
    states, actions, densities = _pairs(policy, log)
    known = np.full(policy.weights.shape, np.nan)
    known[states, actions] = densities
    p = np.exp(known)
    seen, total = ~np.isnan(p), np.nansum(p, axis=1)
    if np.abs(known[states, actions] - densities).max() > KNOWN or (total > 1 + KNOWN).any():
        return policy
    logits = np.where(seen, known, NEVER)
    visited = seen.any(axis=1)  # nothing is known about a state without a logged action
    return _with_logits(policy, np.where(visited[:, None], logits, np.asarray(policy.weights)))


def _pairs(policy: Boltzmann, log: Trajectories) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    features = policy.features
    if not isinstance(features, OneHot):
        raise SettingError("policy", type(features).__name__, "A table has OneHot features")
    mask = np.asarray(log.mask)
    states = np.asarray(jax.vmap(jax.vmap(features.state))(log.states))[mask]
    return (
        states,
        np.asarray(log.actions)[mask],
        np.asarray(log.behaviour_log_prob, np.float64)[mask],
    )


def _with_logits(policy: Boltzmann, weights: np.ndarray) -> Boltzmann:
    new = jnp.asarray(weights, policy.weights.dtype)
    found: Boltzmann = eqx.tree_at(lambda p: p.weights, policy, new)
    return found
