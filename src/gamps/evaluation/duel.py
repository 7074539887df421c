"""Compare two policies that have both acted: test whether the new one earns more on average.

Two tests must agree. The rank test (Mann and Whitney) has an exact level for any distribution, if
the new returns are spread like the old ones or lie below. The test of means (Welch) answers the
question itself; its level is exact for normal returns. Passing both is no likelier than either.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit


class Measured(NamedTuple):
    """How much more a deployed policy earns than the one before it, each on its own episodes.

    Attributes:
      gain: difference of mean discounted returns.
      error: standard error of the gain.
      harm: whether the gain is shown to be below zero.
    """

    gain: float
    error: float
    harm: bool


def compared(new: np.ndarray, old: np.ndarray, confidence: float) -> Measured:
    """Compare two samples of returns with unequal variances (Welch)."""
    gain, error, freedom = _welch(new, old)
    return Measured(gain, error, bool(gain < -float(stdtrit(freedom, confidence)) * error))


def shown_better(new: np.ndarray, old: np.ndarray, error: float) -> bool:
    """Whether both tests call the new policy better, each at the level `error`.

    Examples:
      >>> shown_better(np.arange(20.0, 26.0), np.arange(6.0), 0.002)
      True
      >>> shown_better(np.arange(20.0, 24.0), np.arange(4.0), 0.002)  # four are too few
      False
    """
    gain, spread, freedom = _welch(new, old)
    by_means = gain > 0 if spread == 0 else float(stdtr(freedom, -gain / spread)) <= error
    return bool(by_means and rank_p(new, old) <= error)


def rank_p(new: np.ndarray, old: np.ndarray) -> float:
    """Chance of at least as many pairs in which the new one is higher, if both are spread alike.

    Ties count for the old one, which can only make the test more careful.

    Examples:
      >>> rank_p(np.array([3.0, 4.0]), np.array([1.0, 2.0])) * 6
      1.0
    """
    won = int((new[:, None] > old[None]).sum())
    ways = _ways(len(new), len(old))
    return float(ways[won:].sum() / ways.sum())


def _ways(new: int, old: int) -> np.ndarray:
    """The number of orderings with 0, 1, … pairs in which the new one is ahead."""
    # The highest is either a new one, which is then ahead of all old ones, or an old one.
    ways = {(i, 0): np.ones(1) for i in range(new + 1)}
    ways |= {(0, j): np.ones(1) for j in range(old + 1)}
    for i in range(1, new + 1):
        for j in range(1, old + 1):
            ways[i, j] = np.pad(ways[i - 1, j], (j, 0)) + np.pad(ways[i, j - 1], (0, i))
    return ways[new, old]


def _welch(new: np.ndarray, old: np.ndarray) -> tuple[float, float, float]:
    """Return the difference of means, its standard error, and the degrees of freedom."""
    parts = np.array([new.var(ddof=1) / len(new), old.var(ddof=1) / len(old)])
    squares = float((parts**2 / [len(new) - 1, len(old) - 1]).sum())
    freedom = float(parts.sum() ** 2 / squares) if squares > 0 else float(len(new) + len(old) - 2)
    return float(new.mean() - old.mean()), float(np.sqrt(parts.sum())), freedom
