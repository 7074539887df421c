"""The run folder: everything about one training, to check, resume and share.

run.json        settings, versions, hash of the log; written once, before the first iteration
metrics.jsonl   one line per iteration
checkpoints/    the last few checkpoints
best.json       the policy to hand out, as plain data; last.json is the last policy
training.png    curves of the metrics
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gamps._utils import atomic_io
from gamps._utils.summaries import plain
from gamps._version import __version__
from gamps.errors import DescriptionError, OutputError, RunError
from gamps.policies import Policy, describe

HEADER, METRICS, CHECKPOINTS, LOCK = "run.json", "metrics.jsonl", "checkpoints", ".lock"
TAKEN = (METRICS, CHECKPOINTS, "best.json", "last.json", "training.png")  # what a run writes


def versions() -> dict[str, str]:
    """Return the versions of everything that a result may depend on."""
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy")
    found = {name: importlib.metadata.version(name) for name in packages}
    return {"gamps": __version__, "python": platform.python_version()} | found


def create(folder: Path, settings: dict[str, Any], **known: Any) -> Path:
    """Make the folder of a new run.

    Args:
      folder: path of the folder.
      settings: settings that every checkpoint must match.
      **known: what else later commands need to know about the run.

    Raises:
      OutputError: if it already holds a run, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            refuse_taken(folder)
            _write(folder / HEADER, {"settings": settings, "versions": versions()} | known)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}. Choose another --out") from error
    return folder


def refuse_taken(folder: Path) -> None:
    """Refuse a folder where no new run can be made; write nothing.

    Raises:
      OutputError: if it holds a run, or files that a run would overwrite, or cannot be made.
    """
    if (folder / HEADER).exists():
        raise OutputError(
            f"{folder}: already holds a run. Choose another --out, or continue it with "
            f"gamps resume {folder}"
        )
    for name in TAKEN:
        if (folder / name).exists():
            raise OutputError(f"{folder / name}: is in the way. Choose another --out")
    refuse_unwritable(folder)


def refuse_unwritable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to, without making it.

    Raises:
      OutputError: if a file is in its place, or you may not write there.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise OutputError(f"{folder}: {there} is a file. Choose another --out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise OutputError(f"{folder}: {there} cannot be written to. Choose another --out")


def digest(folder: Path) -> str:
    """Hash of the settings; every checkpoint holds it, so that none continues with others."""
    settings = json.dumps(header(folder)["settings"], sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()


def header(folder: Path) -> dict[str, Any]:
    """Return the settings and versions of a run.

    Raises:
      RunError: if there is no run.
    """
    try:
        content = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        if not isinstance(content["settings"], dict):
            raise TypeError("settings are not a table")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{folder}: no run ({error}). Start one with gamps train") from error
    found: dict[str, Any] = content
    return found


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second process from working on the same run; a killed one leaves no lock.

    Raises:
      RunError: if another process works on it.
    """
    try:
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}. Is it read-only?") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunError(f"{folder}: another process is working on it. Wait for it") from error
        yield


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of all finished iterations; skip a line cut short when a process died."""
    path = folder / METRICS
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            content = json.loads(line)
            if isinstance(content, dict) and isinstance(content.get("iteration"), int):
                found.append(content)
    return found


def append(folder: Path, line: dict[str, Any]) -> None:
    """Append the metrics of one iteration.

    Raises:
      OutputError: if the disk is full or the folder cannot be written.
    """
    try:
        with (folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(plain(line)) + "\n")
    except OSError as error:
        raise OutputError(f"{folder / METRICS}: {error.strerror}") from error


def cut(folder: Path, iterations: int) -> None:
    """Drop the metrics of iterations after the last checkpoint."""
    kept = [line for line in metrics(folder) if line["iteration"] <= iterations]
    lines = [json.dumps(line) + "\n" for line in kept]
    _replace(folder / METRICS, "".join(lines))


def write_policy(folder: Path, name: str, policy: Policy) -> None:
    """Write a policy as plain data, if possible; a user's own class is in the checkpoints only."""
    with contextlib.suppress(DescriptionError):
        _write(folder / f"{name}.json", describe(policy))


def checkpoint_folder(folder: Path) -> Path:
    """Return the folder of the checkpoints."""
    return folder / CHECKPOINTS


def _write(path: Path, content: Any) -> None:
    _replace(path, json.dumps(content, indent=1) + "\n")


def _replace(path: Path, text: str) -> None:
    atomic_io.write_file(path, text.encode())
