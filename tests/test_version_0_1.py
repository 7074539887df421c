"""Runs, policies and datasets that version 0.1.0 wrote still load, say the same, and go on.

tests/fixtures/version_0_1 was written by 0.1.0: 20 episodes of two tanks, and of these a run of the
default, one of `gamps`, one of `pgt` from shards, and one that was killed after two iterations.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures" / "version_0_1"
# In single precision, as users run it.
PROGRAM = """
import json
from pathlib import Path

import numpy as np

import gamps
from gamps import datasets, runs
from gamps.policies import rebuild
from gamps.runs.evaluate_run import evaluate_run
from gamps.runs.open_run import open_run

data = gamps.load("tanks/old-v0")
assert data.trajectories.n_trajectories == 20 and data.discount == 0.99
shards = datasets.open_shards(Path("datasets/tanks/old-v0/shards"))
assert shards.n_trajectories == 20

deployed = gamps.load_policy("default/policy")
best = rebuild(json.loads(Path("default/best.json").read_text()))
observation = np.asarray(data.trajectories.states[0, 0])
assert np.allclose(deployed.mean_action(observation), best.mode(observation), atol=1e-6)

for name in ("default", "gamps"):
    said = json.loads(Path(name, "verdict.json").read_text())
    run = open_run(Path(name))
    found = gamps.evaluate(run.ends.learned, run.learned, run.held_out, run.task)
    assert found.verdict.word == said["word"]
    for part in ("improvement", "value", "behaviour"):  # by other draws
        expected, estimate = said[part]["estimate"], getattr(found.verdict, part).estimate
        assert np.isclose(estimate, expected, rtol=1e-2), (name, part, estimate, expected)
    evaluated = evaluate_run(Path(name))
    assert evaluated.evaluation.verdict.word == said["word"]
    assert len(evaluated.rungs) >= 1

assert open_run(Path("default")).progress.run.model_class == "quadratic"
assert open_run(Path("streamed")).done == 2

# By the default of this version, in the models of that one.
end = runs.resume(Path("unfinished")).train()
assert int(end.state.iteration) == 4 and np.isfinite(end.run.promise)
"""


def test_everything_of_version_0_1_loads(tmp_path):
    folder = Path(shutil.copytree(FIXTURES, tmp_path / "old"))
    single = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_ENABLE_X64")}
    single["MINARI_DATASETS_PATH"] = str(folder / "datasets")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=single, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_fixtures_are_of_version_0_1():
    for name in ("default", "gamps", "streamed", "unfinished"):
        header = json.loads((FIXTURES / name / "run.json").read_text())
        assert header["versions"]["gamps"] == "0.1.0"
