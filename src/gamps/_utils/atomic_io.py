"""Files and folders that are whole or not there, whatever ends the process that writes them.

A folder is written under a hidden name beside its place and takes that place in one step: Linux
swaps the old and the new folder (`renameat2`), so that a reader finds one of them at any moment.
Where system or file system cannot swap, the old folder is first moved to `.NAME.old`; a process
that is killed before the new one is in place leaves it there, and whoever reads or writes NAME next
by this module puts it back.

    .NAME.writing-*   a folder that is being written, or is being thrown away
    .NAME.old         the old folder, for a moment, where folders cannot be swapped
    .NAME.lock        held by whoever renames

`write_folder` adds `manifest.txt`: the SHA-256 and the size of every other file, and a hash of
itself. Whatever a disk or a person does to the folder afterwards, `read_folder` refuses it.
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
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of linux/fcntl.h and linux/fs.h
CANNOT_SWAP = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, content: bytes) -> None:
    """Replace a file by another, all of it or not at all."""
    with replace_file(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A name beside `path`; what is written there takes its place when the block is left."""
    # The ending stays, by which matplotlib knows what to write.
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
    """Wait until the disk has a folder, and all that lies below it."""
    for path in (folder, *folder.rglob("*")):
        sync_folder(path)


def write_folder(target: Path, title: str, contents: Mapping[str, bytes]) -> None:
    """Write files, by name, into a folder of their own, all or none; an earlier folder is replaced.

    The title is the first line of its manifest, and `read_folder` wants the same.
    """
    writing = _Writing(target)
    try:
        for name, content in (dict(contents) | {MANIFEST: _manifest(title, contents)}).items():
            write_synced(writing.temporary / name, content)
        writing.commit(overwrite=True)
    finally:
        writing.close()


def read_folder(path: Path, title: str, names: tuple[str, ...]) -> dict[str, bytes]:
    """The files of a folder that `write_folder` wrote, every byte of them checked."""
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
        raise CheckpointError(f"{path / extra[0]}", "does not belong here", "Take it away")
    return contents


@contextlib.contextmanager
def replace_folder(target: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A folder that takes its place when the block is left without an error, and else goes away.

    Args:
      target: its place; parents are made.
      overwrite: replace a folder that is there; otherwise it is refused.

    Yields:
      An empty folder to write into. What is in it must be on the disk when the block is left.

    Raises:
      OutputError: naming the folder and what the disk said. What the block raises is not touched.
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
    """The folder, which need not be there; the old one, if a kill cut its replacement short."""
    if not target.exists() and _aside(place := target.resolve()).is_dir():
        # Who may not write here can only do without.
        with contextlib.suppress(OSError), _renaming(place):
            _put_back(place)
    return target


def recover_folders(parent: Path) -> None:
    """`recover_folder` for every folder inside another."""
    for name in _left_in(parent):
        recover_folder(parent / name)


def clear_leftovers(parent: Path) -> None:
    """Take away what killed writers have left in a folder; living ones keep theirs."""
    for name in _left_in(parent):
        with contextlib.suppress(OSError), _renaming(parent / name):
            _put_back(parent / name)
            _clear(parent / name)


@contextlib.contextmanager
def output_errors(target: Path) -> Iterator[None]:
    """Failures of the disk as errors that name the folder."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        fix = "Fix that, or choose another folder"
        raise OutputError(f"{target}: {error.strerror or error}. {fix}") from error


class _Writing:
    """A folder under its hidden name, from its making until it has its place or is gone."""

    def __init__(self, target: Path) -> None:
        self.target = target.resolve()  # behind a link the folder is replaced, and the link stays
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
        """Take the place, in one step where the system can do that."""
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
        """Throw away what has no place: an unfinished folder, or the one that was replaced."""
        self.alive.close()
        shutil.rmtree(self.temporary, ignore_errors=True)


def _swapped(first: Path, second: Path) -> bool:
    """Let two folders take each other's place; False if system or file system cannot do that."""
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
    """As `_swapped`; a kill after the first step leaves the old folder where it can be put back."""
    aside = _aside(target)
    target.rename(aside)
    try:
        temporary.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    aside.rename(temporary)


def _put_back(target: Path) -> None:
    """Give the old folder its place again, if it has none; the lock is held."""
    if not target.exists() and _aside(target).is_dir():
        _aside(target).rename(target)
        sync_folder(target.parent)


def _clear(target: Path) -> None:
    """Take away leftovers of a folder that is in its place; the lock is held."""
    if _aside(target).is_dir() and target.exists():
        # Renamed first: half of a folder must never be found under the name to put back from.
        unused = _fresh(target)
        unused.rmdir()
        _aside(target).rename(unused)
    start = f".{target.name}.writing-"
    for left in [entry for entry in target.parent.iterdir() if entry.name.startswith(start)]:
        if not _is_alive(left):
            shutil.rmtree(left, ignore_errors=True)


def _is_alive(left: Path) -> bool:
    """Whether a process still writes a folder; the lock on its place is held.

    A writer makes and takes away its own mark while it holds that lock, so without it none lives.
    """
    try:
        with (left / ALIVE).open("rb+") as mark:
            return not _lock(mark, wait=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be told


def _left_in(parent: Path) -> list[str]:
    """Names of folders that somebody has left something of."""
    matches = (LEFTOVER.fullmatch(entry.name) for entry in parent.iterdir())
    return sorted({match["name"] for match in matches if match})


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _fresh(target: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.writing-"))


@contextlib.contextmanager
def _renaming(target: Path) -> Iterator[None]:
    """The lock that whoever renames around a place holds; it ends with the process."""
    path = target.with_name(f".{target.name}.lock")
    while True:
        with path.open("wb") as file:
            _lock(file, wait=True)
            if not _is_at(file, path):
                continue  # its last holder took it away; nobody else would see this one
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
    """Lock a file until it is closed, or its process ends in whatever way; False if it is held."""
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
    """One line a file; the last line is the hash of those above it."""
    lines = [title.encode(), *(_line(name, contents[name]) for name in sorted(contents))]
    body = b"\n".join(lines) + b"\n"
    return body + hashlib.sha256(body).hexdigest().encode() + b"\n"
