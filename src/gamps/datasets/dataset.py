"""A log with what its metadata say about it: in two parts, by controller, and several as one."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gamps.datasets.writing import Labels
from gamps.errors import DatasetError
from gamps.policies import Policy
from gamps.trajectories import Trajectories, episodes_of, padded, split_rows


class Dataset(NamedTuple):
    """A log with what its metadata say about it.

    Attributes:
      trajectories: the log, validated.
      behaviour: the policy that made it, of several controllers the newest; or None if it could
        not be written down.
      discount: γ that the log was made for, or None if it was not said.
      env_spec: Gymnasium's specification of the environment, or None.
      densities: known, or estimated from the actions.
      labels: names of columns, controllers and groups.
    """

    trajectories: Trajectories
    behaviour: Policy | None
    discount: float | None
    env_spec: Any
    densities: str = "known"
    labels: Labels = Labels()


def split_dataset(data: Dataset, held_out: float, *, seed: int) -> tuple[Dataset, Dataset]:
    """As `trajectories.split`, with labels; episodes of one group are in one part.

    Those that have been judged by before are learned from.
    """
    n, judged = data.trajectories.n_trajectories, data.labels.judged
    names = np.asarray(data.labels.groups) if data.labels.groups else np.arange(n)
    kinds, groups = np.unique(names[judged:], return_inverse=True)
    chosen = np.isin(groups, split_rows(len(kinds), held_out, seed)[0])
    chosen = np.concatenate([np.ones(judged, bool), chosen])

    def part(rows: np.ndarray) -> Dataset:
        controllers, groups = (
            tuple(name for name, kept in zip(labels, rows, strict=True) if kept) if labels else ()
            for labels in (data.labels.controllers, data.labels.groups)
        )
        log = episodes_of(data.trajectories, np.flatnonzero(rows))
        labels = data.labels._replace(controllers=controllers, groups=groups, judged=0)
        return data._replace(trajectories=log, labels=labels)

    return part(chosen), part(~chosen)


def newest(data: Dataset) -> np.ndarray:
    """`[N]`, whether an episode is of the controller that made the log's last one."""
    if not data.labels.controllers:
        return np.ones(data.trajectories.n_trajectories, bool)
    return np.asarray(data.labels.controllers) == data.labels.newest


def of_newest(data: Dataset) -> Trajectories:
    """The episodes of the controller that made the last one."""
    rows = newest(data)
    if rows.all():
        return data.trajectories
    log: Trajectories = jax.tree.map(lambda x: x[rows], data.trajectories)
    return log


def pooled(old: Dataset, new: Dataset, name: str = "") -> Dataset:
    """A log and what was logged after it, which alone is yet to judge by.

    Args:
      old: of one controller or of several.
      new: of the one that is in charge now.
      name: of that one; empty if it is the newest of the old log.
    """
    steps = max(old.trajectories.n_steps, new.trajectories.n_steps)
    parts = [padded(data.trajectories, steps) for data in (old, new)]
    count, more = (part.n_trajectories for part in parts)
    before = old.labels.controllers or ("first",) * count
    if name in before:
        raise DatasetError("controller", f"{name} is among the old ones", "Choose another name")
    name = name or old.labels.newest or "first"
    groups: tuple[str, ...] = ()
    if old.labels.groups and new.labels.groups:
        groups = old.labels.groups + new.labels.groups
    names = (old.labels.observations, old.labels.actions, (*before, *(name,) * more), groups)
    return new._replace(
        trajectories=jax.tree.map(lambda *x: jnp.concatenate(x), *parts),
        discount=old.discount if new.discount is None else new.discount,
        labels=Labels(*names, name, count),
    )


def together(logs: Mapping[str, Dataset]) -> Dataset:
    """Logs that several controllers made one after the other, as one log, the newest last.

    Each is called as its log is. All may be judged by: nothing was learned from any of them.

    Raises:
      DatasetError: if they are not of one problem.
    """
    parts = list(logs.values())
    first, last = parts[0], parts[-1]
    for name, data in logs.items():
        one, other = ((x.trajectories.states, x.trajectories.actions) for x in (first, data))
        if [(x.shape[2:], x.dtype) for x in one] != [(x.shape[2:], x.dtype) for x in other]:
            raise DatasetError(name, "other observations or actions", "Give logs of one problem")
        if data.discount != first.discount:
            problem = f"discount {data.discount}, of the first {first.discount}"
            raise DatasetError(name, problem, "Give logs of one problem")
        if data.labels.judged:
            problem = "some of its episodes have judged a policy"
            raise DatasetError(name, problem, "Go on from its run: gamps next")
    steps = max(data.trajectories.n_steps for data in parts)
    episodes = [padded(data.trajectories, steps) for data in parts]
    controllers = tuple(
        f"{name} {one}".strip()
        for name, data in logs.items()
        for one in data.labels.controllers or ("",) * data.trajectories.n_trajectories
    )
    grouped = all(data.labels.groups for data in parts)
    newest_one = f"{list(logs)[-1]} {last.labels.newest if last.labels.controllers else ''}".strip()
    estimated = any(data.densities == "estimated" for data in parts)
    return last._replace(
        trajectories=jax.tree.map(lambda *x: jnp.concatenate(x), *episodes),
        densities="estimated" if estimated else last.densities,
        labels=last.labels._replace(
            controllers=controllers,
            groups=tuple(g for data in parts for g in data.labels.groups) if grouped else (),
            newest=newest_one,
        ),
    )
