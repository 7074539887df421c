"""Whether a policy may be deployed: a word, the cause that binds, and what to do about it."""

import math
from typing import NamedTuple

import numpy as np

from gamps.evaluation.intervals import Interval
from gamps.evaluation.support import (
    FAIR,
    LEAST,
    LIMITS,
    MOST_INFLUENCE,
    MOST_TAIL,
    POOR,
    RatioSupport,
    Tail,
)

DEPLOY = "deploy"
"""It is better than the logging policy, with the confidence that was asked for."""
NOT_SHOWN = "not shown to be better"
"""It may be better, and these episodes do not show it."""
WORSE = "worse"
"""It is worse than the logging policy, with that confidence."""
ROBUST = "doubly robust"  # what the verdict rests on
BY_STATES = "doubly robust by states"  # the same where observations are taken for Markov
SAME = 1e-4  # ratios that are one but for rounding
RARE = 3  # episodes of n that may fail without one of them being in the log, at 95 %


class Reason(NamedTuple):
    """Why something cannot be shown.

    Attributes:
      why: the cause that binds, in a sentence.
      advice: what to do about it.
      needed: episodes that a log to judge by would need in all; None where that cannot be said.
    """

    why: str
    advice: str
    needed: int | None = None


class JudgedPolicy(NamedTuple):
    """What held-out episodes say of one policy.

    Attributes:
      improvement: over the behaviour policy, paired on the same episodes.
      value: of the policy.
      support: of the estimate.
      tail: how the improvement is spread over the episodes.
      refusal: why no bound of it counts; None if it does.
    """

    improvement: Interval
    value: Interval
    support: RatioSupport
    tail: Tail
    refusal: Reason | None


class Verdict(NamedTuple):
    """What can be said of a policy before it is deployed.

    Attributes:
      word: deploy, not shown to be better, or worse.
      why: in a sentence, the cause that binds.
      advice: what to do next.
      improvement: over the behaviour policy, paired on the same episodes.
      value: of the policy.
      behaviour: of the behaviour policy.
      support: of the estimate.
      needed: episodes that a log to judge by would need in all for the bound to pass zero, if the
        estimate is right; None where that cannot be said.
      unseen_loss: a loss of this size in 3 of as many episodes as were judged by would overturn a
        *deploy*, and no log of that many can exclude it; None where bounds of the return do.
    """

    word: str
    why: str
    advice: str
    improvement: Interval
    value: Interval
    behaviour: Interval
    support: RatioSupport
    needed: int | None
    unseen_loss: float | None = None


def refusal(
    returns: np.ndarray,
    apart: float,
    basis: RatioSupport,
    spread: Tail,
    value: float,
    *,
    least: tuple[float, float, float] = LIMITS[FAIR],
) -> Reason | None:
    """Why the estimate for a policy shows nothing, whatever its bound; the cause that binds first.

    Args:
      returns: of the logged episodes.
      apart: by how much a ratio of the policy's differs from one, at most.
      basis: support of the estimate.
      spread: of the gain over the episodes.
      value: of the policy, as estimated.
      least: effective episodes, their share of all, and the largest tail index of the ratios.
    """
    n, (few, share, most) = len(returns), least
    needed = max(few, share * n)
    if (reason := same(apart)) is not None:
        return reason
    # Effective episodes grow with the log, a heavy tail stays.
    more = basis.ess > 1.5 and not basis.ess < share * n
    enough = max(LEAST, math.ceil(n * few / basis.ess)) if more else None
    rests = f"the estimate rests on {basis.ess:.1f} effective episodes of {n}"
    if basis.ess < needed:
        why = f"{rests}; at least {needed:g} are needed"
        return Reason(why, _log_more(enough), enough)
    if n < LEAST:
        why = f"there are {n} episodes to judge by, and fewer than {LEAST} show nothing"
        return Reason(why, _log_more(enough), enough)
    if basis.grade == POOR:
        why = f"{rests}, few of which carry it (Pareto-k {basis.pareto_k:.2f}, at most {most:g})"
        return Reason(why, NEARER)
    if spread.pareto_k > MOST_TAIL or spread.influence > MOST_INFLUENCE:
        why = (
            f"single episodes carry the estimate (Pareto-k {spread.pareto_k:.2f} of the gain, one "
            f"episode {spread.influence:.0%} of its variance)"
        )
        return Reason(why, BOUNDS)
    if not returns.min() <= value <= returns.max():
        why = (
            f"the estimate, {value:.4g}, is beyond every return in the log "
            f"({returns.min():.4g} to {returns.max():.4g})"
        )
        return Reason(why, NEARER)
    return None


def same(apart: float) -> Reason | None:
    """Why the logging policy itself is not judged."""
    if apart < SAME:
        return Reason("it is the logging policy itself", "There is nothing to deploy")
    return None


NEARER = "Judge a policy nearer to the logging one, or log again with one"
BOUNDS = "Declare the bounds of the return, Task(..., returns=(low, high)), or log more episodes"


def _log_more(needed: int | None) -> str:
    if needed is None:
        return NEARER
    return f"Log about {needed} episodes with the logging policy to judge by, or take a nearer one"


def verdict_of(
    best: JudgedPolicy,
    behaviour: Interval,
    n: int,
    *,
    losing: bool = False,
    guaranteed: bool = False,
    assume: str = "nothing",
) -> Verdict:
    """The verdict on a policy, or on the one of several with the highest bound.

    Args:
      best: the policy.
      behaviour: value of the behaviour policy.
      n: episodes that were judged by.
      losing: whether all candidates lose for sure.
      guaranteed: whether the bound holds for any returns within the bounds that were declared.
      assume: what the bound assumes.
    """
    gain = best.improvement
    parts = (gain, best.value, behaviour, best.support)
    if best.refusal is not None:
        why, advice, needed = best.refusal
        return Verdict(NOT_SHOWN, why, advice, *parts, needed)
    condition = f"with confidence {gain.confidence:g}"
    if guaranteed:
        condition += ", guaranteed by the declared bounds of the return"
    elif best.support.grade == FAIR:
        condition += ", half the error, because support is only fair"
    if assume == "markov":
        condition += ", if what is observed decides what comes next"
    if gain.low > 0:
        why = f"the improvement is at least {gain.low:.4g} {condition}"
        advice = "Deploy it with its noise, and log again: the next log reaches further"
        return Verdict(DEPLOY, why, advice, *parts, n, None if guaranteed else gain.low * n / RARE)
    if losing:
        why = f"it loses at least {-gain.high:.4g} {condition}"
        return Verdict(WORSE, why, "Keep the logging policy", *parts, None)
    why = f"the improvement lies between {gain.low:.4g} and {gain.high:.4g}: zero is not excluded"
    if gain.estimate <= 0:
        return Verdict(NOT_SHOWN, why, "Keep the logging policy", *parts, None)
    needed = math.ceil(n * ((gain.estimate - gain.low) / gain.estimate) ** 2)
    advice = f"Log about {needed} episodes with the logging policy to judge by"
    return Verdict(NOT_SHOWN, why, advice, *parts, needed)
