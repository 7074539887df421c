"""The loop of a run: step, report, save a checkpoint, until done, stopped or killed."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from gamps._utils.console import silent
from gamps.errors import CheckpointError, OutputError, RunError
from gamps.learner import Progress
from gamps.runs import checkpoints
from gamps.runs import folder as runs
from gamps.runs.state import Training, arrays_of, from_json, restored, to_json

Callback = Callable[[int, dict[str, Any], Progress], None]


def train(
    training: Training,
    out: Path,
    *,
    settings: dict[str, Any] | None = None,
    callback: Callback = silent,
    every: int = 1,
    keep: int = 3,
) -> Progress:
    """Run a training in a new folder.

    Args:
      training: a `learner.Learner`, a `SearchTraining`, or your own.
      out: the run folder; it must not hold a run.
      settings: stored in the folder as JSON.
      callback: called after every iteration with its number, metrics and progress.
      every: iterations between checkpoints.
      keep: how many checkpoints remain.

    Returns:
      The progress at the end; `best` is the policy to hand out.
    """
    runs.create(out, settings or {})
    return go_on(training, out, callback=callback, every=every, keep=keep)


def go_on(
    training: Training,
    out: Path,
    *,
    callback: Callback = silent,
    refused: Callable[[Exception], None] = silent,
    every: int = 1,
    keep: int = 3,
) -> Progress:
    """Continue from the last intact checkpoint, to the same result as without a break.

    If several processes work together, all call this with one folder, and the first writes to it.

    Args:
      training: made from the same settings as the run.
      out: the run folder.
      callback: as in `train`.
      refused: called with the error of each checkpoint that was skipped.
      every: iterations between checkpoints.
      keep: how many checkpoints remain.
    """
    kept, writes = runs.checkpoint_folder(out), jax.process_index() == 0
    with runs.locked(out) if writes else contextlib.nullcontext():
        progress, done, errors = last_progress(training, out)
        for error in errors:
            refused(error)
        settings = runs.digest(out)
        try:
            if writes:
                runs.cut(out, done)
            while done < training.total and not progress.run.stopped:
                began = time.perf_counter()
                progress, metrics = training.step(progress)
                done += 1
                line = {"iteration": done} | metrics | {"seconds": time.perf_counter() - began}
                over = done == training.total or bool(progress.run.stopped)
                if writes:
                    runs.append(out, line)
                if writes and (over or done % every == 0):
                    plain = {"settings": settings, "progress": to_json(progress.run)}
                    checkpoints.save(kept, done, arrays_of(progress), plain, keep=keep)
                callback(done, line, progress)
            if writes:
                runs.write_policy(out, "last", progress.state.policy)
                runs.write_policy(out, "best", progress.best)
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise OutputError(f"{out}: {error.strerror or error}") from error
    return progress


def last_progress(training: Training, out: Path) -> tuple[Progress, int, list[CheckpointError]]:
    """Return the progress of the last intact checkpoint, its iteration, and errors of damaged ones.

    Raises:
      RunError: if the run's settings differ from those that the checkpoint was made with.
    """
    found, errors = checkpoints.latest(runs.checkpoint_folder(out))
    if found is None:
        return training.start(), 0, errors
    if found.plain["settings"] != runs.digest(out):
        raise RunError(f"{out}: run.json was changed since. Restore its settings, or train again")
    run = from_json(found.plain["progress"])
    return restored(training.like(run), found.arrays), found.number, errors
