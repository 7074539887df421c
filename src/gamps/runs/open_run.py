"""A run to look at: its specification, its log in two parts, and the progress that was kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from gamps import datasets
from gamps.errors import CheckpointError, SettingError
from gamps.learner import Progress
from gamps.runs.build import build
from gamps.runs.certificate import Ends
from gamps.runs.loop import last_progress
from gamps.runs.resolve import check_named
from gamps.runs.spec import TrainSpec, spec_in
from gamps.tasks import Task
from gamps.trajectories import Trajectories


class OpenRun(NamedTuple):
    """What there is to look at in a run folder.

    Attributes:
      spec: that it was started with.
      data: the log with what is known of it.
      task: the known part of the problem, or the estimated one.
      learned: episodes that training may have seen.
      held_out: episodes that it has not.
      progress: policy, model and decisions of the last checkpoint.
      done: iterations up to that checkpoint.
      total: iterations in all.
      refused: what is wrong with checkpoints that were passed over.
      ends: between which its ladder stands.
      newest: which held-out episodes are of the newest of several controllers; None if of one.
      near: episodes of the newest among those learned from, which rungs are chosen by.
      groups: that held-out episodes belong to; None if each is its own.
    """

    spec: TrainSpec
    data: datasets.Dataset
    task: Task
    learned: Trajectories
    held_out: Trajectories
    progress: Progress
    done: int
    total: int
    refused: list[CheckpointError]
    ends: Ends
    newest: np.ndarray | None
    near: Trajectories
    groups: np.ndarray | None


def open_run(run: Path) -> OpenRun:
    """Read a run folder and the log that it was made of.

    Raises:
      RunError: if there is no run, or its log has changed since.
    """
    spec = spec_in(run)
    check_named(spec)
    data = datasets.load(spec.log)
    training = build(spec, data)
    progress, done, refused = last_progress(training, run)
    learned, held_out = datasets.split_dataset(data, spec.held_out, seed=spec.seed)
    latest, groups = datasets.newest(held_out), np.asarray(held_out.labels.groups)
    first = training.start().best
    ends = Ends(first, progress.best, data.behaviour or first)
    return OpenRun(
        spec,
        data,
        training.task,
        learned.trajectories,
        held_out.trajectories,
        progress,
        done,
        training.total,
        refused,
        ends,
        None if latest.all() else latest,
        datasets.of_newest(learned),
        groups if len(groups) else None,
    )


def unseen(log: Trajectories, own: Trajectories) -> tuple[Trajectories, int]:
    """The episodes of a log that are not among a run's own, and how many were dropped.

    Raises:
      SettingError: if fewer than three are left.
    """
    known = set(_contents(own))
    kept = [i for i, content in enumerate(_contents(log)) if content not in known]
    if len(kept) < 3:
        problem = f"{len(kept)} of {log.n_trajectories} episodes are new to the run"
        raise SettingError("log", problem, "Give a log that it was not made of")
    rows = np.asarray(kept)
    return jax.tree.map(lambda x: x[rows], log), log.n_trajectories - len(kept)


def _contents(log: Trajectories) -> Iterator[bytes]:
    """Each episode as it was, without its padding."""
    observations, actions = (np.asarray(x) for x in (log.observations, log.actions))
    for i, length in enumerate(np.asarray(log.lengths)):
        yield observations[i, : length + 1].tobytes() + actions[i, :length].tobytes()
