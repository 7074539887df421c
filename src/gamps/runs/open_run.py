"""Open a run to read: its specification, its log in two parts, and its last progress."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gamps import datasets
from gamps.errors import CheckpointError, SettingError
from gamps.learner import Progress
from gamps.runs.build import RUNGS, SAMPLE, build, build_streamed, refuse_labels, sampled
from gamps.runs.certificate import Ends
from gamps.runs.loop import last_progress
from gamps.runs.resolve import check_named
from gamps.runs.spec import TrainSpec, spec_in
from gamps.tasks import Task
from gamps.trajectories import Trajectories


class OpenRun(NamedTuple):
    """The content of a run folder.

    Attributes:
      spec: settings that it was started with.
      data: the log with what is known about it; some of the log, if it is streamed.
      task: the known part of the problem, or an estimate of it.
      learned: episodes that training may have seen, as many as are held in memory.
      held_out: episodes that it has not seen; on disk if the log is streamed.
      progress: policy, model and decisions of the last checkpoint.
      done: iterations up to that checkpoint.
      total: iterations in total.
      refused: errors of the checkpoints that were skipped.
      ends: the two ends of its ladder.
      newest: which held-out episodes the newest of several controllers made; None if only one.
      near: the newest controller's episodes among those learned from, which choose the rungs.
      groups: groups of the held-out episodes; None if each is its own group.
    """

    spec: TrainSpec
    data: datasets.Dataset
    task: Task
    learned: Trajectories
    held_out: Trajectories | datasets.Shards
    progress: Progress
    done: int
    total: int
    refused: list[CheckpointError]
    ends: Ends
    newest: np.ndarray | None
    near: Trajectories
    groups: np.ndarray | None

    @property
    def some_held_out(self) -> Trajectories:
        """Held-out episodes, as many as are held in memory."""
        if isinstance(self.held_out, Trajectories):
            return self.held_out
        return self.held_out.sample(RUNGS)


def open_run(run: Path) -> OpenRun:
    """Read a run folder and its log.

    Raises:
      RunError: if there is no run, or its log has changed since.
    """
    spec = spec_in(run)
    check_named(spec)
    if spec.stream:
        return _open_streamed(run, spec)
    data = datasets.load(spec.log)
    training = build(spec, data)
    progress, done, refused = last_progress(training, run)
    learned, held_out = datasets.split_dataset(data, spec.held_out, seed=spec.seed)
    latest, groups = datasets.newest(held_out), np.asarray(held_out.labels.groups)
    first = training.controller
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


def _open_streamed(run: Path, spec: TrainSpec) -> OpenRun:
    refuse_labels(spec.log)
    shards = datasets.shards_of(spec.log)
    data = sampled(shards, spec.log)
    training = build_streamed(spec, shards, data)
    progress, done, refused = last_progress(training, run)
    learned, held_out = shards.split(spec.held_out, spec.seed)
    near = learned.sample(RUNGS if spec.recipe == "default" else SAMPLE)
    first = training.controller
    ends = Ends(first, progress.best, data.behaviour or first)
    parts = (training.task, near, held_out, progress, done, training.total, refused, ends)
    return OpenRun(spec, data, *parts, None, near, None)


def own_episodes(run: OpenRun) -> Iterable[Trajectories]:
    """Return all episodes of a run's log."""
    return datasets.shards_of(run.spec.log) if run.spec.stream else [run.data.trajectories]


def unseen(log: Trajectories, own: Iterable[Trajectories]) -> np.ndarray:
    """Return which episodes of a log a run's log does not have, by their numbers.

    Raises:
      SettingError: if fewer than three are left.
    """
    known, new = [content for part in own for content in contents_of(part)], [*contents_of(log)]
    if log.states.dtype.kind == "i":  # short episodes of few states repeat by chance
        kept = _outside(known, new)
    else:
        contents = set(known)
        kept = [i for i, content in enumerate(new) if content not in contents]
    if len(kept) < 3:
        problem = f"{len(kept)} of {log.n_trajectories} episodes are new to the run"
        raise SettingError("log", problem, "Give a log other than the run's own")
    return np.asarray(kept)


def _outside(known: list[str], new: list[str]) -> list[int]:
    """Return which episodes of a log are not part of a copy of another one, whole and in order."""
    fewer, more = sorted((known, new), key=len)
    for start in range(len(more) - len(fewer) + 1):
        if more[start : start + len(fewer)] == fewer:
            copied = range(start, start + len(known)) if more is new else range(len(new))
            return [i for i in range(len(new)) if i not in copied]
    return [*range(len(new))]


def contents_of(log: Trajectories) -> Iterator[str]:
    """Yield a digest of each episode without its padding."""
    # Single precision, like shards.
    observations, actions = (
        np.asarray(x, np.float32 if x.dtype.kind == "f" else None)
        for x in (log.observations, log.actions)
    )
    for i, length in enumerate(np.asarray(log.lengths)):
        content = observations[i, : length + 1].tobytes() + actions[i, :length].tobytes()
        yield hashlib.sha256(content).hexdigest()[:16]
