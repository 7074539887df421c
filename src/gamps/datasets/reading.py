"""Read Minari datasets, and check everything in them that could cause a wrong answer.

Minari itself accepts an episode whose observations, infos and actions do not fit together. This
module compares each field with the others, and the densities with the policy that is said to have
drawn the actions, before anything is learned from them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gamps.datasets.checks import INFO, check_densities, check_not_clipped, extremes_of, naming
from gamps.datasets.dataset import Dataset, newest, of_newest, together
from gamps.datasets.hashes import check_hashes
from gamps.datasets.metadata import (
    behaviour_of,
    discount_of,
    kind_of,
    labels_of,
    limits_of,
    place_of,
    read_metadata,
)
from gamps.datasets.writing import LOG_PROB
from gamps.errors import DatasetError
from gamps.trajectories import Episode, from_episodes

FILE = "main_data.hdf5"


def load(name: str | Path) -> Dataset:
    """Read a Minari dataset, or several as one, and check all of it.

    Args:
      name: a dataset's name, or the path of a folder that was copied from elsewhere. Several names
        joined by +, the newest last, form one log of several controllers.

    Raises:
      DatasetError: names the field, the episode and the step that cannot be trusted.
    """
    parts = names_in(name)
    return together({part: _load(part) for part in parts}) if len(parts) > 1 else _load(name)


def names_in(name: str | Path) -> list[str]:
    """The datasets that a name stands for.

    Examples:
      >>> names_in("tanks/may-v0+tanks/june-v0")
      ['tanks/may-v0', 'tanks/june-v0']
    """
    return [str(name)] if Path(name).exists() else str(name).split("+")


def _load(name: str | Path) -> Dataset:
    folder = place_of(name)
    metadata, env_spec = read_metadata(folder / "data")
    behaviour, discount = behaviour_of(metadata), discount_of(metadata)
    densities = usable_densities(name, metadata)
    episodes = list(each_episode(folder / "data", metadata))
    with naming(file=True):
        trajectories = from_episodes(episodes)
    labels = labels_of(metadata)
    for name in ("controllers", "groups"):
        count = len(getattr(labels, name))
        if count not in (0, trajectories.n_trajectories):
            problem = f"{count} {name} for {trajectories.n_trajectories} episodes"
            raise DatasetError("metadata.json", problem, "Import the log again")
    if not 0 <= labels.judged < trajectories.n_trajectories:
        problem = f"{labels.judged} of {trajectories.n_trajectories} episodes judged a policy"
        raise DatasetError("metadata.json", problem, "Import the log again")
    if labels.controllers and labels.newest not in labels.controllers:
        problem = f"the newest controller, {labels.newest!r}, made no episode"
        raise DatasetError("metadata.json", problem, "Import the log again")
    data = Dataset(
        trajectories, behaviour, discount, env_spec, densities, labels, limits_of(metadata)
    )
    if behaviour is not None:
        numbers = np.flatnonzero(newest(data)).tolist()
        with naming(numbers, file=True):
            check_densities(of_newest(data), behaviour)
    check_not_clipped(extremes_of(trajectories))
    check_hashes(folder)
    return data


def load_episodes(name: str | Path) -> tuple[list[Episode], float | None, str, dict[str, Any]]:
    """Read episodes, discount, the kind of densities, and what `save` keeps of the log besides.

    It does not check density values.
    """
    folder = place_of(name)
    metadata, _ = read_metadata(folder / "data")
    check_hashes(folder)
    episodes = list(each_episode(folder / "data", metadata))
    kept = {"labels": labels_of(metadata), "limits": limits_of(metadata)}
    return episodes, discount_of(metadata), kind_of(metadata), kept


def usable_densities(name: str | Path, metadata: dict[str, Any]) -> str:
    """The kind of densities; refuses a log without any."""
    densities = kind_of(metadata)
    if densities == "missing":
        raise DatasetError(
            INFO,
            "missing: the table had no log-densities",
            f"Estimate the logging policy first: gamps fit-behaviour {name} --dataset NEW-NAME",
        )
    return densities


def each_episode(data: Path, metadata: dict[str, Any]) -> Iterator[Episode]:
    """Yield one episode after another, comparing its fields; checks the totals at the end."""
    import h5py

    steps = 0
    try:
        with h5py.File(data / FILE, "r") as file:
            count = metadata.get("total_episodes")
            if not isinstance(count, int) or count != len(file):
                raise DatasetError(
                    "metadata.json/total_episodes",
                    f"{count}, but {FILE} holds {len(file)} episodes",
                    "Write the dataset again: one of the two is incomplete",
                )
            if count == 0:
                raise DatasetError(FILE, "no episodes", "Log at least one")
            for i in range(count):
                if f"episode_{i}" not in file:
                    raise DatasetError(FILE, "no such episode", "Number them from 0", index=i)
                episode = _episode(i, file[f"episode_{i}"], metadata)
                steps += len(episode.rewards)
                yield episode
    except DatasetError:
        raise
    except Exception as error:  # h5py raises whatever the damage happens to cause
        raise DatasetError(FILE, f"cannot be read: {error}", "Get the dataset again") from error
    if metadata.get("total_steps") != steps:
        raise DatasetError(
            "metadata.json/total_steps",
            f"{metadata.get('total_steps')}, but the episodes have {steps}",
            "Write the dataset again: one of the two is incomplete",
        )


def _episode(i: int, group: Any, metadata: dict[str, Any]) -> Episode:
    """Read one episode and compare its fields with one another."""
    expected = {"rewards": 0, "observations": 1, "actions": 0, "terminations": 0, "truncations": 0}
    arrays = {name: _array(i, group, name) for name in (*expected, INFO)}
    steps = len(arrays["rewards"])
    for name, more in (expected | {INFO: 1}).items():
        count = len(arrays[name])
        if count != steps + more:
            raise DatasetError(
                name,
                f"{count} entries for {steps} rewards",
                f"Expected {steps + more}: one before the first step, then one per step"
                if more
                else f"Expected {steps}, one per step",
                index=i,
            )
    log_prob = arrays[INFO]
    if log_prob.size != steps + 1 or log_prob.dtype.kind != "f":
        problem = f"shape {log_prob.shape} of {log_prob.dtype}"
        raise DatasetError(INFO, problem, "Expected [T + 1, 1], floating-point", index=i)
    log_prob = log_prob.reshape(-1)
    if not np.isnan(log_prob[0]):
        raise DatasetError(
            INFO,
            f"starts with {log_prob[0]:.4g} and not with NaN",
            "Shift it: entry t + 1 is the density of action t, so entry 0 must be NaN",
            index=(i, 0),
        )
    for name in ("rewards", "terminations", "truncations"):
        if arrays[name].ndim != 1:
            problem = f"shape {arrays[name].shape}"
            raise DatasetError(name, problem, "Expected one value per step", index=i)
    for name in ("terminations", "truncations"):
        early = np.flatnonzero(arrays[name][:-1])
        if early.size:
            fix = "Split the episode there"
            raise DatasetError(name, "True before the last step", fix, index=(i, int(early[0])))
    for name, space in (("observations", "observation_space"), ("actions", "action_space")):
        _check_shape(i, name, arrays[name], metadata.get(space))
    return Episode(
        arrays["observations"],
        arrays["actions"],
        arrays["rewards"],
        log_prob[1:],
        bool(steps and arrays["terminations"][-1]),
    )


def _array(i: int, group: Any, name: str) -> np.ndarray:
    if name not in group:
        fix = "Write the episode again"
        if name == INFO:
            fix = f"Log the density of every action as infos[{LOG_PROB!r}]"
        raise DatasetError(name, "missing", fix, index=i)
    node = group[name]
    if not hasattr(node, "dtype"):
        fix = "Flatten dictionary or tuple spaces into one array before logging"
        raise DatasetError(name, "a group of arrays", fix, index=i)
    array = np.asarray(node[()])
    if array.dtype.kind not in "fiub":
        raise DatasetError(name, f"dtype {array.dtype}", "Expected numbers", index=i)
    if array.ndim == 0:
        raise DatasetError(name, "a single value", "Expected one per step", index=i)
    return array


def _check_shape(i: int, name: str, array: np.ndarray, space: Any) -> None:
    try:
        shape = tuple(json.loads(space)["shape"])
    except (KeyError, TypeError, ValueError):
        return  # a discrete space is stored without a shape
    if array.shape[1:] != shape:
        problem = f"{array.shape[1:]} per step, but the space has {shape}"
        raise DatasetError(name, problem, "Log every entry of the space", index=i)
