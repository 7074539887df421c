"""A log with its metadata: split it in two, select by controller, and combine several logs."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gamps.datasets.writing import Labels, Limits
from gamps.errors import DatasetError
from gamps.policies import Policy
from gamps.trajectories import Trajectories, episodes_of, padded, split_rows


class Dataset(NamedTuple):
    """A log with its metadata.

    Attributes:
      trajectories: the log, validated.
      behaviour: the policy that made it, or the newest of several; None if it could not be stored
        as plain data.
      discount: γ that the log was made for, or None if the log does not say.
      env_spec: Gymnasium's specification of the environment, or None.
      densities: known, or estimated from the actions.
      labels: names of columns, controllers and groups.
      limits: the least and the largest action that the actuators carry out, if the dataset says.
    """

    trajectories: Trajectories
    behaviour: Policy | None
    discount: float | None
    env_spec: Any
    densities: str = "known"
    labels: Labels = Labels()
    limits: Limits | None = None


def split_dataset(data: Dataset, held_out: float, *, seed: int) -> tuple[Dataset, Dataset]:
    """Split like `trajectories.split`, with labels; a group's episodes stay in one part.

    Episodes that have judged a policy before go into the part to learn from, with their groups.

    Raises:
      DatasetError: if all groups have judged before.
    """
    n, judged = data.trajectories.n_trajectories, data.labels.judged
    names = np.asarray(data.labels.groups) if data.labels.groups else np.arange(n)
    chosen = np.isin(names, names[:judged])
    if chosen.all():
        problem = "those of the new episodes have all been learned from"
        raise DatasetError("groups", problem, "Log other groups, or import the log without groups")
    kinds, groups = np.unique(names[~chosen], return_inverse=True)
    chosen[~chosen] = np.isin(groups, split_rows(len(kinds), held_out, seed)[0])

    def part(rows: np.ndarray) -> Dataset:
        controllers, groups = (
            tuple(name for name, kept in zip(labels, rows, strict=True) if kept) if labels else ()
            for labels in (data.labels.controllers, data.labels.groups)
        )
        log = episodes_of(data.trajectories, np.flatnonzero(rows))
        labels = data.labels._replace(controllers=controllers, groups=groups, judged=0)
        return data._replace(trajectories=log, labels=labels)

    return part(chosen), part(~chosen)


GROUPED = "Import all logs with --group"


def _alone(count: int) -> tuple[str, ...]:
    """Groups of one episode each."""
    return tuple(f"episode {i}" for i in range(count))


def newest(data: Dataset) -> np.ndarray:
    """`[N]`, whether the controller of the log's last episode made this episode too."""
    if not data.labels.controllers:
        return np.ones(data.trajectories.n_trajectories, bool)
    return np.asarray(data.labels.controllers) == data.labels.newest


def of_newest(data: Dataset) -> Trajectories:
    """The episodes of the controller that made the last episode."""
    rows = newest(data)
    if rows.all():
        return data.trajectories
    log: Trajectories = jax.tree.map(lambda x: x[rows], data.trajectories)
    return log


def pooled(old: Dataset, new: Dataset, name: str = "") -> Dataset:
    """Append a new log to an old one; only the new episodes may still judge a policy.

    Args:
      old: log of one controller or of several.
      new: log of the controller that is in charge now.
      name: name of that controller; empty if it is the newest of the old log.
    """
    steps = max(old.trajectories.n_steps, new.trajectories.n_steps)
    parts = [padded(data.trajectories, steps) for data in (old, new)]
    count, more = (part.n_trajectories for part in parts)
    before = old.labels.controllers or ("first",) * count
    if name in before:
        raise DatasetError("controller", f"{name} is in the old log", "Choose another name")
    name = name or old.labels.newest or "first"
    groups = new.labels.groups
    if groups:
        groups = (old.labels.groups or _alone(count)) + groups
    elif old.labels.groups:
        raise DatasetError("groups", "the old log has them, the new one has not", GROUPED)
    names = (old.labels.observations, old.labels.actions, (*before, *(name,) * more), groups)
    limits = old.limits or new.limits
    if old.limits is not None and new.limits is not None and not _same(old.limits, new.limits):
        limits = None  # models see actions as they were drawn
    if None not in (old.discount, new.discount) and old.discount != new.discount:
        problem = f"{new.discount:g} in the new log, {old.discount:g} in the old one"
        raise DatasetError("discount", problem, "Import the new log with the old one's --discount")
    estimated = "estimated" in (old.densities, new.densities)
    return new._replace(
        densities="estimated" if estimated else new.densities,
        trajectories=jax.tree.map(lambda *x: jnp.concatenate(x), *parts),
        discount=old.discount if new.discount is None else new.discount,
        limits=limits,
        labels=Labels(*names, name, count),
    )


def together(logs: Mapping[str, Dataset]) -> Dataset:
    """Combine logs that several controllers made one after the other; the newest comes last.

    Each controller gets the name of its log. All episodes may judge a policy: nothing was learned
    from any of them.

    Raises:
      DatasetError: if the logs are not of the same problem.
    """
    parts = list(logs.values())
    first, last = parts[0], parts[-1]
    for name, data in logs.items():
        one, other = ((x.trajectories.states, x.trajectories.actions) for x in (first, data))
        if [(x.shape[2:], x.dtype) for x in one] != [(x.shape[2:], x.dtype) for x in other]:
            raise DatasetError(name, "other observations or actions", "Give logs of one problem")
        if data.discount != first.discount:
            problem = f"discount {data.discount}, but the first log has {first.discount}"
            raise DatasetError(name, problem, "Give logs of one problem")
        if data.labels.judged:
            problem = "some of its episodes have already judged a policy"
            raise DatasetError(name, problem, "Continue from its run: gamps next")
    steps = max(data.trajectories.n_steps for data in parts)
    episodes = [padded(data.trajectories, steps) for data in parts]
    controllers = tuple(
        f"{name} {one}".strip()
        for name, data in logs.items()
        for one in data.labels.controllers or ("",) * data.trajectories.n_trajectories
    )
    if len({bool(data.labels.groups) for data in parts}) > 1:
        raise DatasetError("groups", "some of the logs have them, others have not", GROUPED)
    newest_one = f"{list(logs)[-1]} {last.labels.newest if last.labels.controllers else ''}".strip()
    estimated = any(data.densities == "estimated" for data in parts)
    return last._replace(
        trajectories=jax.tree.map(lambda *x: jnp.concatenate(x), *episodes),
        densities="estimated" if estimated else last.densities,
        # If they differ, models see actions as they were drawn.
        limits=last.limits if all(_same(data.limits, last.limits) for data in parts) else None,
        labels=last.labels._replace(
            controllers=controllers,
            groups=tuple(g for data in parts for g in data.labels.groups),
            newest=newest_one,
        ),
    )


def _same(one: Limits | None, other: Limits | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
