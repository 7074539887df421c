"""Estimate an unknown logging policy from the actions it took.

Estimated densities are always marked as such: a fitted density is not the density that drew the
action, and everything computed from the ratios is only as good as the fit. That is why the fit is
cross-validated and calibrated; calibration compares how often actions fall where the fit says they
should.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Key

from gamps.errors import SettingError
from gamps.policies import (
    Affine,
    Boltzmann,
    LinearGaussianPolicy,
    MLPGaussianPolicy,
    OneHot,
    Policy,
    log_probs,
)
from gamps.policies.choice_fits import frequencies, recognised_choices, unfitted_choices
from gamps.trajectories import Episode, Trajectories, flat, from_episodes, validate

FOLDS = 5
LEAST_STD = 1e-3  # share of an action's spread: a controller without noise has no density
CENTRAL = (0.5, 0.8, 0.95)
MADE = 1e-3  # largest difference between log-densities of a policy and those of its own log
STEPS, KNOWN = 20, 5e-4  # steps to recognise a policy; tolerance of its log-densities


class Estimate(NamedTuple):
    """An estimated logging policy, and how far it can be trusted.

    Attributes:
      policy: fitted to the whole log.
      kind: kind of policy, chosen by held-out likelihood.
      held_out: mean log-likelihood of held-out actions, by kind.
      calibration: share of held-out actions inside the central 50, 80 and 95 % of the fit; for
        choices, the mean probability that the fit gave the choice taken, and its expectation.
      trajectories: the log with estimated densities.
    """

    policy: Policy
    kind: str
    held_out: dict[str, float]
    calibration: dict[str, float]
    trajectories: Trajectories


def estimate(
    key: Key[Array, ""], episodes: Sequence[Episode], *, kinds: Sequence[str] | None = None
) -> Estimate:
    """Fit each kind of policy, and keep the one that predicts held-out actions best.

    Args:
      key: randomness of the folds and of the network's initial weights.
      episodes: the log; its densities are ignored.
      kinds: `affine`, `network` or both; `choices` by default for choices.
    """
    if len(episodes) < FOLDS:
        problem = f"{len(episodes)}, too few for {FOLDS} parts that are held out in turn"
        raise SettingError("episodes", problem, f"Log at least {FOLDS}")
    unknown = [e._replace(behaviour_log_prob=np.zeros(len(e.rewards))) for e in episodes]
    log = from_episodes(unknown)
    choices = jnp.issubdtype(log.actions.dtype, jnp.integer)
    kinds = (("choices",) if choices else ("affine", "network")) if kinds is None else kinds
    order = np.asarray(jax.random.permutation(key, log.n_trajectories))
    folds = np.array_split(order, FOLDS)
    scores: dict[str, list[float]] = {kind: [] for kind in kinds}
    checks: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for number, out_rows in enumerate(folds):
        in_rows = np.setdiff1d(order, out_rows)
        for kind in kinds:
            policy = fit(jax.random.fold_in(key, number), _rows(log, in_rows), kind)
            out = _rows(log, out_rows)
            scores[kind].append(float(_mean(log_probs(policy, out), out)))
            checks[kind].append(calibration(policy, out))
    held_out = {kind: float(np.mean(each)) for kind, each in scores.items()}
    best = max(held_out, key=lambda kind: held_out[kind])
    policy = fit(jax.random.fold_in(key, FOLDS), log, best)
    densities = jnp.where(log.mask, log_probs(policy, log), 0.0)
    estimated = validate(eqx.tree_at(lambda t: t.behaviour_log_prob, log, densities))
    central = {name: float(np.mean([c[name] for c in checks[best]])) for name in checks[best][0]}
    return Estimate(policy, best, held_out, central, estimated)


def fit(
    key: Key[Array, ""], log: Trajectories, kind: str, *, space: Trajectories | None = None
) -> Policy:
    """Fit the policy of a kind that makes the logged actions most likely; ignores their densities.

    Kinds are `affine`; `network`, which starts from random weights drawn with the key; and
    `choices`, a softmax that is affine or a table. It covers all states and choices of `space`, a
    larger log.
    """
    fits = {"affine": _affine, "network": _network, "choices": _choices}
    if kind not in fits:
        raise SettingError("policy", repr(kind), f"Choose one of {', '.join(fits)}")
    discrete = jnp.issubdtype(log.actions.dtype, jnp.integer)
    numbered = jnp.issubdtype(log.states.dtype, jnp.integer)
    right = ("choices" if discrete else "affine", *(() if discrete and numbered else ("network",)))
    if kind not in right:
        fix = f"For the actions of this log choose {' or '.join(right)}"
        raise SettingError("policy", repr(kind), fix)
    return fits[kind](key, log, space)


def recognised(policy: Policy, log: Trajectories) -> Policy:
    """Recover the exact logging policy from logged densities, if the fit is of its class.

    Densities of normal actions around a mean that is linear in features form a system of equations
    for its parameters. If some parameters solve it for all logged actions, that policy made the
    log; if none do, the fit is returned. For choices the same is done with the softmax.

    Args:
      policy: the policy that `fit` returned.
      log: a log with logged densities.
    """
    if isinstance(policy, Boltzmann):
        return recognised_choices(policy, log)
    if not isinstance(policy, LinearGaussianPolicy):
        return policy
    mask = np.asarray(log.mask)
    x = np.asarray(jax.vmap(jax.vmap(policy.features))(log.states), np.float64)[mask]
    a, densities = (np.asarray(v, np.float64)[mask] for v in (log.actions, log.behaviour_log_prob))
    weights, log_std = (np.asarray(v, np.float64) for v in (policy.weights, policy.log_std))
    for _ in range(STEPS):  # Gauss-Newton steps
        z = (a - x @ weights) / np.exp(log_std)
        off = densities - (-(z**2) / 2 - log_std - math.log(2 * math.pi) / 2).sum(axis=1)
        if np.abs(off).max() < KNOWN:
            exact = (jnp.asarray(v, policy.weights.dtype) for v in (weights, log_std))
            found: Policy = eqx.tree_at(lambda p: (p.weights, p.log_std), policy, tuple(exact))
            return found
        by_weights = x[:, :, None] * (z / np.exp(log_std))[:, None, :]
        slopes = np.concatenate([by_weights.reshape(len(x), -1), z**2 - 1], axis=1)
        step = np.linalg.lstsq(slopes, off, rcond=None)[0]
        weights = weights + step[: weights.size].reshape(weights.shape)
        log_std = log_std + np.clip(step[weights.size :], -1.0, 1.0)
    return policy


@eqx.filter_jit
def made_by(policy: Policy, log: Trajectories) -> Bool[Array, "N"]:
    """Which episodes have the densities that the policy gives them."""
    off = jnp.abs(log_probs(policy, log) - log.behaviour_log_prob)
    return jnp.max(jnp.where(log.mask, off, 0.0), axis=1) < MADE


def calibration(policy: Policy, log: Trajectories) -> dict[str, float]:
    """How often actions fall where the policy says they should."""
    mask = np.asarray(log.mask)
    if isinstance(policy, Boltzmann):
        choices = jnp.arange(policy.weights.shape[-1])
        each = jax.vmap(policy.log_prob, in_axes=(None, 0))
        log_p = jax.vmap(jax.vmap(lambda s: each(s, choices)))(log.states)
        p = np.exp(np.asarray(log_p))[mask]
        chosen = np.take_along_axis(p, np.asarray(log.actions)[mask][:, None], axis=1)
        return {"taken": float(chosen.mean()), "expected": float((p**2).sum(axis=1).mean())}
    mean = jax.vmap(jax.vmap(lambda s: policy.act(s, jnp.zeros(policy.noise_size))))(log.states)
    std = np.exp(np.asarray(policy.log_std))  # type: ignore[attr-defined]
    off = np.abs((np.asarray(log.actions) - np.asarray(mean)) / std)[mask]
    limits = jax.scipy.stats.norm.ppf((1 + jnp.asarray(CENTRAL)) / 2)
    return {
        f"{share:.0%}": float((off <= limit).mean())
        for share, limit in zip(CENTRAL, np.asarray(limits), strict=True)
    }


def _rows(log: Trajectories, rows: np.ndarray) -> Trajectories:
    chosen: Trajectories = jax.tree.map(lambda leaf: leaf[rows], log)
    return chosen


def _mean(values: Float[Array, "N T"], log: Trajectories) -> Float[Array, ""]:
    return jnp.sum(jnp.where(log.mask, values, 0.0)) / jnp.sum(log.mask)


def _check_vector(log: Trajectories) -> None:
    if log.actions.ndim != 3 or log.states.ndim != 3:
        problem = f"{log.states.shape[2:]} and {log.actions.shape[2:]}"
        raise SettingError("observations and actions", problem, "Flatten each into one vector")


def _log_std(residuals: np.ndarray, actions: np.ndarray) -> Array:
    least = LEAST_STD * np.maximum(actions.std(axis=0), 1e-6)
    return jnp.asarray(np.log(np.maximum(residuals.std(axis=0), least)), dtype=float)


def _affine(key: Array, log: Trajectories, space: Any) -> Policy:
    del key, space
    _check_vector(log)
    mask = np.asarray(flat(log.mask))
    observations = np.asarray(flat(log.states), np.float64)[mask]
    acted = np.asarray(flat(log.actions), np.float64)[mask]
    features = np.concatenate([observations, np.ones((len(observations), 1))], axis=1)
    weights, *_ = np.linalg.lstsq(features, acted, rcond=None)
    log_std = _log_std(acted - features @ weights, acted)
    return LinearGaussianPolicy(jnp.asarray(weights, dtype=float), Affine(), log_std=log_std)


def _network(key: Array, log: Trajectories, space: Any) -> Policy:
    if jnp.issubdtype(log.actions.dtype, jnp.integer):
        start = unfitted_choices(key, log, network=True, space=space)
        return _climbed(start, log, steps=1_500, learning_rate=3e-3)
    _check_vector(log)
    network = MLPGaussianPolicy.create(
        key, observations=log.states.shape[-1], actions=log.actions.shape[-1]
    )
    policy: Any = _climbed(network, log, steps=1_500, learning_rate=3e-3)
    mask = np.asarray(log.mask)
    mean = np.asarray(jax.vmap(jax.vmap(policy.mean))(log.states))[mask]
    acted = np.asarray(log.actions)[mask]
    fitted: Policy = eqx.tree_at(lambda p: p.log_std, policy, _log_std(acted - mean, acted))
    return fitted


def _choices(key: Array, log: Trajectories, space: Any) -> Policy:
    policy = unfitted_choices(key, log, space=space)
    if isinstance(policy.features, OneHot):
        return frequencies(policy, log)
    return _climbed(policy, log, steps=1_500, learning_rate=3e-2)


def _climbed(policy: Policy, log: Trajectories, *, steps: int, learning_rate: float) -> Policy:
    """Maximise the likelihood by full passes of Adam, with a rate that falls to zero."""
    optimiser = optax.adam(optax.cosine_decay_schedule(learning_rate, steps))
    parameters, static = eqx.partition(policy, eqx.is_inexact_array)

    def loss(parameters: Any) -> Array:
        return -_mean(log_probs(eqx.combine(parameters, static), log), log)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        parameters, state = carry
        updates, state = optimiser.update(jax.grad(loss)(parameters), state)
        return (optax.apply_updates(parameters, updates), state), None

    first = (parameters, optimiser.init(parameters))
    (parameters, _), _ = jax.jit(lambda c: jax.lax.scan(step, c, length=steps))(first)
    fitted: Policy = eqx.combine(parameters, static)
    return fitted
