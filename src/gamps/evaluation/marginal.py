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

from gamps.errors import SettingError
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
        fits = self._fits(policy)
        phi, mask = _table(self.features, log), np.asarray(log.mask)
        ratios = _action_ratios(policy, log)
        weights = ratios.copy()
        for t in range(1, log.n_steps):
            # Past the last step that is known of, as there.
            states = fits[min(t, len(fits)) - 1](phi[:, t]) if fits else 1.0
            weights[:, t] = np.where(mask[:, t], ratios[:, t] * states, weights[:, t - 1])
        return weights

    def _fits(self, policy: Policy) -> "list[_Line]":
        """w_t for t = 1, 2, …, as far as episodes to learn from go on."""
        mask, steps = np.asarray(self.learned.mask), _action_ratios(policy, self.learned)
        states, fits = np.ones(len(steps)), []
        for t in range(1, self.learned.n_steps):
            before, now = mask[:, t - 1], mask[:, t]
            if not now.any():
                break
            products = states * steps[:, t - 1]
            scale = products[before].mean()
            products *= states[before].mean() / scale if scale > 0 else 1.0
            fits.append(self.regressions[t - 1].fit(products[now]))
            states[now] = fits[-1](self.regressions[t - 1].features)
        return fits


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
            mean = float(targets.mean())
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
    """Of an observation: random cosines; of one that is no vector those of the policy."""
    while isinstance(policy, Mixture):
        policy = policy.second
    if log.states.dtype.kind != "f":
        if isinstance(policy, Boltzmann):
            return policy.features
        problem = f"none are known for {log.states.dtype} observations"
        raise SettingError("features", problem, "Judge without assuming Markov observations")
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


def carrying(weights: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Logarithms of ratios `[N, T]` at the step where the smallest share of episodes carries them.

    Of the steps that at least half of the episodes were seen at, and of those episodes.
    """
    rho, count = np.where(seen, weights, 0.0), seen.sum(axis=0)
    totals, squares = rho.sum(axis=0) ** 2, (rho**2).sum(axis=0)
    effective = np.divide(totals, squares * count, out=np.zeros_like(totals), where=squares > 0)
    step = int(np.argmin(np.where(2 * count >= len(rho), effective, np.inf)))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(rho[seen[:, step], step]))
