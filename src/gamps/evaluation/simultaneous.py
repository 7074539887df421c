"""Bounds that hold at once for several policies judged by the same episodes."""

import numpy as np
from scipy.special import ndtr, stdtrit

from gamps.errors import SettingError

DRAWS = 20_000


def critical_value(gains: np.ndarray, confidence: float, *, seed: int = 0) -> float:
    """How many standard errors all estimates stay within at once, on one side.

    This is the multiplier bootstrap of the largest t statistic. With normal multipliers that is the
    largest of normal numbers correlated as the gains are, so those are drawn. Its level is then
    looked up in Student's distribution, which for a single policy gives Student's interval.

    Args:
      gains: `[N, K]`, one number for each episode and policy; their means are the estimates.
      confidence: that none of the K bounds is wrong.
      seed: for the draws.

    Examples:
      >>> gains = np.random.default_rng(0).normal(size=(2_000, 1))
      >>> round(critical_value(np.repeat(gains, 5, axis=1), 0.95), 1)
      1.6
    """
    if not 0.5 < confidence < 1:
        raise SettingError("confidence", f"{confidence}", "Choose it between 0.5 and 1")
    n, count = gains.shape
    off = gains - gains.mean(axis=0)
    scale = np.sqrt((off**2).sum(axis=0))
    unit = off / np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(unit.T @ unit)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(seed).standard_normal((DRAWS, count)) @ root.T
    level = float(ndtr(np.quantile(draws.max(axis=1), confidence)))
    return float(stdtrit(n - 1, max(level, confidence)))
