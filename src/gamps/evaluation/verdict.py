"""Whether a policy may be deployed: its improvement, a bound of it, and a word."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gamps import importance
from gamps.errors import SettingError
from gamps.evaluation.estimators import ESTIMATORS, Evidence, evidence, on_policy
from gamps.evaluation.intervals import Interval, bootstrap, student
from gamps.evaluation.terms import difference
from gamps.policies import Policy
from gamps.tasks import Task
from gamps.trajectories import Trajectories
from gamps.values import Imagined

DEPLOY, NOT_SHOWN, WORSE = "deploy", "not shown to be better", "worse"
GOOD, FAIR, POOR = "good", "fair", "poor"
# Least effective episodes, their least share of all, and the largest tail index of the ratios. With
# good support every interval can be believed, with fair support a doubly robust one
# (`gamps reproduce coverage`).
LIMITS = {GOOD: (30.0, 0.5, 0.7), FAIR: (10.0, 0.0, 0.7)}
GRADES = (GOOD, FAIR, POOR)
ROBUST = "doubly robust"  # can be believed with fair support
INTERVALS = {"student": student, "bootstrap": bootstrap}


class Support(NamedTuple):
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
      further: episodes that would have to be logged besides, for the bound to pass zero if the
        estimate is right; None where that cannot be said.
      estimator: that the verdict rests on.
    """

    word: str
    why: str
    improvement: Interval
    value: Interval
    behaviour: Interval
    support: Support
    further: int | None
    estimator: str


def support(policy: Policy, trajectories: Trajectories) -> Support:
    """ESS and Pareto-k of whole-episode ratios, and what they are good for."""
    log_rho = importance.log_rho(policy, trajectories)
    whole = importance.whole_episode(log_rho, trajectories.mask)
    return graded(whole)


def graded(log_ratios: Any) -> Support:
    """The same from the logarithms of whole-episode ratios."""
    whole = jnp.asarray(log_ratios)
    if not bool(jnp.isfinite(whole).any()):
        return Support(0.0, math.inf, POOR)
    ess, k = map(float, _spread(whole))
    for grade, (least, share, most) in LIMITS.items():
        if ess >= max(least, share * len(whole)) and not k > most:
            return Support(ess, k, grade)
    return Support(ess, k, POOR)


@jax.jit
def _spread(whole: Array) -> tuple[Array, Array]:
    return importance.effective_sample_size(whole), importance.pareto_k(whole)


@eqx.filter_jit
def _modelled(
    key: Array, policy: Policy, model: Any, task: Task, log: Trajectories, rollouts: int
) -> tuple[Array, Array | None]:
    ones = importance.Ratios.of(jnp.zeros(log.mask.shape), log.mask, jnp.asarray(1.0))
    imagined = Imagined(rollouts=rollouts, horizon=log.n_steps)
    found = imagined(key, policy, model, task, log, ones)
    return found.weighted_q_values, found.state_values


def evidence_of(
    key: Key[Array, ""],
    policy: Policy,
    trajectories: Trajectories,
    task: Task,
    model: Any = None,
    *,
    rollouts: int = 20,
) -> Evidence:
    """Ratios and rewards, and with a model its Q and V by imagined rollouts."""
    q = v = None
    if model is not None:
        q, v = map(np.asarray, _modelled(key, policy, model, task, trajectories, rollouts))
    return evidence(policy, trajectories, float(task.discount), q_values=q, state_values=v)


def judge(
    policy: Policy,
    trajectories: Trajectories,
    found: Evidence,
    *,
    estimator: str = ROBUST,
    interval: str = "student",
    confidence: float = 0.95,
) -> Verdict:
    """The verdict on a policy, by episodes that its training has not seen.

    Args:
      policy: as it will act; a policy without noise has no ratios.
      trajectories: held-out episodes of the behaviour policy.
      found: from `evidence_of`.
      estimator: a name of `ESTIMATORS`.
      interval: student or bootstrap.
      confidence: with which a bound holds; *deploy* is said wrongly at most as often as not.
    """
    for name, given, known in (
        ("estimator", estimator, ESTIMATORS),
        ("interval", interval, INTERVALS),
    ):
        if given not in known:
            raise SettingError(name, repr(given), f"Choose one of {', '.join(known)}")
    bound = INTERVALS[interval]
    terms, base = ESTIMATORS[estimator](found), on_policy(found)
    gain = bound(difference(terms, base), confidence=confidence)
    value, behaviour = (bound(t, confidence=confidence) for t in (terms, base))
    rests = support(policy, trajectories)
    parts = (gain, value, behaviour, rests)
    n = trajectories.n_trajectories
    needed = FAIR if estimator == ROBUST else GOOD
    if GRADES.index(rests.grade) > GRADES.index(needed):
        floor, share, most = LIMITS[needed]
        least = max(floor, share * n)
        why = (
            f"the estimate rests on {rests.ess:.1f} effective episodes of {n} (Pareto-k "
            f"{rests.pareto_k:.2f}); at least {least:g}, and k of at most {most:g}, are needed"
        )
        reached = share == 0 and 1.5 < rests.ess < least
        further = math.ceil(n * (least / rests.ess - 1)) if reached else None
        return Verdict(NOT_SHOWN, why, *parts, further, estimator)
    if gain.low > 0:
        why = f"the improvement is at least {gain.low:.4g} with confidence {confidence:g}"
        return Verdict(DEPLOY, why, *parts, 0, estimator)
    if gain.high < 0:
        why = f"it loses at least {-gain.high:.4g} with confidence {confidence:g}"
        return Verdict(WORSE, why, *parts, None, estimator)
    why = f"the improvement lies between {gain.low:.4g} and {gain.high:.4g}: zero is not excluded"
    further = None
    if gain.estimate > 0:
        further = math.ceil(n * (((gain.estimate - gain.low) / gain.estimate) ** 2 - 1))
    return Verdict(NOT_SHOWN, why, *parts, further, estimator)
