"""Times that mean something on a shared machine: the best of several, taken in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax
import tyro

AsJson = Annotated[bool, tyro.conf.arg(name="json")]


def _silent(name: str) -> None:
    del name


def best_times(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int,
    advance: Callable[[str], None] = _silent,
) -> dict[str, float]:
    """The shortest of `repeats` runs of each function, in seconds; compilation left out.

    Args:
      functions: what to time, by name.
      repeats: rounds; in each, all functions run once, so that a slow spell hits them alike.
      advance: told the name after each run, for a progress bar.

    Returns:
      Seconds by name.
    """
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        jax.block_until_ready(function())
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function())
            best[name] = min(best[name], time.perf_counter() - start)
            advance(name)
    return best
