"""Folders that are whole or not there: temporary name, fsync, rename, a hash of every byte.

`manifest.txt` holds the SHA-256 and the size of every other file, and a hash of itself. Whatever a
disk or a person does to the folder afterwards, reading it is refused.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gamps.errors import CheckpointError

MANIFEST = "manifest.txt"


def write(target: Path, title: str, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder of their own, all or none; an earlier folder is replaced.

    Args:
      target: the folder.
      title: what it is, first line of its manifest; `read` wants the same.
      contents: bytes by file name.

    Raises:
      OSError: if the disk is full or the place cannot be written; nothing is left behind.
    """
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=".writing-"))
    aside = temporary.with_name(temporary.name.replace(".writing-", ".old-"))
    try:
        for name, content in (dict(contents) | {MANIFEST: _manifest(title, contents)}).items():
            write_synced(temporary / name, content)
        temporary.chmod(0o755)
        sync_folder(temporary)
        if target.exists():
            target.replace(aside)
        temporary.replace(target)
        sync_folder(target.parent)
    finally:
        for left in (temporary, aside):
            shutil.rmtree(left, ignore_errors=True)


def read(path: Path, title: str, names: tuple[str, ...]) -> dict[str, bytes]:
    """The files of a folder, every byte of it checked.

    Raises:
      CheckpointError: naming the file and what is wrong with it.
    """
    mend = "Use an earlier one, or make it again"
    contents = {}
    for name in (MANIFEST, *names):
        try:
            contents[name] = (path / name).read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path / name}", error.strerror or "gone", mend) from error
    found = contents.pop(MANIFEST)
    for name, content in contents.items():
        if _line(name, content) not in found.splitlines():
            raise CheckpointError(f"{path / name}", "its hash or its size differs", mend)
    if found != _manifest(title, contents):
        raise CheckpointError(f"{path / MANIFEST}", "is not the manifest of these files", mend)
    extra = sorted({entry.name for entry in path.iterdir()} - {MANIFEST, *names})
    if extra:
        raise CheckpointError(f"{path / extra[0]}", "does not belong here", "Take it away")
    return contents


def _line(name: str, content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()} {len(content)} {name}".encode()


def _manifest(title: str, contents: Mapping[str, bytes]) -> bytes:
    """One line a file; the last line is the hash of those above it."""
    lines = [title.encode(), *(_line(name, contents[name]) for name in sorted(contents))]
    body = b"\n".join(lines) + b"\n"
    return body + hashlib.sha256(body).hexdigest().encode() + b"\n"


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, content: bytes) -> None:
    """Replace a file by another, all of it or not at all."""
    temporary = path.with_name(f".{path.name}.writing")
    write_synced(temporary, content)
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's entries."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
