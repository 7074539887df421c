"""Whether a policy may be deployed: its improvement, a bound of it, and a word."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gamps.evaluation.estimators import Evidence, doubly_robust, on_policy
from gamps.evaluation.intervals import Interval, interval_of
from gamps.evaluation.ratio_sums import difference
from gamps.policies import Policy
from gamps.search import importance
from gamps.trajectories import Trajectories

DEPLOY, NOT_SHOWN, WORSE = "deploy", "not shown to be better", "worse"
GOOD, FAIR, POOR = "good", "fair", "poor"
# Least effective episodes, their least share of all, and the largest tail index of the ratios. The
# doubly robust estimate's interval is right with good support and a little short with fair support,
# where its bounds are therefore taken with half the error (`benchmarks.studies coverage`).
LIMITS = {GOOD: (30.0, 0.5, 0.7), FAIR: (10.0, 0.0, 0.7)}
SAME = 1e-4  # ratios that are one but for rounding
LEAST = 25  # episodes that a tail index can be had of
ROBUST = "doubly robust"  # what the verdict rests on


class RatioSupport(NamedTuple):
    """How much of the log speaks of the policy.

    Attributes:
      ess: effective number of episodes, by the ratios of whole episodes.
      pareto_k: tail index of the same.
      grade: good, fair or poor.
    """

    ess: float
    pareto_k: float
    grade: str


class Verdict(NamedTuple):
    """What can be said of a policy before it is deployed.

    Attributes:
      word: deploy, not shown to be better, or worse.
      why: in a sentence.
      improvement: over the behaviour policy, paired on the same episodes.
      value: of the policy.
      behaviour: of the behaviour policy.
      support: of the estimate.
      needed: episodes that a log to judge by would need in all for the bound to pass zero, if the
        estimate is right; None where that cannot be said.
    """

    word: str
    why: str
    improvement: Interval
    value: Interval
    behaviour: Interval
    support: RatioSupport
    needed: int | None


def support(policy: Policy, trajectories: Trajectories) -> RatioSupport:
    """ESS and Pareto-k of whole-episode ratios, and what they are good for."""
    return graded(_log_ratios(policy, trajectories))


@eqx.filter_jit
def _log_ratios(policy: Policy, trajectories: Trajectories) -> Array:
    log_rho = importance.log_rho(policy, trajectories)
    return importance.whole_episode(log_rho, trajectories.mask)


def graded(log_ratios: Any) -> RatioSupport:
    """The same from the logarithms of whole-episode ratios; the tail in double precision."""
    ratios = np.asarray(log_ratios, np.float64)
    if not np.isfinite(ratios).any():
        return RatioSupport(0.0, math.inf, POOR)
    ess = float(_effective(jnp.asarray(ratios)))
    k = float(importance.pareto_k(ratios))
    for grade, (least, share, most) in LIMITS.items():
        if ess >= max(least, share * len(ratios)) and not k > most:
            return RatioSupport(ess, k, grade)
    return RatioSupport(ess, k, POOR)


_effective = jax.jit(importance.effective_sample_size)


def judge(
    policy: Policy,
    trajectories: Trajectories,
    found: Evidence,
    *,
    interval: str = "student",
    confidence: float = 0.95,
) -> Verdict:
    """The verdict on a policy, by the doubly robust estimate on episodes its training has not seen.

    Args:
      policy: as it will act; a policy without noise has no ratios.
      trajectories: held-out episodes of the behaviour policy.
      found: from `evidence`, with a Q fitted to other episodes.
      interval: student or bootstrap.
      confidence: with which a bound holds.
    """
    basis, n = support(policy, trajectories), trajectories.n_trajectories
    if basis.grade == FAIR:
        confidence = (1 + confidence) / 2
    terms, base = doubly_robust(found), on_policy(found)
    sums = (difference(terms, base), terms, base)
    gain, value, behaviour = (interval_of(t, interval, confidence=confidence) for t in sums)
    parts = (gain, value, behaviour, basis)
    if np.abs(found.rho[found.mask] - 1).max() < SAME:
        return Verdict(NOT_SHOWN, "it is the logging policy itself", *parts, None)
    least, _, most = LIMITS[FAIR]
    # Effective episodes grow with the log, a heavy tail stays.
    enough = max(LEAST, math.ceil(n * least / basis.ess)) if basis.ess > 1.5 else None
    if n < LEAST:
        why = f"there are {n} episodes to judge by, and fewer than {LEAST} show nothing"
        return Verdict(NOT_SHOWN, why, *parts, enough)
    if basis.grade == POOR:
        why = (
            f"the estimate rests on {basis.ess:.1f} effective episodes of {n} (Pareto-k "
            f"{basis.pareto_k:.2f}); at least {least:g}, and k of at most {most:g}, are needed"
        )
        return Verdict(NOT_SHOWN, why, *parts, enough if basis.pareto_k <= most else None)
    returns = found.rewards.sum(axis=1)
    if not returns.min() <= value.estimate <= returns.max():
        why = (
            f"the estimate, {value.estimate:.4g}, is beyond every return in the log "
            f"({returns.min():.4g} to {returns.max():.4g})"
        )
        return Verdict(NOT_SHOWN, why, *parts, None)
    condition = f"with confidence {confidence:g}"
    if basis.grade == FAIR:
        condition += ", half the error, because support is only fair"
    if gain.low > 0:
        return Verdict(DEPLOY, f"the improvement is at least {gain.low:.4g} {condition}", *parts, n)
    if gain.high < 0:
        return Verdict(WORSE, f"it loses at least {-gain.high:.4g} {condition}", *parts, None)
    why = f"the improvement lies between {gain.low:.4g} and {gain.high:.4g}: zero is not excluded"
    needed = None
    if gain.estimate > 0:
        needed = math.ceil(n * ((gain.estimate - gain.low) / gain.estimate) ** 2)
    return Verdict(NOT_SHOWN, why, *parts, needed)
