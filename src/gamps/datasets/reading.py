"""Minari datasets read back, and everything in them checked that a wrong answer could come from.

Minari itself accepts an episode whose observations, infos and actions do not fit together. Here
each field is compared with the others, and the densities with the policy that is said to have drawn
the actions, before anything is learned from them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from gymnasium.envs.registration import EnvSpec

from gamps.datasets.writing import (
    DENSITIES,
    DISCOUNT,
    LOG_PROB,
    POLICY,
    check_hashes,
    folder_of,
    minari_package,
)
from gamps.errors import DatasetError, DescriptionError, TrajectoryError
from gamps.policies import Boltzmann, Policy, log_probs, rebuild
from gamps.trajectories import Episode, Trajectories, from_episodes

FILE = "main_data.hdf5"
INFO = f"infos/{LOG_PROB}"
TOLERANCE = 1e-3  # of a recomputed log-density: float32 of long sums, not another action


class Dataset(NamedTuple):
    """A log with what its metadata say about it.

    Attributes:
      trajectories: the log, validated.
      behaviour: the policy that made it, or None if it could not be written down.
      discount: γ that the log was made for, or None if it was not said.
      env_spec: Gymnasium's specification of the environment, or None.
      densities: known, or estimated from the actions.
    """

    trajectories: Trajectories
    behaviour: Policy | None
    discount: float | None
    env_spec: Any
    densities: str = "known"


def load(name: str | Path) -> Dataset:
    """Read a Minari dataset and check all of it.

    Args:
      name: a dataset's name, or the path of a folder that was copied from elsewhere.

    Returns:
      The log, its behaviour policy and its discount.

    Raises:
      DatasetError: naming the field, the episode and the step that cannot be trusted.
    """
    folder = _found(name)
    metadata, env_spec = _metadata(folder / "data")
    behaviour, discount, densities = _behaviour(metadata), _discount(metadata), _kind(metadata)
    if densities == "missing":
        raise DatasetError(
            INFO,
            "missing: the table had no log-densities",
            f"Estimate the logging policy first: gamps fit-behaviour {name} --dataset NEW-NAME",
        )
    episodes = _episodes(folder / "data", metadata)
    try:
        trajectories = from_episodes(episodes)
    except TrajectoryError as error:
        field, index = error.field, error.index
        if field == "behaviour_log_prob" and index is not None:
            field, index = INFO, _in_file(index)
        raise DatasetError(field, error.finding, error.mend, index=index) from error
    if behaviour is not None:
        _check_densities(trajectories, behaviour)
    _check_not_clipped(trajectories)
    check_hashes(folder)
    return Dataset(trajectories, behaviour, discount, env_spec, densities)


def load_episodes(name: str | Path) -> tuple[list[Episode], float | None, str]:
    """Episodes, discount, and the kind of densities, which are not looked at themselves."""
    folder = _found(name)
    metadata, _ = _metadata(folder / "data")
    check_hashes(folder)
    return _episodes(folder / "data", metadata), _discount(metadata), _kind(metadata)


def _found(name: str | Path) -> Path:
    minari_package()
    folder = Path(name) if Path(name).is_dir() else folder_of(str(name))
    if not (folder / "data").is_dir():
        raise DatasetError(
            "dataset",
            f"no data in {folder}",
            "Write it by `gamps import` or `gamps collect`, or set MINARI_DATASETS_PATH to where "
            "it lies",
        )
    return folder


def _kind(metadata: dict[str, Any]) -> str:
    """What is said of the densities; other people's logs say nothing, and are taken for known."""
    said = metadata.get(DENSITIES, '"known"')
    for kind in ("known", "estimated", "missing"):
        if said == json.dumps(kind):
            return kind
    mend = "Expected known, estimated or missing"
    raise DatasetError(f"metadata.json/{DENSITIES}", f"{said!r:.40}", mend)


def _metadata(data: Path) -> tuple[dict[str, Any], Any]:
    """The metadata, and the environment's specification, which nothing is made from."""
    mend = "Get the dataset again, or write it by `gamps collect`"
    try:
        metadata = json.loads((data / "metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError("metadata.json", f"cannot be read: {error}", mend) from error
    if not isinstance(metadata, dict):
        raise DatasetError("metadata.json", "is not a table", mend)
    if metadata.get("data_format") != "hdf5":
        raise DatasetError(
            "metadata.json/data_format",
            f"{metadata.get('data_format')!r}",
            'Create it with data_format="hdf5": the arrow format loses steps of long episodes',
        )
    for space in ("observation_space", "action_space"):
        # Without them Minari makes the environment that the file names: that could be any code.
        if not isinstance(metadata.get(space), str):
            raise DatasetError(f"metadata.json/{space}", "missing", mend)
    described = metadata.get("env_spec")
    try:
        env_spec = None if described is None else EnvSpec.from_json(described)
    except Exception as error:  # Gymnasium raises whatever the damage happens to cause
        finding = f"cannot be read: {type(error).__name__}: {error}"
        raise DatasetError("metadata.json/env_spec", finding, mend) from error
    return metadata, env_spec


def _behaviour(metadata: dict[str, Any]) -> Policy | None:
    try:
        described = json.loads(metadata.get(POLICY, "null"))
        return None if described is None else rebuild(described)
    except (ValueError, TypeError, RecursionError, DescriptionError) as error:
        mend = f"Delete {POLICY} if you do not know the policy; the log's densities remain"
        raise DatasetError(f"metadata.json/{POLICY}", str(error), mend) from error


def _discount(metadata: dict[str, Any]) -> float | None:
    try:
        discount = json.loads(metadata.get(DISCOUNT, "null"))
    except (ValueError, TypeError):
        discount = metadata[DISCOUNT]
    number = isinstance(discount, (int, float)) and not isinstance(discount, bool)
    if discount is not None and not (number and 0 < discount <= 1):
        place = f"metadata.json/{DISCOUNT}"
        raise DatasetError(place, f"{discount!r}", "A discount lies in (0, 1]")
    return discount


def _episodes(data: Path, metadata: dict[str, Any]) -> list[Episode]:
    import h5py

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
                raise DatasetError(FILE, "no episode", "Log at least one")
            episodes = []
            for i in range(count):
                if f"episode_{i}" not in file:
                    raise DatasetError(FILE, "no such episode", "Number them from 0", index=i)
                episodes.append(_episode(i, file[f"episode_{i}"], metadata))
    except DatasetError:
        raise
    except Exception as error:  # h5py raises whatever the damage happens to cause
        raise DatasetError(FILE, f"cannot be read: {error}", "Get the dataset again") from error
    steps = sum(len(episode.rewards) for episode in episodes)
    if metadata.get("total_steps") != steps:
        raise DatasetError(
            "metadata.json/total_steps",
            f"{metadata.get('total_steps')}, but the episodes have {steps}",
            "Write the dataset again: one of the two is incomplete",
        )
    return episodes


def _episode(i: int, group: Any, metadata: dict[str, Any]) -> Episode:
    """One episode, its fields compared with one another."""
    expected = {"rewards": 0, "observations": 1, "actions": 0, "terminations": 0, "truncations": 0}
    arrays = {name: _array(i, group, name) for name in (*expected, INFO)}
    steps = len(arrays["rewards"])
    for name, more in (expected | {INFO: 1}).items():
        found = len(arrays[name])
        if found != steps + more:
            raise DatasetError(
                name,
                f"{found} entries for {steps} rewards",
                f"Expected {steps + more}: one before the first step, then one a step"
                if more
                else f"Expected {steps}, one a step",
                index=i,
            )
    log_prob = arrays[INFO]
    if log_prob.size != steps + 1 or log_prob.dtype.kind != "f":
        finding = f"shape {log_prob.shape} of {log_prob.dtype}"
        raise DatasetError(INFO, finding, "Expected [T + 1, 1], floating-point", index=i)
    log_prob = log_prob.reshape(-1)
    if not np.isnan(log_prob[0]):
        raise DatasetError(
            INFO,
            f"starts with {log_prob[0]:.4g} and not with NaN",
            "Shift it: entry t + 1 is the density of action t, and before the first step is none",
            index=(i, 0),
        )
    for name in ("rewards", "terminations", "truncations"):
        if arrays[name].ndim != 1:
            finding = f"shape {arrays[name].shape}"
            raise DatasetError(name, finding, "Expected one value a step", index=i)
    for name in ("terminations", "truncations"):
        early = np.flatnonzero(arrays[name][:-1])
        if early.size:
            mend = "Split it there into two episodes"
            raise DatasetError(name, "True before the last step", mend, index=(i, int(early[0])))
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
        mend = "Write the episode again"
        if name == INFO:
            mend = f"Log the density of every action as infos[{LOG_PROB!r}]"
        raise DatasetError(name, "missing", mend, index=i)
    node = group[name]
    if not hasattr(node, "dtype"):
        mend = "Flatten dictionary or tuple spaces into one array before logging"
        raise DatasetError(name, "a group of arrays", mend, index=i)
    array = np.asarray(node[()])
    if array.dtype.kind not in "fiub":
        raise DatasetError(name, f"dtype {array.dtype}", "Expected numbers", index=i)
    if array.ndim == 0:
        raise DatasetError(name, "a single value", "Expected one a step", index=i)
    return array


def _check_shape(i: int, name: str, array: np.ndarray, space: Any) -> None:
    try:
        shape = tuple(json.loads(space)["shape"])
    except (KeyError, TypeError, ValueError):
        return  # a discrete space is written without a shape
    if array.shape[1:] != shape:
        finding = f"{array.shape[1:]} a step, but the space has {shape}"
        raise DatasetError(name, finding, "Log every entry of the space", index=i)


def _check_densities(trajectories: Trajectories, behaviour: Policy) -> None:
    """Every stored density against the policy that is said to have drawn the action."""
    try:
        expected = np.asarray(eqx.filter_jit(log_probs)(behaviour, trajectories))
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        finding = f"does not fit the observations or actions: {error}"
        mend = "Store the policy that made this log"
        raise DatasetError(f"metadata.json/{POLICY}", finding, mend) from error
    if isinstance(behaviour, Boltzmann):
        # Probabilities are selected by number, and no number of an action would be noticed.
        actions = jnp.where(trajectories.mask, trajectories.actions, 0)
        wrong = np.argwhere((actions < 0) | (actions >= behaviour.weights.shape[-1]))
        if wrong.size:
            place = tuple(int(x) for x in wrong[0])
            finding = f"{int(actions[place])}, of {behaviour.weights.shape[-1]} choices"
            raise DatasetError("actions", finding, "Number them from 0", index=place)
    found = np.asarray(trajectories.behaviour_log_prob)
    # Negated, so that a NaN counts as a difference.
    wrong = ~(np.abs(found - expected) <= TOLERANCE * (1 + np.abs(expected)))
    places = np.argwhere(wrong & np.asarray(trajectories.mask))
    if places.size:
        place = tuple(int(x) for x in places[0])
        raise DatasetError(
            INFO,
            f"{found[place]:.5g}, but the behaviour policy gives this action {expected[place]:.5g} "
            f"({len(places)} such steps)",
            "Actions must be logged raw, before clipping, each beside its own density",
            index=_in_file(place),
        )


def _in_file(place: tuple[int, ...]) -> tuple[int, ...]:
    """Where the infos hold what belongs to a step."""
    return (*place[:1], *(step + 1 for step in place[1:2]))


def _check_not_clipped(trajectories: Trajectories) -> None:
    """Continuous draws do not repeat their own extremes: where they do, something cut them off."""
    actions, mask = np.asarray(trajectories.actions), np.asarray(trajectories.mask)
    if actions.dtype.kind != "f" or actions.size == 0:
        return
    columns = actions[mask].reshape(int(mask.sum()), -1)
    for j, column in enumerate(columns.T):
        for bound in (column.min(), column.max()):
            times = int((column == bound).sum())
            if times > 1 and column.min() < column.max():
                hit = (actions.reshape(*mask.shape, -1)[..., j] == bound) & mask
                place = tuple(int(x) for x in np.argwhere(hit)[0])
                raise DatasetError(
                    "actions",
                    f"{times} actions are exactly {bound:.6g}, the extreme of dimension {j}: they "
                    "look clipped",
                    "Log actions as they were drawn; the density of a clipped one cannot be known",
                    index=place,
                )
