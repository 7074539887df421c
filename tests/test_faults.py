"""Seeded faults: each is put into a copy of the source, and some test must catch it.

The standing tier only looks whether every fault still names a line; `GAMPS_FULL=1` runs them all,
each against the tests that cover its file, up to the first failure.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gamps
from faults import COVERED_BY, FAULTS

SOURCE = Path(gamps.__file__).parent
ROOT = Path(__file__).parent.parent
# Faults that the tests let through, with the reason; at most three.
SURVIVORS: dict[str, str] = {}


def covering(file: str) -> list[str]:
    """The test files of a source file: those of its own name before those of its folder."""
    longest = max((place for place in COVERED_BY if file.startswith(place)), key=len)
    return [f"tests/{name}.py" for name in COVERED_BY[longest]]


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_names_one_place(name):
    file, right, wrong = FAULTS[name]
    assert (SOURCE / file).read_text(encoding="utf-8").count(right) == 1, right
    assert right != wrong
    assert all((ROOT / test).exists() for test in covering(file))


def test_few_faults_survive():
    assert len(FAULTS) >= 60
    assert SURVIVORS.keys() <= FAULTS.keys()
    assert len(SURVIVORS) <= 3


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in SURVIVORS])
def test_fault_is_caught(name, tmp_path):
    file, right, wrong = FAULTS[name]
    copy = Path(shutil.copytree(SOURCE, tmp_path / "gamps", ignore=shutil.ignore_patterns("*.pyc")))
    text = (copy / file).read_text(encoding="utf-8")
    (copy / file).write_text(text.replace(right, wrong), encoding="utf-8")
    standing = {k: v for k, v in os.environ.items() if k != "GAMPS_FULL"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *covering(file)],
        cwd=ROOT,
        env=standing | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 1, f"not caught by {covering(file)}:\n{done.stdout}"
    assert "FAILED" in done.stdout or "ERROR" in done.stdout
