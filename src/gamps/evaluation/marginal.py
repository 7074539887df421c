"""Ratios of states in place of ratios of histories, for logs whose observations are Markov.

After t steps a policy is w_t(s) times as likely to be in state s as the logging policy b. These
ratios follow forwards through a log: w_{t+1}(s') is the mean of w_t(s) π(a|s) / b(a|s) over steps
that lead to s'. They vary far less than products over all steps. They are wrong where what is
observed does not decide what comes next; `agreement` looks for that.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

from gamps.evaluation.estimators import Evidence
from gamps.models import RandomFourier
from gamps.policies import Boltzmann, Mixture, Policy, log_probs
from gamps.trajectories import Trajectories, flat

COSINES = 50
PENALTIES = np.logspace(-5, 2, 15)  # relative to the mean squared singular value


class StateRatios:
    """w_t(s) of any policy, by regressions on one log.

    Args:
      key: of the features.
      learned: episodes to fit to.
    """

    def __init__(self, key: Key[Array, ""], learned: Trajectories) -> None:
        self.key, self.learned = key, learned
        self.features: Any = None
        self.regressions: list[_Regression] = []

    def __call__(self, policy: Policy, log: Trajectories) -> np.ndarray:
        """`[N, T]` ratios of state and action, at the steps of a log; past an end its last one."""
        if self.features is None:
            self.features = _features(self.key, policy, self.learned)
            phi, mask = _table(self.features, self.learned), np.asarray(self.learned.mask)
            self.regressions = [
                _Regression.of(phi[mask[:, t], t]) for t in range(1, self.learned.n_steps)
            ]
        ours, theirs = self.learned, log
        mask, there = np.asarray(ours.mask), np.asarray(theirs.mask)
        steps, ratios = _action_ratios(policy, ours), _action_ratios(policy, theirs)
        phi = _table(self.features, theirs)
        states, weights = np.ones(len(steps)), ratios.copy()
        for t in range(1, theirs.n_steps):
            alive = mask[:, t - 1]
            products = states * steps[:, t - 1]
            scale = products[alive].mean() if alive.any() else 0.0
            products *= states[alive].mean() / scale if scale > 0 else 1.0
            at = mask[:, t]
            fit = self.regressions[t - 1].fit(products[at])
            states[at] = fit(self.regressions[t - 1].features)
            weights[:, t] = np.where(there[:, t], ratios[:, t] * fit(phi[:, t]), weights[:, t - 1])
        return weights


class _Line(NamedTuple):
    """What a regression found, kept between nothing and the largest target."""

    centre: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    mean: float
    most: float

    def __call__(self, phi: np.ndarray) -> np.ndarray:
        return np.clip(self.mean + (phi - self.centre) / self.scale @ self.weights, 0.0, self.most)


class _Regression(NamedTuple):
    """Ridge regression on fixed features, for any targets; the penalty by cross-validation."""

    features: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    left: np.ndarray
    values: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> "_Regression":
        centre = features.mean(axis=0) if len(features) else np.zeros(features.shape[1])
        spread = features.std(axis=0) if len(features) else np.zeros(features.shape[1])
        scale = np.where(spread > 1e-9, spread, np.inf)  # what does not vary says nothing
        parts = np.linalg.svd((features - centre) / scale, full_matrices=False)
        return cls(features, centre, scale, *parts)

    def fit(self, targets: np.ndarray) -> _Line:
        n = len(targets)
        if n < 3 or not self.values.any():
            mean = float(targets.mean()) if n else 1.0
            return _Line(self.centre, self.scale, np.zeros(len(self.centre)), mean, mean)
        mean = float(targets.mean())
        off = targets - mean
        along, squares = self.left.T @ off, self.values**2
        shrunk = squares / (squares + PENALTIES[:, None] * squares.mean())
        errors = off @ off - (2 * shrunk - shrunk**2) @ along**2
        free = np.maximum(n - 1 - shrunk.sum(axis=1), 1e-3)
        best = shrunk[np.argmin(np.maximum(errors, 0.0) / free**2)]
        safe = np.where(self.values > 0, self.values, 1.0)
        weights = self.right.T @ (best / safe * along)
        return _Line(self.centre, self.scale, weights, mean, float(targets.max()))


def _observed(observation: Any, action: Any) -> Any:  # noqa: ARG001
    return observation


def _features(key: Array, policy: Policy, log: Trajectories) -> Any:
    """Of an observation: random cosines, or those of the policy where there are choices."""
    while isinstance(policy, Mixture):
        policy = policy.second
    if isinstance(policy, Boltzmann):
        return policy.features
    return _OfState(RandomFourier.create(key, log, size=COSINES, base=_observed))


class _OfState(eqx.Module):
    cosines: RandomFourier

    def __call__(self, observation: Any) -> Array:
        return self.cosines(observation, None)


def _table(features: Any, log: Trajectories) -> np.ndarray:
    """`[N, T, F]` of a log."""
    phi = np.asarray(_each(features, flat(log.states)), np.float64)
    return phi.reshape(*log.mask.shape, -1)


@eqx.filter_jit
def _each(features: Any, states: Any) -> Array:
    return jax.vmap(features)(states)


def _action_ratios(policy: Policy, log: Trajectories) -> np.ndarray:
    apart = np.asarray(_log_probs(policy, log), np.float64) - np.asarray(log.behaviour_log_prob)
    return np.where(np.asarray(log.mask), np.exp(np.minimum(apart, 700.0)), 0.0)


_log_probs = eqx.filter_jit(log_probs)


def by_states(found: Evidence, weights: np.ndarray) -> Evidence:
    """Evidence by ratios of states and actions: doubly robust estimates follow as before."""
    rho = np.where(found.seen, weights, 0.0)
    before = np.concatenate([np.ones_like(rho[:, :1]), rho[:, :-1]], axis=1)
    return found._replace(rho=rho, before=before * found.seen)


def carrying(weights: np.ndarray) -> np.ndarray:
    """`[N]` logarithms of the ratios `[N, T]` at the step where fewest episodes carry them."""
    totals, squares = weights.sum(axis=0) ** 2, (weights**2).sum(axis=0)
    effective = np.divide(totals, squares, out=np.zeros_like(totals), where=squares > 0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights[:, int(np.argmin(effective))]))
