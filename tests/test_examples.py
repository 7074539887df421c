"""What help texts tell a user to type works as it stands."""

import contextlib
import csv
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from gamps.cli import COMMANDS, main
from gamps.envs import TwoTanks, collect, tanks

EPISODES, STEPS = 30, 20


def environment(folder):
    clean = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
    own = {"MINARI_DATASETS_PATH": folder / "data", "XDG_CACHE_HOME": folder / "cache"}
    return clean | {name: str(path) for name, path in own.items()}


def run(command, folder, statuses=(0,)):
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment(folder), capture_output=True, text=True
    )
    assert done.returncode in statuses, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def example_of(name):
    """The command after "Example:", over as many lines as it has."""
    text = COMMANDS[name].load().__doc__ or ""
    found = re.search(r"Example: (.*?)\n\n", text, flags=re.DOTALL)
    assert found, f"the help of {name} has no example"
    return " ".join(found.group(1).split())


def write_log(path):
    """The log that the examples name: one row a step, and one where each run ended."""
    log = collect(TwoTanks(), tanks.policy(), jax.random.key(0), n=EPISODES, steps=STEPS)
    levels, pump, reward, density = (
        np.asarray(x, np.float32)
        for x in (log.observations, log.actions[..., 0], log.rewards, log.behaviour_log_prob)
    )
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["run", "t", "h1", "h2", "pump", "reward", "logp"])
        for i in range(EPISODES):
            for t in range(STEPS):
                table.writerow([i, t, *levels[i, t], pump[i, t], reward[i, t], density[i, t]])
            table.writerow([i, STEPS, *levels[i, -1], "", "", ""])


@pytest.mark.full
def test_the_examples_of_help_texts(tmp_path):
    """But for launch and sweep, which docs/tutorials/scale-out.md runs."""
    write_log(tmp_path / "log.csv")
    short = {"train": "--model linear --iterations 4", "play": "--episodes 2",
             "collect": "--episodes 4", "export": "--which learned"}  # fmt: skip
    raw = example_of("import").replace("--log-prob logp", "").replace("day-v0", "raw-v0")
    run(raw, tmp_path)
    for name in ("import", "inspect", "train", "resume", "report", "export", "play", "collect"):
        shown = run(f"{example_of(name)} {short.get(name, '')}", tmp_path)
        assert name != "inspect" or "R² 1.0000" in shown
    other = example_of("train").replace("runs/tanks", "runs/tanks-pgt")
    run(f"{other} --recipe pgt --iterations 3", tmp_path)
    assert "on the same episodes" in run(example_of("compare"), tmp_path)
    assert "all bounds together" in run(example_of("evaluate"), tmp_path, statuses=(0, 3, 4))
    shutil.rmtree(tmp_path / "data" / "tanks" / "day-v0")  # what is there is not overwritten
    assert "calibration" in run(example_of("fit-behaviour"), tmp_path)
    assert "estimated from the actions" in run("gamps inspect tanks/day-v0", tmp_path)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches(name):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    text = shown.getvalue()
    assert "Example:" in text
    documented = re.findall(
        r"^      (\w+): ", COMMANDS[name].load().__doc__ or "", flags=re.MULTILINE
    )
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
