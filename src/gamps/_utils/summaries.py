"""Summarise numbers over runs for a table."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import stdtrit


def summary(values: Any) -> dict[str, float | int]:
    """Mean, standard deviation over runs, and the 95 % Student interval of the mean.

    Examples:
      >>> {k: round(v, 2) for k, v in summary([1.0, 2.0, 3.0]).items()}
      {'mean': 2.0, 'std': 1.0, 'low': -0.48, 'high': 4.48, 'n': 3}
    """
    array = np.asarray(values, dtype=float).ravel()
    n, mean = len(array), float(array.mean())
    if not math.isfinite(mean):
        return {"mean": mean, "std": math.nan, "low": mean, "high": mean, "n": n}
    std = float(array.std(ddof=1)) if n > 1 else 0.0
    # A percentile of Student's t; importing scipy.stats would cost every command a second.
    half = float(stdtrit(n - 1, 0.975)) * std / math.sqrt(n) if n > 1 else 0.0
    return {"mean": mean, "std": std, "low": mean - half, "high": mean + half, "n": n}


def plain(content: Any) -> Any:
    """Convert data to what JSON would return; numbers that are not finite become null.

    Examples:
      >>> plain({"low": float("-inf"), "pair": (1, 2.5)})
      {'low': None, 'pair': [1, 2.5]}
    """
    if hasattr(content, "_asdict"):
        content = content._asdict()
    if isinstance(content, Mapping):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def standard_error(number: Mapping[str, float]) -> float:
    """Standard error of the mean of a `summary`."""
    return number["std"] / math.sqrt(number["n"])


def cell(number: Mapping[str, float], digits: int = 3) -> str:
    """Mean and half-width of the interval, for a table."""
    return f"{number['mean']:.{digits}f} ± {(number['high'] - number['low']) / 2:.{digits}f}"


def spread(number: Mapping[str, float], digits: int = 2) -> str:
    """Mean and standard deviation over runs, for a table."""
    return f"{number['mean']:.{digits}f} ± {number['std']:.{digits}f}"
