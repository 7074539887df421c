"""Folders that are written under another name and take their place when they are whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gamps.errors import OutputError
from gamps.sealed import sync_folder

LOCK = "writing"


@contextlib.contextmanager
def saying(target: Path) -> Iterator[None]:
    """Failures of the disk as errors that name the folder."""
    try:
        yield
    except OSError as error:
        mend = "Mend that, or choose another folder"
        raise OutputError(f"{target}: {error.strerror or error}. {mend}") from error


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A folder that takes the place of another when the block is left, and else goes away."""
    start = f".{target.name}-writing-"
    with saying(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target.parent, start)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=start))
    aside = temporary.with_name(temporary.name.replace("-writing-", "-old-"))
    try:
        with (temporary / LOCK).open("wb") as lock:
            _locked(lock)
            yield temporary
        with saying(target):
            (temporary / LOCK).unlink()
            temporary.chmod(0o755)
            sync_folder(temporary)
            if target.exists():
                target.replace(aside)
            temporary.replace(target)
            sync_folder(target.parent)
    finally:
        if aside.exists() and not target.exists():
            aside.replace(target)
        for left in (temporary, aside):
            shutil.rmtree(left, ignore_errors=True)


def _clear(parent: Path, start: str) -> None:
    """Take away what writers that were killed have left; a living one holds its lock."""
    for left in parent.glob(f"{start}*"):
        with contextlib.suppress(OSError):
            with (left / LOCK).open("rb+") as lock:
                dead = _locked(lock)
            if dead:
                shutil.rmtree(left, ignore_errors=True)


def _locked(file: Any) -> bool:
    """Lock a file until it is closed, or its process ends in whatever way; False if it is held."""
    if os.name != "posix":
        return False
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
