"""Estimators as sums over trajectories: all that intervals, bootstraps and jackknifes need.

Every estimator here is Σ_k ± (Σ_i n_ik) / (Σ_i d_ik). For importance sampling d is one; for its
self-normalised form d is the ratio. Counting trajectory i some other number of times gives the
estimate for a resampled log without computing anything again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Terms(NamedTuple):
    """Numerators and denominators for each trajectory, in double precision on the host.

    Attributes:
      numerators: `[N, K]`.
      denominators: `[N, K]`.
      signs: `[K]`, one or minus one.
    """

    numerators: np.ndarray
    denominators: np.ndarray
    signs: np.ndarray

    @classmethod
    def of(cls, numerators: np.ndarray, denominators: np.ndarray | float = 1.0) -> Terms:
        """Terms that are added up, all with a positive sign."""
        n = np.asarray(numerators, np.float64)
        return cls(
            n, np.broadcast_to(np.asarray(denominators, np.float64), n.shape), np.ones(n.shape[1])
        )

    @property
    def plain(self) -> bool:
        """Whether the estimate is a mean of independent numbers, one for each trajectory."""
        return bool((self.denominators == 1.0).all())


def value(terms: Terms, counts: np.ndarray | None = None) -> np.ndarray:
    """The estimate for the log, or for resampled logs with `counts` `[..., N]` of trajectories."""
    if counts is None:
        counts = np.ones(len(terms.numerators))
    above, below = counts @ terms.numerators, counts @ terms.denominators
    # A step that no resampled trajectory reached adds nothing.
    ratios = np.divide(above, below, out=np.zeros_like(above), where=below != 0)
    return np.asarray(ratios @ terms.signs)


def each(terms: Terms) -> np.ndarray:
    """`[N]` numbers whose mean is the estimate and whose spread is its uncertainty.

    For a plain mean they are its numbers, for a ratio of sums its linearisation (delta method).
    """
    n = len(terms.numerators)
    above, below = terms.numerators.sum(axis=0), terms.denominators.sum(axis=0)
    safe = np.where(below != 0, below, 1.0)
    off = terms.numerators - above / safe * terms.denominators
    return np.asarray(value(terms) + n * (off / safe) @ terms.signs)


def by_group(numbers: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """`[G, ...]`: one number for each group, in place of one for each trajectory; the same mean.

    Examples:
      >>> by_group(np.array([1.0, 2.0, 6.0]), np.array(["a", "b", "b"])).tolist()
      [0.6666666666666666, 5.333333333333333]
    """
    if groups is None:
        return numbers
    kinds, at = np.unique(groups, return_inverse=True)
    totals = np.zeros((len(kinds), *numbers.shape[1:]))
    np.add.at(totals, at, numbers)
    return totals * (len(kinds) / len(numbers))


def terms_by_group(terms: Terms, groups: np.ndarray | None) -> Terms:
    """The same estimate, with a row for each group in place of one for each trajectory."""
    above, below = (by_group(part, groups) for part in (terms.numerators, terms.denominators))
    return Terms(above, below, terms.signs)


def left_out(terms: Terms) -> np.ndarray:
    """`[N]`, the estimate without each trajectory in turn."""
    above = terms.numerators.sum(axis=0) - terms.numerators
    below = terms.denominators.sum(axis=0) - terms.denominators
    ratios = np.divide(above, below, out=np.zeros_like(above), where=np.abs(below) > 1e-300)
    return np.asarray(ratios @ terms.signs)


def difference(one: Terms, other: Terms) -> Terms:
    """The difference of two estimates on the same log; paired: both count a trajectory alike."""
    return Terms(
        np.concatenate([one.numerators, other.numerators], axis=1),
        np.concatenate([one.denominators, other.denominators], axis=1),
        np.concatenate([one.signs, -other.signs]),
    )
