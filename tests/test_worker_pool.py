"""Work in processes: shared out, kept, taken up again after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gamps._utils.worker_pool import share_out
from gamps.errors import OutputError, SettingError, WorkerError
from gamps.paper.cells import run_cells

SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gamps.paper.cells import run_cells
from test_worker_pool import slow_square
if __name__ == "__main__":
    cells = {f"c{i}": {"x": i, "marks": sys.argv[3]} for i in range(6)}
    run_cells(slow_square, cells, Path(sys.argv[2]), workers=2, advance=lambda name: None)
"""


def slow_square(arguments):
    with (Path(arguments["marks"]) / "runs").open("a") as file:
        file.write(f"{arguments['x']} {os.getpid()}\n")
    time.sleep(0.7)
    return {"square": arguments["x"] ** 2}


def square(x):
    return x * x, os.getpid()


def die(x):
    if x == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended and was not yet waited for is still listed.
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


def test_items_are_shared_out():
    found = dict(share_out(square, range(5), workers=2))
    assert {i: result[0] for i, result in found.items()} == {i: i * i for i in range(5)}
    assert os.getpid() not in {pid for _, pid in found.values()}


def test_one_worker_is_this_process():
    assert [pid for _, (_, pid) in share_out(square, range(3), workers=1)] == [os.getpid()] * 3


def refuse(x):
    if x == 1:
        raise SettingError("field", "problem", "fix", index=(3, 4))
    return x


def test_an_error_of_a_worker_arrives_as_itself():
    with pytest.raises(SettingError, match=r"field\[3, 4\]: problem. fix") as caught:
        list(share_out(refuse, range(6), workers=2))
    assert caught.value.index == (3, 4)


def test_a_killed_worker_is_named():
    with pytest.raises(WorkerError, match="killed"):
        list(share_out(die, range(4), workers=2))


def test_kill_nine_loses_nothing_that_was_finished(tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "cells"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(Path(__file__).parent), str(folder), str(tmp_path)]
    parent = subprocess.Popen(command)
    deadline = time.monotonic() + 120
    while len(list(folder.glob("c*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    finished = {path.name for path in folder.glob("c*.json")}
    assert 2 <= len(finished) < 6
    for name in finished:
        assert "square" in json.loads((folder / name).read_text())["result"]
    workers = {int(line.split()[1]) for line in (tmp_path / "runs").read_text().splitlines()}
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))  # nobody works on for a parent that is gone

    started = len((tmp_path / "runs").read_text().splitlines())
    subprocess.run(command, check=True, timeout=120)
    again = len((tmp_path / "runs").read_text().splitlines()) - started
    assert again == 6 - len(finished)
    results = [json.loads((folder / f"c{i}.json").read_text())["result"] for i in range(6)]
    assert results == [{"square": i * i} for i in range(6)]


def test_other_settings_are_not_taken_for_the_same(tmp_path):
    def run(x):
        cells = {"one": {"x": x}}
        return run_cells(_twice, cells, tmp_path, workers=1, advance=lambda name: None)

    assert run(2) == {"one": {"twice": 4}}
    with pytest.raises(OutputError, match="other settings"):
        run(3)
    (tmp_path / "one.json").write_text("{")
    with pytest.raises(OutputError, match="cannot be read"):
        run(2)


def _twice(arguments):
    return {"twice": 2 * arguments["x"]}
