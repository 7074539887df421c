"""Write files and folders completely or not at all, however the writing process ends.

A folder is written under a hidden name next to its target and replaces it in one step: Linux swaps
the old and the new folder (`renameat2`), so a reader finds one of them at any moment. Where the
system or file system cannot swap, the old folder is first moved to `.NAME.old`. A process that is
killed before the new one is in place leaves it there, and the next process that reads or writes
NAME through this module puts it back.

    .NAME.writing-*   a folder that is being written or deleted
    .NAME.old         the old folder, for a moment, where folders cannot be swapped
    .NAME.lock        held by the process that renames

`write_folder` adds `manifest.txt`: the SHA-256 and the size of every other file, and a hash of
itself. `read_folder` refuses a folder that was changed afterwards.
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from gamps.errors import CheckpointError, OutputError

MANIFEST = "manifest.txt"
ALIVE = "writing"  # a file in a folder that is being written, locked by its writer
LEFTOVER = re.compile(r"\.(?P<name>.+)\.(?:writing-\w+|old|lock)")
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # from linux/fcntl.h and linux/fs.h
CANNOT_SWAP = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, content: bytes) -> None:
    """Write or replace a file, completely or not at all."""
    with replace_file(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; what is written there replaces `path` when the block ends."""
    # Keep the suffix: it tells matplotlib which format to write.
    temporary = path.with_name(f".{path.stem}.writing{path.suffix}")
    try:
        yield temporary
        sync_folder(temporary)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's entries, or a file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Wait until the disk has a folder and everything in it."""
    for path in (folder, *folder.rglob("*")):
        sync_folder(path)


def write_folder(target: Path, title: str, contents: Mapping[str, bytes]) -> None:
    """Write files, by name, into a new folder, all or none; replaces an earlier folder.

    The title is the first line of its manifest; `read_folder` must be given the same title.
    """
    writing = _Writing(target)
    try:
        for name, content in (dict(contents) | {MANIFEST: _manifest(title, contents)}).items():
            write_synced(writing.temporary / name, content)
        writing.commit(overwrite=True)
    finally:
        writing.close()


def read_folder(path: Path, title: str, names: tuple[str, ...]) -> dict[str, bytes]:
    """Read the files of a folder that `write_folder` wrote, and check every byte."""
    recover_folder(path)
    fix = "Use an earlier one, or make it again"
    contents = {}
    for name in (MANIFEST, *names):
        try:
            contents[name] = (path / name).read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path / name}", error.strerror or "gone", fix) from error
    manifest = contents.pop(MANIFEST)
    for name, content in contents.items():
        if _line(name, content) not in manifest.splitlines():
            raise CheckpointError(f"{path / name}", "its hash or its size differs", fix)
    if manifest != _manifest(title, contents):
        raise CheckpointError(f"{path / MANIFEST}", "is not the manifest of these files", fix)
    extra = sorted({entry.name for entry in path.iterdir()} - {MANIFEST, *names})
    if extra:
        raise CheckpointError(f"{path / extra[0]}", "does not belong here", "Remove it")
    return contents


@contextlib.contextmanager
def replace_folder(target: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary folder that replaces `target` if the block succeeds, and is deleted otherwise.

    Args:
      target: the final place; its parents are made.
      overwrite: replace an existing folder; otherwise it is refused.

    Yields:
      An empty folder to write into. Its content must be on the disk when the block ends.

    Raises:
      OutputError: names the folder and the disk's error. Errors of the block pass unchanged.
    """
    with output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        writing = _Writing(target)
    try:
        yield writing.temporary
        with output_errors(target):
            writing.commit(overwrite=overwrite)
    finally:
        writing.close()


def recover_folder(target: Path) -> Path:
    """Return the folder, which need not exist; puts the old one back if a kill left it aside."""
    if not target.exists() and _aside(place := target.resolve()).is_dir():
        # Without write permission it cannot be put back.
        with contextlib.suppress(OSError), _renaming(place):
            _put_back(place)
    return target


def recover_folders(parent: Path) -> None:
    """`recover_folder` for every folder inside another."""
    for name in _left_in(parent):
        recover_folder(parent / name)


def clear_leftovers(parent: Path) -> None:
    """Remove what killed writers left in a folder; keeps what running writers still use."""
    for name in _left_in(parent):
        with contextlib.suppress(OSError), _renaming(parent / name):
            _put_back(parent / name)
            _clear(parent / name)


@contextlib.contextmanager
def output_errors(target: Path) -> Iterator[None]:
    """Turn disk errors into errors that name the folder."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        fix = "Fix that, or choose another folder"
        raise OutputError(f"{target}: {error.strerror or error}. {fix}") from error


class _Writing:
    """A folder under its hidden name, from its creation until it is in place or deleted."""

    def __init__(self, target: Path) -> None:
        self.target = target.resolve()  # replace the folder behind a link, and keep the link
        with _renaming(self.target):
            _put_back(self.target)
            _clear(self.target)
            self.temporary = _fresh(self.target)
            try:
                self.alive = (self.temporary / ALIVE).open("wb")
            except BaseException:
                self.temporary.rmdir()
                raise
            _lock(self.alive, wait=False)

    def commit(self, *, overwrite: bool) -> None:
        """Move the folder into place, in one step if the system supports it."""
        with _renaming(self.target):
            (self.temporary / ALIVE).unlink()
            self.temporary.chmod(0o755)
            sync_folder(self.temporary)
            _put_back(self.target)
            if not self.target.exists():
                self.temporary.rename(self.target)
            elif not overwrite or not self.target.is_dir():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.target))
            elif not _swapped(self.temporary, self.target):
                _replace_in_two_steps(self.temporary, self.target)
            sync_folder(self.target.parent)

    def close(self) -> None:
        """Delete an unfinished folder, or the one that was replaced."""
        self.alive.close()
        shutil.rmtree(self.temporary, ignore_errors=True)


def _swapped(first: Path, second: Path) -> bool:
    """Swap two folders; False if the system or file system cannot do that."""
    if sys.platform != "linux":
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # an old or an unusual C library
        return False
    paths = (AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second))
    if renameat2(*paths, RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in CANNOT_SWAP:
        return False
    raise OSError(code, os.strerror(code), str(second))


def _replace_in_two_steps(temporary: Path, target: Path) -> None:
    """Like `_swapped`; a kill after the first step leaves the old folder to be put back."""
    aside = _aside(target)
    target.rename(aside)
    try:
        temporary.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    aside.rename(temporary)


def _put_back(target: Path) -> None:
    """Move the old folder back if nothing is in its place; the caller holds the lock."""
    if not target.exists() and _aside(target).is_dir():
        _aside(target).rename(target)
        sync_folder(target.parent)


def _clear(target: Path) -> None:
    """Remove leftovers of a folder that is in its place; the caller holds the lock."""
    if _aside(target).is_dir() and target.exists():
        # Renamed first: a half-deleted folder must never have the name to put back from.
        unused = _fresh(target)
        unused.rmdir()
        _aside(target).rename(unused)
    start = f".{target.name}.writing-"
    for left in [entry for entry in target.parent.iterdir() if entry.name.startswith(start)]:
        if not _is_alive(left):
            shutil.rmtree(left, ignore_errors=True)


def _is_alive(left: Path) -> bool:
    """Whether a process still writes a folder; the caller holds the lock on its place.

    A writer creates and removes its mark while holding that lock, so no mark means no writer.
    """
    try:
        with (left / ALIVE).open("rb+") as mark:
            return not _lock(mark, wait=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # unknown


def _left_in(parent: Path) -> list[str]:
    """Names of the folders that have leftovers."""
    matches = (LEFTOVER.fullmatch(entry.name) for entry in parent.iterdir())
    return sorted({match["name"] for match in matches if match})


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _fresh(target: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.writing-"))


@contextlib.contextmanager
def _renaming(target: Path) -> Iterator[None]:
    """Hold the lock for renaming around a place; the end of the process releases it too."""
    path = target.with_name(f".{target.name}.lock")
    while True:
        with path.open("wb") as file:
            _lock(file, wait=True)
            if not _is_at(file, path):
                continue  # its last holder removed it; nobody else would see this lock
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _lock(file: Any, *, wait: bool) -> bool:
    """Lock a file until it is closed or its process ends; False if another holds the lock."""
    if os.name != "posix":
        return False
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _line(name: str, content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()} {len(content)} {name}".encode()


def _manifest(title: str, contents: Mapping[str, bytes]) -> bytes:
    """One line per file; the last line is the hash of the lines above it."""
    lines = [title.encode(), *(_line(name, contents[name]) for name in sorted(contents))]
    body = b"\n".join(lines) + b"\n"
    return body + hashlib.sha256(body).hexdigest().encode() + b"\n"
