"""One training of a sweep: computed, then committed by writing one file, whole or not at all.

results/NAME.json   settings, last metrics, the policy to hand out; nothing that differs from one
                    computation to the next, such as times or machines
failed/NAME.json    why it failed by itself; it is tried again when the sweep is run again
runs/NAME           its run folder, as gamps train writes it
workers/NAME.json   the process that works on it
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gamps._utils import atomic_io
from gamps._utils.summaries import plain
from gamps.errors import OutputError, RunError
from gamps.learner import Progress
from gamps.policies.description import describe_known
from gamps.runs import folder
from gamps.runs.spec import TrainSpec
from gamps.runs.start import start, until_free
from gamps.runs.state import arrays_of

RESULTS, FAILED, RUNS, WORKERS = "results", "failed", "runs", "workers"


class SweepTask(NamedTuple):
    """One training of a sweep.

    Attributes:
      name: its values of the settings that vary.
      spec: all settings.
      log_sha256: SHA-256 of its log.
    """

    name: str
    spec: TrainSpec
    log_sha256: str


def compute(out: Path, task: SweepTask) -> str:
    """Run or continue a task to its end, and commit its result.

    Returns:
      Why it failed by itself, which is recorded too; empty if it did not fail.

    Raises:
      OutputError: if nothing can be written.
    """
    if committed(out, task) is not None:
        return ""
    at_it = out / WORKERS / f"{task.name}.json"
    _write(at_it, {"pid": os.getpid()})
    try:
        run = out / RUNS / task.name
        if run.exists():
            until_free(run)
        progress = start(task.spec, run, again=True).train()
        settings = folder.header(run)["settings"]
        _write(_file(out, task), _sealed(_result(task, settings, run, progress)))
        (out / FAILED / f"{task.name}.json").unlink(missing_ok=True)
    except Exception as error:  # this one fails; the others need not
        message = f"{type(error).__name__}: {error}"
        give_up(out, task, message)
        return message
    finally:
        at_it.unlink(missing_ok=True)
        jax.clear_caches()  # each task compiles its own functions, and they would pile up
    return ""


def give_up(out: Path, task: SweepTask, message: str) -> None:
    """Record why a task has no result, if it could not do so itself."""
    _write(out / FAILED / f"{task.name}.json", {"name": task.name, "message": message})


def committed(out: Path, task: SweepTask) -> dict[str, Any] | None:
    """Return the result of a task; None if it is missing or damaged.

    Raises:
      RunError: if it belongs to other settings.
    """
    path = _file(out, task)
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        if _sealed(content) != content:
            return None
        settings = content["settings"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    expected = plain(asdict(task.spec)) | {"log_sha256": task.log_sha256}
    if {name: settings.get(name) for name in expected} != expected:
        raise RunError(f"{path}: belongs to another sweep, or another log. Choose another --out")
    return content


def _result(
    task: SweepTask, settings: Mapping[str, Any], run: Path, progress: Progress
) -> dict[str, Any]:
    metrics = folder.metrics(run)[-1]
    metrics.pop("seconds", None)
    names = ("best", "best_promise", "stopped")
    known = {name: getattr(progress.run, name) for name in names}
    decided = {name: value for name, value in known.items() if value not in (None, "")}
    return {
        "name": task.name,
        "settings": dict(settings),
        "metrics": metrics,
        "decided": decided,
        "best": describe_known(progress.best),  # a user's own class is in the checkpoints only
        "arrays_sha256": _hash(arrays_of(progress)),
    }


def _hash(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def _file(out: Path, task: SweepTask) -> Path:
    return out / RESULTS / f"{task.name}.json"


def _sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with a hash of everything else in it."""
    rest = plain({k: v for k, v in content.items() if k != "sha256"})
    text = json.dumps(rest, sort_keys=True, allow_nan=False)
    return rest | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def _write(path: Path, content: Any) -> None:
    try:
        atomic_io.write_file(path, (json.dumps(content, indent=1) + "\n").encode())
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from error
