"""Intervals of an estimate: Student's t, bootstrap, and one that assumes no distribution."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from gamps.errors import SettingError
from gamps.evaluation.estimators import Evidence
from gamps.evaluation.ratio_sums import Terms, each, left_out, value

RESAMPLES = 2_000
CHUNK, SMALL = 200, 2_000


class Interval(NamedTuple):
    """Two one-sided bounds, each of which holds with the confidence.

    Attributes:
      estimate: in the middle, or nearly.
      low: the value is at least this.
      high: the value is at most this.
      confidence: of each bound by itself; both hold with twice the error.
    """

    estimate: float
    low: float
    high: float
    confidence: float


def _checked(terms: Terms, confidence: float) -> tuple[float, int]:
    if not 0.5 < confidence < 1:
        raise SettingError("confidence", f"{confidence}", "Choose it between 0.5 and 1")
    n = len(terms.numerators)
    if n < 3:
        raise SettingError("trajectories", f"{n}", "An interval needs at least three")
    return float(value(terms)), n


def student(terms: Terms, *, confidence: float = 0.975) -> Interval:
    """The estimate and so many standard errors: right for many trajectories of light tails."""
    estimate, n = _checked(terms, confidence)
    half = float(stdtrit(n - 1, confidence)) * each(terms).std(ddof=1) / math.sqrt(n)
    return Interval(estimate, estimate - half, estimate + half, confidence)


def bootstrap(
    terms: Terms,
    *,
    confidence: float = 0.975,
    corrected: bool = True,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Percentiles of the estimate over resampled logs.

    Args:
      terms: of the estimator.
      confidence: of each bound.
      corrected: for bias and skewness (BCa); False takes the plain percentiles.
      resamples: logs.
      seed: of the resampling.
    """
    estimate, n = _checked(terms, confidence)
    if terms.plain:
        terms = Terms.of(each(terms)[:, None])  # one column resamples like all of them
    # Small ones are drawn once for all estimators.
    draw = _cached_counts if n <= SMALL else _counts
    sizes = [min(CHUNK, resamples - start) for start in range(0, resamples, CHUNK)]
    parts = [value(terms, draw(n, size, seed, i)) for i, size in enumerate(sizes)]
    values = np.sort(np.concatenate(parts))
    shares = [1 - confidence, confidence]
    if corrected:
        bias = ndtri(np.clip(np.mean(values < estimate), 1 / resamples, 1 - 1 / resamples))
        without = left_out(terms)
        off = without.mean() - without
        scale = np.sum(off**2) ** 1.5
        skewness = float(np.sum(off**3) / (6 * scale)) if scale > 0 else 0.0
        moved = [bias + ndtri(share) for share in shares]
        shares = [float(ndtr(bias + m / (1 - skewness * m))) for m in moved]
    low, high = np.quantile(values, np.clip(shares, 0.0, 1.0))
    return Interval(estimate, float(low), float(high), confidence)


def _counts(n: int, size: int, seed: int, chunk: int) -> np.ndarray:
    """How often each trajectory is in each of `size` resampled logs."""
    generator = np.random.default_rng([seed, chunk])
    return generator.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)


_cached_counts = lru_cache(maxsize=16)(_counts)


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
    if not found.seen.all():
        problem = f"{int((~found.seen.all(axis=1)).sum())} were cut off before the others"
        raise SettingError("episodes", problem, "Give episodes of one length, or that ended")
    last = found.mask.sum(axis=1) - 1
    ratios = np.minimum(np.take_along_axis(found.rho, last[:, None], axis=1), largest)
    returns, span = found.rewards.sum(axis=1, keepdims=True), highest - lowest
    if returns.min() < lowest or returns.max() > highest:
        problem = f"{lowest:g} to {highest:g}, logged {returns.min():g} to {returns.max():g}"
        raise SettingError("range of returns", problem, "Give the range that they can have")
    below, above = (
        bernstein(Terms.of(ratios * gain), width=largest * span, confidence=confidence)
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
    estimate, n = _checked(terms, confidence)
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


INTERVALS: dict[str, Callable[..., Interval]] = {
    "student": student,
    # Its correction for skewness makes it shorter than it may be (`benchmarks.studies coverage`).
    "bootstrap": partial(bootstrap, corrected=False),
}


def interval_of(terms: Terms, name: str, *, confidence: float) -> Interval:
    """By its name: student or bootstrap."""
    if name not in INTERVALS:
        raise SettingError("interval", repr(name), f"Choose one of {', '.join(INTERVALS)}")
    return INTERVALS[name](terms, confidence=confidence)
