"""Convert trajectories for Minari: one buffer per episode, with the density of every action."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium
import numpy as np

from gamps.errors import DatasetError
from gamps.trajectories import Trajectories

LOG_PROB = "behavior_log_prob"
"""The name of the log-densities among the infos of a Minari dataset."""


def space_of(values: Any) -> gymnasium.spaces.Box:
    """The space of raw values; an actuator's limits do not apply to them."""
    shape = values.shape[2:]
    if values.dtype.kind == "f":
        return gymnasium.spaces.Box(-np.inf, np.inf, shape, values.dtype.type)
    limits = np.iinfo(values.dtype)
    return gymnasium.spaces.Box(limits.min, limits.max, shape, values.dtype.type)


def alike(first: Trajectories, following: Iterator[Trajectories]) -> Iterator[Trajectories]:
    """Yield the chunks; refuses one whose spaces differ from those of the first."""
    yield first
    for i, chunk in enumerate(following, start=1):
        for name in ("observations", "actions"):
            values, other = getattr(chunk, name), getattr(first, name)
            if values.shape[2:] != other.shape[2:] or values.dtype != other.dtype:
                problem = f"{values.shape[2:]} of {values.dtype} per step in chunk {i}"
                fix = f"Expected {other.shape[2:]} of {other.dtype}, as in chunk 0"
                raise DatasetError(name, problem, fix)
        yield chunk


def buffers(chunks: Iterable[Trajectories], *, known: bool) -> Iterator[Any]:
    """Yield one Minari buffer per episode, without padding."""
    from minari.data_collector import EpisodeBuffer

    count = itertools.count()
    for chunk in chunks:
        names = [name for name in Trajectories.__annotations__ if name != "before"]
        arrays = {name: np.asarray(getattr(chunk, name)) for name in names}
        for i, steps in enumerate(np.asarray(chunk.lengths)):
            ends = np.arange(steps) == steps - 1
            densities = arrays["behaviour_log_prob"][i, :steps]
            log_prob = np.concatenate([[np.nan], densities if known else np.full(steps, np.nan)])
            yield EpisodeBuffer(
                id=next(count),
                observations=arrays["observations"][i, : steps + 1],
                actions=arrays["actions"][i, :steps],
                rewards=arrays["rewards"][i, :steps],
                terminations=ends & arrays["terminated"][i],
                truncations=ends & ~arrays["terminated"][i],
                infos={LOG_PROB: log_prob[:, None]},
            )
