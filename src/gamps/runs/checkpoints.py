"""Checkpoints of a training: the last few, in sealed folders numbered by iteration.

A damaged checkpoint is refused, and the one before it is used.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from gamps._utils import atomic_io
from gamps.errors import CheckpointError, OutputError

ARRAYS, PLAIN = "arrays.safetensors", "plain.json"
NAME = re.compile(r"\d{8}")


class Checkpoint(NamedTuple):
    """The content of a checkpoint.

    Attributes:
      number: the iteration after which it was written.
      arrays: arrays by name.
      plain: data that JSON can hold.
    """

    number: int
    arrays: dict[str, np.ndarray]
    plain: Any


def save(
    folder: Path, number: int, arrays: Mapping[str, np.ndarray], plain: Any, *, keep: int = 3
) -> Path:
    """Write a checkpoint, all of it or nothing, and drop all but the last few.

    Args:
      folder: folder of all checkpoints of a run; made if missing.
      number: the iteration.
      arrays: arrays by name.
      plain: data that JSON can hold.
      keep: number of checkpoints to keep, including this one.

    Returns:
      The checkpoint's folder.

    Raises:
      OutputError: if the disk is full or the folder cannot be written; earlier ones are intact.
    """
    target = folder / f"{number:08d}"
    packed = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    contents = {ARRAYS: safetensors.numpy.save(packed), PLAIN: (json.dumps(plain) + "\n").encode()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_io.write_folder(target, _title(number), contents)
    except OSError as error:
        problem = error.strerror or str(error)
        raise OutputError(f"{target}: {problem}. Earlier checkpoints are intact") from error
    # Higher numbers belong to refused checkpoints, which are replaced as training reaches them.
    atomic_io.clear_leftovers(folder)
    earlier = [path for path in numbered(folder) if int(path.name) <= number]
    for old in earlier[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def load(path: Path) -> Checkpoint:
    """Read one checkpoint and check every byte of it.

    Raises:
      CheckpointError: naming the file and what is wrong with it.
    """
    number = int(path.name) if NAME.fullmatch(path.name) else -1
    contents = atomic_io.read_folder(path, _title(number), (ARRAYS, PLAIN))
    try:
        arrays, plain = safetensors.numpy.load(contents[ARRAYS]), json.loads(contents[PLAIN])
    except Exception as error:  # sealed by someone else: each reader fails in its own way
        raise CheckpointError(
            f"{path}", f"cannot be read: {error}", "Use an earlier one"
        ) from error
    return Checkpoint(number, arrays, plain)


def latest(folder: Path) -> tuple[Checkpoint | None, list[CheckpointError]]:
    """Return the last intact checkpoint, and what is wrong with those after it."""
    refused: list[CheckpointError] = []
    for path in reversed(numbered(folder)):
        try:
            return load(path), refused
        except CheckpointError as error:
            refused.append(error)
    return None, refused


def numbered(folder: Path) -> list[Path]:
    """Return the folders of all finished checkpoints, oldest first."""
    if not folder.is_dir():
        return []
    atomic_io.recover_folders(folder)
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))


def _title(number: int) -> str:
    return f"gamps checkpoint {number}"
