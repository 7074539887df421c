"""Checkpoints: what was written comes back, and nothing else is ever taken for it."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from gamps._utils import atomic_io
from gamps.errors import CheckpointError, OutputError
from gamps.runs import checkpoints

ARRAYS = {"w": np.arange(3, dtype=np.float32), "n": np.asarray(7), "b": np.zeros((0, 2))}
PLAIN = {"best": 0.5, "rounds": [{"a": 1}]}


def kept(folder, number=5):
    return checkpoints.save(folder, number, ARRAYS, PLAIN)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_written_comes_back(tmp_path):
    found = checkpoints.load(kept(tmp_path / "c"))
    assert found.number == 5
    assert found.plain == PLAIN
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype
        assert np.array_equal(found.arrays[name], array)
        assert found.arrays[name].shape == array.shape


def test_the_last_few_are_kept_and_a_broken_write_is_cleared(tmp_path):
    (tmp_path / ".00000000.writing-old").mkdir()
    for number in range(6):
        checkpoints.save(tmp_path, number, ARRAYS, PLAIN, keep=2)
    assert names(tmp_path) == ["00000004", "00000005"]


def test_every_single_bit_flip_is_refused(tmp_path):
    kept(tmp_path, 4)
    path = kept(tmp_path, 5)
    flips = 0
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for place in range(8 * len(whole)):
            broken = bytearray(whole)
            broken[place // 8] ^= 1 << place % 8
            file.write_bytes(broken)
            with pytest.raises(CheckpointError):
                checkpoints.load(path)
            flips += 1
        file.write_bytes(whole)
    assert flips > 3_000
    checkpoints.load(path)


def test_every_truncation_and_trailing_bytes_are_refused(tmp_path):
    path = kept(tmp_path)
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for length in range(len(whole)):
            file.write_bytes(whole[:length])
            with pytest.raises(CheckpointError):
                checkpoints.load(path)
        for more in (b"\x00", b"\n", whole):
            file.write_bytes(whole + more)
            with pytest.raises(CheckpointError):
                checkpoints.load(path)
        file.unlink()
        with pytest.raises(CheckpointError):
            checkpoints.load(path)
        file.write_bytes(whole)
    (path / "more").write_text("")
    with pytest.raises(CheckpointError, match="does not belong"):
        checkpoints.load(path)


def test_swapped_files_and_renamed_folders_are_refused(tmp_path):
    first = kept(tmp_path, 1)
    second = checkpoints.save(tmp_path, 2, {"w": np.ones(3, np.float32)}, PLAIN | {"best": 1})
    for name in ("arrays.safetensors", "plain.json", "manifest.txt"):
        whole = (second / name).read_bytes()
        shutil.copy(first / name, second / name)
        with pytest.raises(CheckpointError):
            checkpoints.load(second)
        (second / name).write_bytes(whole)
    shutil.copytree(first, tmp_path / "00000009")
    with pytest.raises(CheckpointError):
        checkpoints.load(tmp_path / "00000009")
    found, refused = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.number == 2
    assert len(refused) == 1


def test_damaged_ones_ahead_do_not_push_out_what_is_written(tmp_path):
    for number in (8, 9, 10):
        (kept(tmp_path, number) / "plain.json").write_text("{}")
    for number in (1, 2):
        assert kept(tmp_path, number).exists()
        found, refused = checkpoints.latest(tmp_path)
        assert found is not None
        assert found.number == number
        assert len(refused) == 3


def test_a_sealed_one_that_cannot_be_read_is_refused(tmp_path):
    kept(tmp_path, 1)
    for content in (b"[" * 100_000, b"\0" * 50):
        files = {"arrays.safetensors": content, "plain.json": content}
        atomic_io.write_folder(tmp_path / "00000002", "gamps checkpoint 2", files)
        found, (error,) = checkpoints.latest(tmp_path)
        assert found is not None
        assert found.number == 1
        assert "cannot be read" in str(error)


def test_a_damaged_one_gives_way_to_the_one_before(tmp_path):
    kept(tmp_path, 1)
    last = kept(tmp_path, 2)
    (last / "plain.json").write_text(json.dumps({"best": 9}))
    found, (error,) = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.number == 1
    assert "plain.json" in error.field
    assert checkpoints.latest(tmp_path / "none") == (None, [])


def test_a_full_disk_leaves_the_earlier_ones(tmp_path, monkeypatch):
    kept(tmp_path, 1)
    real = Path.open

    def full(self, mode="r", **rest):
        if "w" in mode and self.name == "arrays.safetensors":
            raise OSError(28, "No space left on device")
        return real(self, mode, **rest)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OutputError, match="No space left on device"):
        kept(tmp_path, 2)
    monkeypatch.undo()
    assert names(tmp_path) == ["00000001"]
    checkpoints.load(tmp_path / "00000001")


class Disk:
    """What the operating system is asked to do for good, in order: the real calls, written down."""

    def __init__(self, monkeypatch):
        self.events, sync = [], os.fsync

        def synced(handle):
            status = os.fstat(handle)
            self.events.append(("sync", status.st_ino, status.st_size))
            sync(handle)

        def written_down(rename):
            def renamed(source, target, **rest):
                done = rename(source, target, **rest)
                self.events.append(("rename", Path(target).stat().st_ino, Path(target)))
                return done

            return renamed

        monkeypatch.setattr(os, "fsync", synced)
        for owner, name in ((os, "replace"), (os, "rename"), (atomic_io, "_swapped")):
            monkeypatch.setattr(owner, name, written_down(getattr(owner, name)))

    def synced(self, path):
        """When all of a file, or a folder, was handed to the disk; a rename keeps its number."""
        status = path.stat()
        return [
            i for i, (kind, number, size) in enumerate(self.events)
            if kind == "sync" and number == status.st_ino
            and (path.is_dir() or size == status.st_size)
        ]  # fmt: skip

    def renamed(self, path):
        """When something got its name."""
        (found,) = [i for i, event in enumerate(self.events) if event[0::2] == ("rename", path)]
        return found


@pytest.mark.parametrize("earlier", [False, True])
def test_a_folder_gets_its_name_when_the_disk_has_it(tmp_path, monkeypatch, earlier):
    """A power failure leaves the earlier folder or the new one: bytes, entries, then the name."""
    target = tmp_path / "folder"
    if earlier:
        atomic_io.write_folder(target, "title", {"a": b"before"})
    disk = Disk(monkeypatch)
    atomic_io.write_folder(target, "title", {"a": b"after", "b": b"x" * 10_000})
    named = disk.renamed(target)
    files = [disk.synced(target / name) for name in ("a", "b", atomic_io.MANIFEST)]
    assert all(files)
    assert max(map(min, files)) < max(i for i in disk.synced(target) if i < named)
    assert max(disk.synced(tmp_path)) > named


def test_a_file_gets_its_name_when_the_disk_has_it(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    disk = Disk(monkeypatch)
    atomic_io.write_file(path, b"after this")
    assert path.read_bytes() == b"after this"
    assert min(disk.synced(path)) < disk.renamed(path) < max(disk.synced(tmp_path))


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
def test_a_device_that_is_really_full(tmp_path):
    with pytest.raises(OSError, match="No space left"):
        atomic_io.write_synced(FULL, b"x" * 10)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="Not a directory"):
        kept(tmp_path / "file" / "c")
