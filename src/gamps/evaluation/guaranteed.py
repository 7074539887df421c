"""Bounds that assume nothing of a distribution but its range, and hold for any few episodes."""

import math

import numpy as np

from gamps.errors import SettingError
from gamps.evaluation.estimators import Evidence, whole_episode
from gamps.evaluation.intervals import Interval, checked
from gamps.evaluation.ratio_sums import Terms, each

MOST_STAKE = 0.75  # of what a bet can lose


def betting(numbers: np.ndarray, *, width: float, confidence: float) -> float:
    """A lower bound of the mean of numbers from 0 to `width`, for any distribution of them.

    Whoever bets that the mean is above m, at fair odds if it is m, multiplies a capital by 1/α with
    a probability of at most α (Ville). The bound is the largest m against which that was earned;
    stakes are those of Waudby-Smith and Ramdas (2024), from the numbers before alone.

    Examples:
      >>> coins = np.random.default_rng(0).integers(0, 2, 400)
      >>> 0.4 < betting(coins, width=1.0, confidence=0.95) < 0.5
      True
    """
    x = np.asarray(numbers, np.float64) / width
    n, goal = len(x), math.log(1 / (1 - confidence))
    if x.min() < 0 or x.max() > 1:
        problem = f"{width:g}, the numbers are {x.min() * width:g} to {x.max() * width:g}"
        raise SettingError("width", problem, "Give the range that they can have")
    counts = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(x)) / (counts + 1)
    spread = (0.25 + np.cumsum((x - means) ** 2)) / (counts + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    stakes = np.sqrt(2 * goal / (n * before))

    def earned(m: float) -> float:
        """The largest logarithm of the capital on the way."""
        return float(np.cumsum(np.log1p(np.minimum(stakes, MOST_STAKE / m) * (x - m))).max())

    low, high = 0.0, float(x.mean())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle > 0 and earned(middle) >= goal else (low, middle)
    return low * width


def guaranteed_gain(
    ratios: np.ndarray,
    returns: np.ndarray,
    *,
    lowest: float,
    highest: float,
    largest: float = 4.0,
    confidence: float,
) -> float:
    """A lower bound of a policy's improvement that holds for any returns within their bounds.

    Of (ρ - 1)(G - lowest), paired on the same episodes, cutting ρ off can only take away; what is
    left is bounded, and its mean's lower bound is by `betting`.

    Args:
      ratios: of whole episodes, none of them cut off.
      returns: of the same, discounted.
      lowest: return that an episode can have.
      highest: the same.
      largest: ratio that counts in full; larger is less biased and needs more episodes.
      confidence: of the bound.
    """
    _check_bounds(returns, lowest, highest)
    span = highest - lowest
    gains = (np.minimum(ratios, largest) - 1) * (returns - lowest)
    return betting(gains + span, width=largest * span, confidence=confidence) - span


def _whole(found: Evidence, lowest: float, highest: float) -> tuple[np.ndarray, np.ndarray]:
    """Ratios and returns of whole episodes, none of them cut off or beyond the bounds."""
    refuse_cut_off(int((~found.seen.all(axis=1)).sum()))
    returns = found.rewards.sum(axis=1)
    _check_bounds(returns, lowest, highest)
    return np.exp(whole_episode(found)), returns


def refuse_cut_off(count: int) -> None:
    """What an episode would have earned after it was cut off is not known."""
    if count:
        problem = f"{count} were cut off before the others"
        raise SettingError("episodes", problem, "Give episodes of one length, or that ended")


def _check_bounds(returns: np.ndarray, lowest: float, highest: float) -> None:
    if returns.min() < lowest or returns.max() > highest:
        problem = f"{lowest:g} to {highest:g}, logged {returns.min():g} to {returns.max():g}"
        raise SettingError("range of returns", problem, "Give the range that they can have")


def guaranteed(
    found: Evidence,
    *,
    lowest: float,
    highest: float,
    largest: float = 4.0,
    confidence: float = 0.975,
) -> Interval:
    """Bounds that hold for any policy and any number of episodes, however thin the support.

    Of returns above the lowest, cutting ratios off can only take away, so a lower bound of what is
    left is one of the whole; likewise from above. Both are empirical Bernstein bounds.

    Args:
      found: of episodes that ended, or are as long as any.
      lowest: return that an episode can have.
      highest: the same.
      largest: ratio that counts in full; larger is less biased and needs more episodes.
      confidence: of each bound.
    """
    ratios, returns = _whole(found, lowest, highest)
    kept, span = np.minimum(ratios, largest), highest - lowest
    below, above = (
        bernstein(Terms.of((kept * gain)[:, None]), width=largest * span, confidence=confidence)
        for gain in (returns - lowest, highest - returns)
    )
    low, high = max(lowest + below.low, lowest), min(highest - above.low, highest)
    middle = (lowest + below.estimate + highest - above.estimate) / 2
    return Interval(middle, low, high, confidence)


def bernstein(terms: Terms, *, width: float, confidence: float = 0.975) -> Interval:
    """Empirical Bernstein (Maurer and Pontil 2009): holds for any distribution of bounded numbers.

    Args:
      terms: of an estimator that is a mean of one number a trajectory.
      width: between the least and the largest that such a number can be; the largest ratio times
        the range of returns.
      confidence: of each bound.
    """
    estimate, n = checked(terms, confidence)
    if not terms.plain:
        fix = "Take per_decision or doubly_robust of episodes that were not cut off"
        raise SettingError("terms", "are ratios of sums", fix)
    numbers = each(terms)
    if not width >= np.ptp(numbers):
        problem = f"{width:g}, but the numbers of this log differ by {np.ptp(numbers):g}"
        raise SettingError("width", problem, "Give the range that they can have")
    log = math.log(2 / (1 - confidence))
    half = math.sqrt(2 * numbers.var(ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))
    return Interval(estimate, estimate - half, estimate + half, confidence)
