"""Summarise many runs by one number: the interquartile mean, with a stratified interval."""

from collections.abc import Mapping, Sequence

import numpy as np

from gamps.errors import SettingError
from gamps.evaluation.intervals import Interval

RESAMPLES = 5_000


def iqm(values: np.ndarray) -> np.ndarray:
    """Interquartile mean along the last axis: it ignores a quarter of the runs at each end.

    If the number of runs is not a multiple of four, the runs at the borders count in part.

    Examples:
      >>> float(iqm(np.asarray([0.0, 1.0, 2.0, 100.0])))
      1.5
      >>> float(iqm(np.asarray([0.0, 3.0, 9.0])))
      3.5
    """
    n = values.shape[-1]
    # The part of each run, in order, that lies between a quarter and three quarters of all.
    ends = np.clip(np.arange(n + 1), n / 4, 3 * n / 4)
    return np.asarray(np.sort(values, axis=-1) @ np.diff(ends) / (n / 2))


def stratified(
    values: Mapping[str, Sequence[float]], *, confidence: float = 0.975, seed: int = 0
) -> Interval:
    """The interquartile mean over all runs, with bounds from resampling within each stratum.

    Args:
      values: values of the runs by stratum; a stratum is the log that they were made from.
      confidence: of each bound.
      seed: for the resampling.
    """
    if not 0.5 < confidence < 1:
        raise SettingError("confidence", f"{confidence}", "Choose it between 0.5 and 1")
    generator = np.random.default_rng(seed)
    strata = [np.asarray(each, np.float64) for each in values.values()]
    resamples = [generator.choice(each, (RESAMPLES, len(each))) for each in strata]
    low, high = np.quantile(iqm(np.concatenate(resamples, axis=1)), [1 - confidence, confidence])
    return Interval(float(iqm(np.concatenate(strata))), float(low), float(high), confidence)
