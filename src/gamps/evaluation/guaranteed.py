"""Bounds that assume nothing about a distribution but its range, for any number of episodes."""

import math

import numpy as np

from gamps.errors import SettingError
from gamps.evaluation.estimators import Evidence, whole_episode
from gamps.evaluation.intervals import Interval, checked
from gamps.evaluation.ratio_sums import Terms, each

ROUNDING = 1e-5  # of a return, as single precision sums it
MOST_STAKE = 0.75  # largest share of the capital that a bet can lose


def betting(numbers: np.ndarray, *, width: float, confidence: float) -> float:
    """A lower bound on the mean of numbers from 0 to `width`, for any distribution.

    Bet that the mean is above m, at odds that are fair if it is m: the capital then grows by a
    factor of 1/α with probability at most α (Ville). The bound is the largest m for which it grew
    that much. The stakes, from earlier numbers only, are those of Waudby-Smith and Ramdas (2024).
    The order of the numbers must say nothing about them: betting on a sorted log is no game of
    chance.

    Examples:
      >>> coins = np.random.default_rng(0).integers(0, 2, 400)
      >>> 0.4 < betting(coins, width=1.0, confidence=0.95) < 0.5
      True
    """
    x = np.asarray(numbers, np.float64) / width
    n, goal = len(x), math.log(1 / (1 - confidence))
    if x.min() < 0 or x.max() > 1:
        problem = f"{width:g}, but the numbers are {x.min() * width:g} to {x.max() * width:g}"
        raise SettingError("width", problem, "Give the range of values that they can take")
    counts = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(x)) / (counts + 1)
    spread = (0.25 + np.cumsum((x - means) ** 2)) / (counts + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    stakes = np.sqrt(2 * goal / (n * before))

    def earned(m: float) -> float:
        """The largest logarithm of the capital at any time."""
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
    """A lower bound on a policy's improvement that holds for any returns within their bounds.

    The improvement is the mean of (ρ - 1)(G - lowest), paired on the same episodes. Truncating ρ
    can only lower it and makes it bounded, so `betting` gives a lower bound.

    Args:
      ratios: ratios of whole episodes, none of them cut off.
      returns: discounted returns of the same episodes.
      lowest: the lowest return that an episode can have.
      highest: the highest return that an episode can have.
      largest: ratios are truncated here; larger is less biased and needs more episodes.
      confidence: of the bound.
    """
    returns, span = _within(returns, lowest, highest), highest - lowest
    gains = (np.minimum(ratios, largest) - 1) * (returns - lowest)
    # A log may be sorted, and shards are, by length.
    gains = np.random.default_rng(0).permutation(gains)
    return betting(gains + span, width=largest * span, confidence=confidence) - span


def _whole(found: Evidence, lowest: float, highest: float) -> tuple[np.ndarray, np.ndarray]:
    """Ratios and returns of whole episodes; refuses cut-off episodes and returns out of bounds."""
    refuse_cut_off(int((~found.seen.all(axis=1)).sum()))
    returns = _within(found.rewards.sum(axis=1), lowest, highest)
    return np.exp(whole_episode(found)), returns


def refuse_cut_off(count: int) -> None:
    """Raise if episodes were cut off: what they would have earned afterwards is unknown."""
    if count:
        problem = f"{count} were cut off before the others"
        raise SettingError("episodes", problem, "Give episodes of equal length, or that terminated")


def _within(returns: np.ndarray, lowest: float, highest: float) -> np.ndarray:
    """The returns within their bounds, which rounded rewards may miss by a little."""
    little = ROUNDING * max(abs(lowest), abs(highest), highest - lowest)
    if returns.min() < lowest - little or returns.max() > highest + little:
        problem = f"{lowest:g} to {highest:g}, but logged {returns.min():g} to {returns.max():g}"
        raise SettingError("range of returns", problem, "Give the range of possible returns")
    return np.clip(returns, lowest, highest)


def guaranteed(
    found: Evidence,
    *,
    lowest: float,
    highest: float,
    largest: float = 4.0,
    confidence: float = 0.975,
) -> Interval:
    """Bounds that hold for any policy and any number of episodes, however thin the support.

    For returns measured from the lowest, truncating ratios can only lower the value, so a lower
    bound still holds; likewise from above. Both are empirical Bernstein bounds.

    Args:
      found: evidence from episodes that terminated, or that are as long as the longest.
      lowest: the lowest return that an episode can have.
      highest: the highest return that an episode can have.
      largest: ratios are truncated here; larger is less biased and needs more episodes.
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
      terms: terms of an estimator that is a mean of one number for each trajectory.
      width: the largest possible such number minus the smallest: the largest ratio times the
        range of returns.
      confidence: of each bound.
    """
    estimate, n = checked(terms, confidence)
    if not terms.plain:
        fix = "Use per_decision or doubly_robust on episodes that were not cut off"
        raise SettingError("terms", "ratios of sums", fix)
    numbers = each(terms)
    if not width >= np.ptp(numbers):
        problem = f"{width:g}, but the numbers of this log differ by {np.ptp(numbers):g}"
        raise SettingError("width", problem, "Give the range of values that they can take")
    log = math.log(2 / (1 - confidence))
    half = math.sqrt(2 * numbers.var(ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))
    return Interval(estimate, estimate - half, estimate + half, confidence)
