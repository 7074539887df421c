"""Estimators of a policy's value from the log of another, as `Terms`.

A value is the mean discounted return of episodes as long as the log's. A terminated episode earns
no further reward; an episode that was cut off is left out from there on.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from gamps.errors import SettingError
from gamps.evaluation.ratio_sums import Terms
from gamps.policies import Policy
from gamps.search import importance
from gamps.trajectories import Trajectories


class Evidence(NamedTuple):
    """What a log says about a policy, `[N, T]` in double precision on the host.

    Attributes:
      rho: ratio of τ_{0:t}; zero where the episode was not seen.
      before: ratio of τ_{0:t-1}.
      rewards: discounted rewards, zero where padded.
      seen: whether the step was seen, or the episode had terminated before it.
      mask: whether the step was taken.
      discounts: γ^t, `[T]`.
      q_values: Q of a model at the logged pairs; None without a model.
      state_values: V of a model at the logged states.
    """

    rho: np.ndarray
    before: np.ndarray
    rewards: np.ndarray
    seen: np.ndarray
    mask: np.ndarray
    discounts: np.ndarray
    q_values: np.ndarray | None = None
    state_values: np.ndarray | None = None


def evidence(
    policy: Policy,
    trajectories: Trajectories,
    discount: float,
    *,
    q_values: np.ndarray | None = None,
    state_values: np.ndarray | None = None,
) -> Evidence:
    """Return the ratios and rewards of a log under another policy.

    Args:
      policy: the policy to evaluate.
      trajectories: the log; not the one that the policy was trained on.
      discount: γ.
      q_values: `[N, T]`, from any model; the better it is, the less doubly robust estimates vary.
      state_values: `[N, T]`, the expectation of Q over the policy's actions at the same states.
    """
    log_rho = np.asarray(_log_rho(policy, trajectories), np.float64)
    mask = np.asarray(trajectories.mask)
    seen = mask | np.asarray(trajectories.terminated)[:, None]
    rho = np.where(seen, np.exp(np.minimum(log_rho, 700.0)), 0.0)
    before = np.concatenate([np.ones_like(rho[:, :1]), rho[:, :-1]], axis=1)
    discounts = float(discount) ** np.arange(mask.shape[1])
    rewards = np.where(mask, np.asarray(trajectories.rewards, np.float64), 0.0) * discounts
    q, v = (
        None if x is None else np.where(mask, np.asarray(x, np.float64), 0.0)
        for x in (q_values, state_values)
    )
    return Evidence(rho, before * seen, rewards, seen, mask, discounts, q, v)


@eqx.filter_jit
def _log_rho(policy: Policy, trajectories: Trajectories) -> jnp.ndarray:
    return importance.log_rho(policy, trajectories)


def on_policy(found: Evidence) -> Terms:
    """The mean return of the log itself: the behaviour policy's value."""
    return Terms.of(found.rewards, _counted(found))


def per_decision(found: Evidence) -> Terms:
    """Per-decision importance sampling: unbiased."""
    return Terms.of(found.rho * found.rewards, _counted(found))


def self_normalised(found: Evidence) -> Terms:
    """`per_decision` with ratios divided by their mean at every step: biased, less variable."""
    return Terms.of(found.rho * found.rewards, found.rho)


def doubly_robust(found: Evidence) -> Terms:
    """A model's value, corrected by importance sampling: unbiased for any model.

    Σ_t γ^t [ρ_t (r_t - Q(s_t, a_t)) + ρ_{t-1} V(s_t)]; only the log decides what is true.
    """
    errors, expected = _corrections(found)
    below = _counted(found)
    return Terms.of(np.concatenate([errors, expected], axis=1), np.concatenate([below, below], 1))


def weighted_doubly_robust(found: Evidence) -> Terms:
    """`doubly_robust` with self-normalised ratios."""
    errors, expected = _corrections(found)
    return Terms.of(
        np.concatenate([errors, expected], axis=1),
        np.concatenate([found.rho, found.before], axis=1),
    )


def direct(found: Evidence) -> Terms:
    """The model's value at the logged starts; its spread leaves out the model's own error."""
    if found.state_values is None:
        raise SettingError("state_values", "None", "The direct estimate needs a model's V")
    return Terms.of(found.state_values[:, :1])


ESTIMATORS = {
    "per-decision": per_decision,
    "self-normalised": self_normalised,
    "doubly robust": doubly_robust,
    "weighted doubly robust": weighted_doubly_robust,
    "direct": direct,
}
"""All estimators of a policy's value, by the names that reports show."""


def whole_episode(found: Evidence) -> np.ndarray:
    """`[N]` logarithms of the ratios of whole episodes."""
    last = np.maximum(found.mask.sum(axis=1) - 1, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.take_along_axis(found.rho, last[:, None], axis=1)[:, 0])


def away(found: Evidence) -> float:
    """The largest difference between a ratio and one; zero for the logging policy."""
    return float(np.abs(found.rho[found.mask] - 1).max())


def effective(found: Evidence) -> float:
    """The effective number of episodes, at the step where it is smallest.

    If it is small, the spread of the estimate means nothing: it shrinks along with the weights.
    """
    squares = np.sum(found.rho**2, axis=0)
    totals = np.sum(found.rho, axis=0) ** 2
    return float(np.min(np.divide(totals, squares, out=np.zeros_like(totals), where=squares > 0)))


def _counted(evidence: Evidence) -> np.ndarray:
    return evidence.seen.astype(np.float64)


def _corrections(evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    if evidence.q_values is None or evidence.state_values is None:
        raise SettingError("q_values", "None", "Doubly robust estimates need a model's Q and V")
    discounts, mask = evidence.discounts, evidence.mask
    errors = evidence.rho * (evidence.rewards - discounts * evidence.q_values) * mask
    return errors, evidence.before * discounts * evidence.state_values * mask
