"""Whether a policy may be deployed: a word, the main reason for it, and what to do next."""

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
"""The policy is better than the logging policy, with the requested confidence."""
NOT_SHOWN = "not shown to be better"
"""The policy may be better, but these episodes do not show it."""
WORSE = "worse"
"""The policy is worse than the logging policy, with the requested confidence."""
ROBUST = "doubly robust"  # the estimate that the verdict rests on
BY_STATES = "doubly robust by states"  # the same, assuming Markov observations
SAME = 1e-4  # ratios this close to one differ only by rounding
RARE = 3  # if 3 in n episodes fail, a log of n shows none of them with probability 5 %


class Reason(NamedTuple):
    """Why the episodes cannot show that a policy is better.

    Attributes:
      why: the main reason, in a sentence.
      advice: what to do about it.
      needed: how many held-out episodes would be enough in total; None if unknown.
    """

    why: str
    advice: str
    needed: int | None = None


class JudgedPolicy(NamedTuple):
    """What the held-out episodes say about one policy.

    Attributes:
      improvement: over the logging policy, paired on the same episodes.
      value: the policy's value.
      support: how well the log supports the estimate.
      tail: how the improvement is spread over the episodes.
      refusal: why its bounds do not count; None if they do.
    """

    improvement: Interval
    value: Interval
    support: RatioSupport
    tail: Tail
    refusal: Reason | None


class Verdict(NamedTuple):
    """What the log can say about a policy before it is deployed.

    Attributes:
      word: deploy, not shown to be better, or worse.
      why: the main reason, in a sentence.
      advice: what to do next.
      improvement: over the logging policy, paired on the same episodes.
      value: the policy's value.
      behaviour: the logging policy's value.
      support: how well the log supports the estimate.
      needed: how many held-out episodes would lift the bound above zero in total, if the estimate
        is right; None if unknown.
      unseen_loss: if 3 of n episodes lost this much, *deploy* would be wrong, and n held-out
        episodes cannot exclude it; None where declared bounds on the return do.
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
    bounds_help: bool = True,
) -> Reason | None:
    """Why the estimate for a policy shows nothing, whatever its bound: the first reason that holds.

    Args:
      returns: returns of the logged episodes.
      apart: the largest difference between one of the policy's ratios and one.
      basis: support of the estimate.
      spread: how the gain is spread over the episodes.
      value: the policy's estimated value.
      least: least effective episodes, their least share, and the largest tail index of the ratios.
      bounds_help: whether declared bounds on the return would be used.
    """
    n, (few, share, most) = len(returns), least
    needed = max(few, share * n)
    if (reason := same(apart)) is not None:
        return reason
    # More episodes raise the effective number; they do not remove a heavy tail.
    more = basis.ess > 1.5 and not basis.ess < share * n
    enough = max(LEAST, math.ceil(n * few / basis.ess)) if more else None
    rests = f"the estimate rests on {basis.ess:.1f} effective episodes out of {n}"
    if basis.ess < needed:
        why = f"{rests}; at least {needed:g} are needed"
        return Reason(why, _log_more(enough), enough)
    if n < LEAST:
        why = f"there are only {n} episodes to judge by; at least {LEAST} are needed"
        return Reason(why, _log_more(enough), enough)
    if basis.grade == POOR:
        why = f"{rests}, but a few dominate it (Pareto-k {basis.pareto_k:.2f} > {most:g})"
        return Reason(why, NEARER)
    if spread.pareto_k > MOST_TAIL or spread.influence > MOST_INFLUENCE:
        why = (
            f"single episodes dominate the estimate (the gain has Pareto-k {spread.pareto_k:.2f}, "
            f"and one episode makes up {spread.influence:.0%} of its variance)"
        )
        return Reason(why, BOUNDS if bounds_help else NEARER)
    if not returns.min() <= value <= returns.max():
        why = (
            f"the estimate, {value:.4g}, is outside the range of the logged returns "
            f"({returns.min():.4g} to {returns.max():.4g})"
        )
        return Reason(why, NEARER)
    return None


def same(apart: float) -> Reason | None:
    """The reason not to judge a policy that is the logging policy; None if it is another one."""
    if apart < SAME:
        return Reason("it is the logging policy itself", "There is nothing to deploy")
    return None


FURTHER = (
    "Deploy the certified policy with its noise, and log again: a new log can show a further "
    "improvement"
)
NEARER = "Evaluate a policy closer to the logging policy, or collect a new log with one"
BOUNDS = "Declare bounds on the return (--returns, or Task(..., returns=...)), or log more episodes"


def _log_more(needed: int | None) -> str:
    if needed is None:
        return NEARER
    return f"Log about {needed} held-out episodes with the logging policy, or use a closer policy"


def rare_failures(verdict: Verdict, unit: str = "episode", *, declare: bool = True) -> str:
    """Say what the episodes, or groups, of a *deploy* without declared bounds cannot exclude.

    Args:
      verdict: the verdict.
      unit: what is counted: episode or group.
      declare: whether declaring bounds would help.
    """
    n = verdict.needed or 0
    said = (
        f"Caution: {n} {unit}s can miss a rare failure. If the policy failed in one {unit} in "
        f"{n / RARE:.0f} and lost {verdict.unseen_loss:.4g} each time, that would cancel the "
        f"certified improvement."
    )
    if not declare:
        return said
    return (
        f"{said} If you know the lowest and the highest possible return, declare them (gamps "
        "evaluate --returns LOW HIGH): the new verdict then covers such failures."
    )


def verdict_of(
    best: JudgedPolicy,
    behaviour: Interval,
    n: int,
    *,
    losing: bool = False,
    guaranteed: bool = False,
    assume: str = "nothing",
) -> Verdict:
    """Return the verdict on a policy, or on the one of several that has the highest bound.

    Args:
      best: what the episodes say about that policy.
      behaviour: value of the logging policy.
      n: number of held-out episodes.
      losing: whether all candidates are shown to be worse.
      guaranteed: whether the lower bound holds for any returns within the declared bounds.
      assume: what the bound assumes.
    """
    gain = best.improvement
    parts = (gain, best.value, behaviour, best.support)
    if best.refusal is not None:
        why, advice, needed = best.refusal
        return Verdict(NOT_SHOWN, why, advice, *parts, needed)
    condition = f"with confidence {gain.confidence:g}"
    if guaranteed and gain.low > 0:
        condition += ", guaranteed by the declared bounds on the return"
    elif best.support.grade == FAIR and not guaranteed:
        usual = f"{2 * gain.confidence - 1:.6g}"
        condition += f" (instead of {usual}: gamps demands more where evidence is scarce)"
    if assume == "markov":
        condition += ", assuming that observations are Markov"
    if gain.low > 0:
        why = f"the improvement is at least {gain.low:.4g} {condition}"
        advice = FURTHER
        return Verdict(DEPLOY, why, advice, *parts, n, None if guaranteed else gain.low * n / RARE)
    if losing:
        why = f"it is worse by at least {-gain.high:.4g} {condition}"
        return Verdict(WORSE, why, "Keep the logging policy", *parts, None)
    why = f"the improvement lies between {gain.low:.4g} and {gain.high:.4g}: zero is not ruled out"
    if gain.estimate <= 0:
        return Verdict(NOT_SHOWN, why, "Keep the logging policy", *parts, None)
    needed = math.ceil(n * ((gain.estimate - gain.low) / gain.estimate) ** 2)
    advice = f"Log about {needed} held-out episodes with the logging policy"
    return Verdict(NOT_SHOWN, why, advice, *parts, needed)
