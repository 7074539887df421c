"""Ratios of states in place of ratios of histories, for logs whose observations are Markov.

After t steps a policy is w_t(s) times as likely to be in state s as the logging policy b. These
ratios are computed forwards through a log: w_{t+1}(s') is the mean of w_t(s) π(a|s) / b(a|s) over
steps that lead to s'. They vary far less than products over all steps. They are wrong if an
observation does not decide what comes next; `agreement` checks for that.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

from gamps.errors import SettingError
from gamps.evaluation.estimators import Evidence
from gamps.models import RandomFourier
from gamps.policies import Boltzmann, Mixture, OneHot, Policy, log_probs
from gamps.trajectories import Trajectories, flat

COSINES = 50
PENALTIES = np.logspace(-5, 2, 15)  # relative to the mean squared singular value
MORE = np.logspace(-1, 4, 16)  # targets equal to the mean, added to those of each state


class StateRatios:
    """w_t(s) of any policy, from regressions on one log.

    Args:
      key: for the features.
      learned: episodes to fit to.
    """

    def __init__(self, key: Key[Array, ""], learned: Trajectories) -> None:
        self.key, self.learned = key, learned
        self.features: Any = None
        self.regressions: list[Any] = []
        self.looked_at: tuple[Trajectories, np.ndarray] | None = None

    def __call__(self, policy: Policy, log: Trajectories) -> np.ndarray:
        """`[N, T]` ratios of state and action at a log's steps; after its end an episode's last."""
        if self.features is None:
            self.features = _features(self.key, policy, self.learned)
            phi, mask = _table(self.features, self.learned), np.asarray(self.learned.mask)
            kind = _Means if isinstance(self.features, OneHot) else _Regression.of
            self.regressions = [kind(phi[mask[:, t], t]) for t in range(1, self.learned.n_steps)]
        if self.looked_at is None or self.looked_at[0] is not log:
            self.looked_at = log, _table(self.features, log)
        fits = self._fits(policy)
        phi, mask = self.looked_at[1], np.asarray(log.mask)
        ratios = _action_ratios(policy, log)
        weights = ratios.copy()
        for t in range(1, log.n_steps):
            # After the last fitted step, use the fit of that step.
            states = fits[min(t, len(fits)) - 1](phi[:, t]) if fits else 1.0
            weights[:, t] = np.where(mask[:, t], ratios[:, t] * states, weights[:, t - 1])
        return weights

    def _fits(self, policy: Policy) -> list[Any]:
        """w_t for t = 1, 2, …, as far as the episodes to learn from reach."""
        mask, steps = np.asarray(self.learned.mask), _action_ratios(policy, self.learned)
        states, fits = np.ones(len(steps)), []
        for t in range(1, self.learned.n_steps):
            before, now = mask[:, t - 1], mask[:, t]
            if not now.any():
                break
            products = states * steps[:, t - 1]
            scale = products[before].mean()
            products *= states[before].mean() / scale if scale > 0 else 1.0
            line, states[now] = self.regressions[t - 1].fit(products[now])
            fits.append(line)
        return fits


class _Line(NamedTuple):
    """A fitted regression, clipped between zero and the largest target."""

    weights: np.ndarray
    constant: float
    most: float

    def __call__(self, phi: np.ndarray) -> np.ndarray:
        return np.clip(phi @ self.weights + self.constant, 0.0, self.most)


class _Regression(NamedTuple):
    """Ridge regression on fixed features, for any targets; cross-validation sets the penalty."""

    centre: np.ndarray
    scale: np.ndarray
    left: np.ndarray
    values: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> "_Regression":
        centre = features.mean(axis=0) if len(features) else np.zeros(features.shape[1])
        spread = features.std(axis=0) if len(features) else np.zeros(features.shape[1])
        scale = np.where(spread > 1e-9, spread, np.inf)  # drop constant features
        return cls(centre, scale, *np.linalg.svd((features - centre) / scale, full_matrices=False))

    def fit(self, targets: np.ndarray) -> tuple[_Line, np.ndarray]:
        """Return the fit and its predictions where it was fitted."""
        n, mean = len(targets), float(targets.mean())
        if n < 3 or not self.values.any():
            return _Line(np.zeros(len(self.centre)), mean, mean), np.full(n, mean)
        off, most = targets - mean, float(targets.max())
        along, squares = self.left.T @ off, self.values**2
        shrunk = squares / (squares + PENALTIES[:, None] * squares.mean())
        errors = off @ off - (2 * shrunk - shrunk**2) @ along**2
        free = np.maximum(n - 1 - shrunk.sum(axis=1), 1e-3)
        best = shrunk[np.argmin(np.maximum(errors, 0.0) / free**2)] * along
        safe = np.where(self.values > 0, self.values, 1.0)
        weights = self.right.T @ (best / safe) / self.scale
        line = _Line(weights, mean - float(self.centre @ weights), most)
        return line, np.clip(mean + self.left @ best, 0.0, most)


class _Means(NamedTuple):
    """The mean of each state's targets, moved towards that of all; cross-validation says how far.

    Attributes:
      states: numbers of the states.
    """

    states: np.ndarray

    def fit(self, targets: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the fit and its predictions where it was fitted."""
        n, mean, most = len(targets), float(targets.mean()), float(targets.max())
        counts = np.bincount(self.states)
        means = np.bincount(self.states, targets) / np.maximum(counts, 1)
        off = np.where(counts > 0, means - mean, 0.0)
        within = float(((targets - means[self.states]) ** 2).sum())
        shares = counts / (counts + MORE[:, None])
        errors = within + (1 - shares) ** 2 @ (counts * off**2)
        free = np.maximum(n - 1 - shares.sum(axis=1), 1e-3)
        off = np.append(off * shares[np.argmin(errors / free**2)], 0.0)  # and of any other state

        def line(states: np.ndarray) -> np.ndarray:
            return np.clip(mean + off[np.minimum(states, len(off) - 1)], 0.0, most)

        return line, line(self.states)


def _observed(observation: Any, action: Any) -> Any:  # noqa: ARG001
    return observation


def _features(key: Array, policy: Policy, log: Trajectories) -> Any:
    """Random cosines of an observation; the policy's features if observations are not vectors."""
    while isinstance(policy, Mixture):
        policy = policy.second
    if log.states.dtype.kind != "f":
        if isinstance(policy, Boltzmann):
            return policy.features
        problem = f"no default for {log.states.dtype} observations"
        raise SettingError("features", problem, "Evaluate without assuming Markov observations")
    return _OfState(RandomFourier.create(key, log, size=COSINES, base=_observed))


class _OfState(eqx.Module):
    cosines: RandomFourier

    def __call__(self, observation: Any) -> Array:
        return self.cosines(observation, None)


def _table(features: Any, log: Trajectories) -> np.ndarray:
    """`[N, T, F]` features of a log; of numbered states `[N, T]` numbers."""
    if isinstance(features, OneHot):
        return np.asarray(_each(features.state, flat(log.states))).reshape(log.mask.shape)
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
    """Evidence with ratios of states and actions; doubly robust estimates use it as before."""
    rho = np.where(found.seen, weights, 0.0)
    before = np.concatenate([np.ones_like(rho[:, :1]), rho[:, :-1]], axis=1)
    return found._replace(rho=rho, before=before * found.seen)


def carrying(weights: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Log-ratios at the step where the smallest share of the episodes is effective.

    Only steps that were seen in at least half of the episodes count, and only those episodes.
    """
    rho, count = np.where(seen, weights, 0.0), seen.sum(axis=0)
    totals, squares = rho.sum(axis=0) ** 2, (rho**2).sum(axis=0)
    effective = np.divide(totals, squares * count, out=np.zeros_like(totals), where=squares > 0)
    step = int(np.argmin(np.where(2 * count >= len(rho), effective, np.inf)))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(rho[seen[:, step], step]))
