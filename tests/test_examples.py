"""What help texts and tutorials tell a user to type works as it stands."""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gamps.cli import COMMANDS, main

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "examples" / "two_tanks"


def environment(folder):
    clean = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
    return clean | {"MINARI_DATASETS_PATH": str(folder / "data")}


def run(command, folder, statuses=(0,)):
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    assert done.returncode in statuses, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def example_of(name):
    """The command after "Example:", over as many lines as it has."""
    text = COMMANDS[name].__doc__ or ""
    found = re.search(r"Example: (.*?)\n\n", text, flags=re.DOTALL)
    assert found, f"the help of {name} has no example"
    return " ".join(found.group(1).split())


@pytest.mark.slow
def test_the_tutorial_and_the_examples_of_all_help_texts(tmp_path):
    for path in TUTORIAL.glob("*.py"):
        shutil.copy(path, tmp_path)
    text = (TUTORIAL / "README.md").read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        (tmp_path / "mytask.py").write_text(code)
    blocks = re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    shown = "".join(run(command, tmp_path) for command in commands)
    assert "levels [0.6, 0.6]" in shown  # the exported policy, without gamps
    assert (tmp_path / "runs" / "tanks" / "play.png").exists()
    # The task that the tutorial writes down is the one of the package.
    assert "R² 1.0000" in run("gamps inspect tanks/day-v0 --task mytask:task", tmp_path)

    # Help: the log of the tutorial without densities too; what is there is not overwritten.
    shutil.rmtree(tmp_path / "runs")
    shutil.rmtree(tmp_path / "data" / "tanks" / "day-v0")
    raw = example_of("import").replace("--log-prob logp", "").replace("day-v0", "raw-v0")
    run(raw, tmp_path)
    for name in ("import", "inspect", "train", "resume", "report", "export", "play"):
        run(example_of(name), tmp_path)
    other = example_of("train").replace("runs/tanks", "runs/tanks-pgt")
    run(f"{other} --recipe pgt --iterations 3", tmp_path)
    assert "on the same episodes" in run(example_of("compare"), tmp_path)
    assert "effective episodes" in run(example_of("evaluate"), tmp_path, statuses=(0, 3, 4))
    shutil.rmtree(tmp_path / "data" / "tanks" / "day-v0")
    assert "calibration" in run(example_of("fit-behaviour"), tmp_path)
    estimated = run("gamps inspect tanks/day-v0", tmp_path)
    assert "estimated from the actions" in estimated
    run(example_of("collect"), tmp_path)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches(name):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    text = shown.getvalue()
    assert "Example:" in text
    documented = re.findall(r"^      (\w+): ", COMMANDS[name].__doc__ or "", flags=re.MULTILINE)
    assert len(documented) >= 1
    assert len(text.splitlines()) > 15


def test_the_first_line_comes_at_once(tmp_path):
    """Before anything is read or compiled; the imports are all that comes before."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", "from gamps.cli import main; main()", "train", "none/such-v0",
         "--task", "gamps.envs.tanks:task", "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path),
    )  # fmt: skip
    out, error = process.communicate(timeout=120)
    assert out.startswith("reading none/such-v0")
    assert "gamps: dataset: no data" in error
    assert process.returncode == 2
