"""Folders are replaced whole: after a kill at any step a reader finds the old or the new one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gamps
from gamps._utils import atomic_io
from gamps.datasets import writing
from gamps.errors import CheckpointError, OutputError
from gamps.runs import checkpoints

SOURCE = Path(gamps.__file__).parent
OLD, NEW = {"a": b"old", "b": b"old too"}, {"a": b"new", "b": b"new too", "c": b"more"}
CAN_SWAP = sys.platform == "linux"

# Python tells a hook of every file operation before it is done. A process of its own for each of
# them ends itself there by SIGKILL; the last one comes to the end.
KILLED = """
import json, os, signal, sys, types
from pathlib import Path

package = types.ModuleType("gamps")  # the module alone: importing all of JAX would take seconds
package.__path__ = [sys.argv[1]]
sys.modules["gamps"] = package
from gamps._utils import atomic_io

way, folder, contents = sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4])
WATCHED = ("open", "os.", "shutil.", "tempfile.", "fcntl.", "ctypes.")


def write(target, named):
    atomic_io.write_folder(target, "title", {k: v.encode() for k, v in named.items()})


def child(target, stop):
    seen = []

    def hook(event, arguments):
        if event.startswith(WATCHED):
            seen.append(event)
            if len(seen) == stop:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    write(target, contents["new"])
    os._exit(0)


if way == "steps":
    atomic_io._swapped = lambda one, other: False
write(folder / "warm", contents["old"])
write(folder / "warm", contents["new"])  # what is imported at first use is imported now
stop, ended = 0, None
while ended != 0:
    stop += 1
    target = folder / str(stop) / "place"
    target.parent.mkdir()
    write(target, contents["old"])
    pid = os.fork()
    if pid == 0:
        child(target, stop)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended in (0, -signal.SIGKILL), ended
print(stop)
"""


def plain(contents):
    return {name: content.decode() for name, content in contents.items()}


def found(target):
    """What a folder holds, read by nothing of ours."""
    return {p.name: p.read_bytes() for p in target.iterdir() if p.name != atomic_io.MANIFEST}


def loaded(target):
    """What a reader gets, every byte checked."""
    for contents in (OLD, NEW):
        try:
            return atomic_io.read_folder(target, "title", tuple(contents))
        except CheckpointError as error:
            refused = error
    raise refused


def hidden(folder):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("."))


@pytest.mark.parametrize("way", [*(["swap"] if CAN_SWAP else []), "steps"])
def test_a_kill_at_every_step_leaves_the_old_folder_or_the_new_one(tmp_path, way):
    words = json.dumps({"old": plain(OLD), "new": plain(NEW)})
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(SOURCE), way, str(tmp_path), words],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps > 20
    every, put_back = [], 0
    for stop in range(1, steps + 1):
        target = tmp_path / str(stop) / "place"
        if not target.exists():  # then, and only then, reading puts it back
            put_back += 1
        every.append(loaded(target))
        assert every[-1] == found(target)
        atomic_io.write_folder(target, "title", OLD)  # what was left does not stand in the way
        assert found(target).keys() == OLD.keys()
        assert hidden(target.parent) == []
    # The old folder up to some step, the new one from there on.
    assert every == sorted(every, key=len)
    assert every[0] == OLD
    assert every[-1] == NEW
    # A reader without our help always finds one where folders can be swapped.
    assert (put_back == 0) == (way == "swap")


@pytest.mark.skipif(not CAN_SWAP, reason="this system does not swap folders")
def test_folders_are_swapped_where_the_system_can(tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("in two steps")

    monkeypatch.setattr(atomic_io, "_replace_in_two_steps", never)
    for contents in (OLD, NEW):
        atomic_io.write_folder(tmp_path / "place", "title", contents)
    assert loaded(tmp_path / "place") == NEW
    assert hidden(tmp_path) == []


def left_between_two_renames(target):
    """What a kill between the two renames leaves."""
    target.rename(target.with_name(f".{target.name}.old"))


def test_an_old_checkpoint_is_put_back(tmp_path):
    for number in (1, 2):
        path = checkpoints.save(tmp_path, number, {}, {"n": number})
    left_between_two_renames(path)
    last, refused = checkpoints.latest(tmp_path)
    assert (last.number, last.plain, refused) == (2, {"n": 2}, [])
    assert hidden(tmp_path) == []


def test_an_old_dataset_is_put_back(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    target = tmp_path / "tanks" / "day-v0"
    (target / "data").mkdir(parents=True)
    left_between_two_renames(target)
    assert writing.folder_of("tanks/day-v0") == target
    assert (target / "data").is_dir()


def test_a_failure_within_the_block_leaves_the_old_folder(tmp_path):
    atomic_io.write_folder(tmp_path / "place", "title", OLD)

    def fails():
        with atomic_io.replace_folder(tmp_path / "place") as made:
            (made / "a").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert loaded(tmp_path / "place") == OLD
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("swaps", [True, False])
def test_a_failure_of_the_last_rename_leaves_the_old_folder(tmp_path, monkeypatch, swaps):
    atomic_io.write_folder(tmp_path / "place", "title", OLD)
    real = Path.rename

    def full(self, target):
        if ".writing-" in self.name:
            raise OSError(28, "No space left on device")
        return real(self, target)

    def fails(one, other):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_io, "_swapped", fails if swaps else lambda *_: False)
    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_io.write_folder(tmp_path / "place", "title", NEW)
    monkeypatch.undo()
    assert loaded(tmp_path / "place") == OLD
    assert hidden(tmp_path) == []


def test_a_folder_that_came_meanwhile_is_not_overwritten_unasked(tmp_path):
    target = tmp_path / "place"

    def overtaken():
        with atomic_io.replace_folder(target, overwrite=False) as made:
            (made / "a").write_text("mine")
            atomic_io.write_folder(target, "title", OLD)

    with pytest.raises(OutputError, match=r"place: File exists\. Fix that"):
        overtaken()
    assert loaded(target) == OLD
    target.rename(tmp_path / "elsewhere")
    target.write_text("a file")
    with pytest.raises(OSError, match="File exists"):
        atomic_io.write_folder(target, "title", NEW)
    assert target.read_text() == "a file"


def test_behind_a_link_the_folder_is_replaced_and_the_link_stays(tmp_path):
    atomic_io.write_folder(tmp_path / "real", "title", OLD)
    (tmp_path / "link").symlink_to("real")
    atomic_io.write_folder(tmp_path / "link", "title", NEW)
    assert (tmp_path / "link").is_symlink()
    assert loaded(tmp_path / "real") == NEW
    left_between_two_renames(tmp_path / "real")
    assert loaded(tmp_path / "link") == NEW


HOLDS = """
import sys, types
from pathlib import Path

package = types.ModuleType("gamps")
package.__path__ = [sys.argv[1]]
sys.modules["gamps"] = package
from gamps._utils import atomic_io

with atomic_io.replace_folder(Path(sys.argv[2])) as made:
    (made / "a").write_text("theirs")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_a_living_writer_keeps_its_folder_and_a_killed_one_does_not(tmp_path):
    command = [sys.executable, "-c", HOLDS, str(SOURCE), str(tmp_path / "place")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as child:
        assert child.stdout.readline() == "ready\n"
        atomic_io.write_folder(tmp_path / "place", "title", OLD)
        atomic_io.clear_leftovers(tmp_path)
        assert len(hidden(tmp_path)) == 1
        child.communicate("go on\n")
    assert found(tmp_path / "place") == {"a": b"theirs"}
    with subprocess.Popen(command, **pipes) as child:
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGKILL)
    assert len(hidden(tmp_path)) == 1
    atomic_io.clear_leftovers(tmp_path)
    assert hidden(tmp_path) == []
    assert found(tmp_path / "place") == {"a": b"theirs"}


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    atomic_io.write_file(tmp_path / "file", b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_io.write_file(tmp_path / "file", b"new")
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert hidden(tmp_path) == []
