"""Intervals for an estimate: Student's t and the bootstrap."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from gamps.errors import SettingError
from gamps.evaluation.ratio_sums import Terms, each, left_out, value

RESAMPLES = 2_000
CHUNK, SMALL = 200, 2_000


class Interval(NamedTuple):
    """Two one-sided bounds, each of which holds with the given confidence.

    Attributes:
      estimate: in the middle, or nearly so.
      low: the value is at least this.
      high: the value is at most this.
      confidence: of each bound alone; together they have twice the error.
    """

    estimate: float
    low: float
    high: float
    confidence: float


def checked(terms: Terms, confidence: float) -> tuple[float, int]:
    """Return the estimate and its number of trajectories; raise if they allow no interval."""
    if not 0.5 < confidence < 1:
        raise SettingError("confidence", f"{confidence}", "Choose it between 0.5 and 1")
    n = len(terms.numerators)
    if n < 3:
        raise SettingError("trajectories", f"{n}", "An interval needs at least three")
    return float(value(terms)), n


def student(terms: Terms, *, confidence: float = 0.975) -> Interval:
    """Student's t interval: right for many trajectories with light tails."""
    estimate, n = checked(terms, confidence)
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
      terms: terms of the estimator.
      confidence: of each bound.
      corrected: correct for bias and skewness (BCa); False uses the plain percentiles.
      resamples: number of resampled logs.
      seed: for the resampling.
    """
    estimate, n = checked(terms, confidence)
    if terms.plain:
        terms = Terms.of(each(terms)[:, None])  # one column resamples like all of them
    # Resamples of small logs are drawn once for all estimators.
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


INTERVALS: dict[str, Callable[..., Interval]] = {
    "student": student,
    # The correction for skewness makes the interval too short (`benchmarks.studies coverage`).
    "bootstrap": partial(bootstrap, corrected=False),
}


def interval_of(terms: Terms, name: str, *, confidence: float) -> Interval:
    """Return the interval by its name: student or bootstrap."""
    if name not in INTERVALS:
        raise SettingError("interval", repr(name), f"Choose one of {', '.join(INTERVALS)}")
    return INTERVALS[name](terms, confidence=confidence)
