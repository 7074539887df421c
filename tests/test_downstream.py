"""A project that uses gamps can be type-checked: by a checker, against what is installed.

GAMPS_PYTHON names the interpreter of another environment, such as one that has the wheel.
"""

import os
import re
import subprocess
import sys

import pytest

USE = """
from typing import assert_type

import jax

import gamps
from gamps import recipes
from gamps.deployment.load import DeployedPolicy
from gamps.envs import Minigolf, collect
from gamps.learner import Outcome, Settings, model_classes
from gamps.policies import LinearGaussianPolicy, Policy
from gamps.search import Info, Search, State, run
from gamps.search.weights import GradientAware
from gamps.trajectories import Trajectories


def better(log: Trajectories, task: gamps.Task, policy: LinearGaussianPolicy) -> Policy:
    search = recipes.gamps(log, task, weighting=GradientAware(q=2.0), learning_rate=0.1)
    assert_type(search, Search)
    state, info, _ = run(search, jax.random.key(0), search.init(policy), iterations=3)
    assert_type(state, State)
    assert_type(info, Info)
    return state.policy


env = Minigolf()
log = collect(env, env.policy(), jax.random.key(0), n=5, steps=20)
assert_type(log, Trajectories)
assert_type(log.n_trajectories, int)
outcome = gamps.learn(
    log, env.task(), env.policy(), model_classes(env.model_features),
    seed=1, settings=Settings(iterations=1),
)
assert_type(outcome, Outcome)
policy: Policy = outcome.policy
deployed: DeployedPolicy = gamps.load_policy("policy")
"""

MISUSES = {
    'recipes.gamps(log, 3)': "arg-type",
    'GradientAware(q="two")': "arg-type",
    "Settings(iteration=1)": "call-arg",
    "log.n_trajectory": "attr-defined",
    "recipes.gamp(log, env.task())": "attr-defined",
    'x: int = outcome.policy': "assignment",
}  # fmt: skip


@pytest.mark.full
def test_a_project_type_checks_and_its_misuses_are_seen(tmp_path):
    """Each wrong line is reported with its error, and nothing else is."""
    (tmp_path / "project.py").write_text(USE + "\n".join(MISUSES) + "\n", encoding="utf-8")
    python = os.environ.get("GAMPS_PYTHON", sys.executable)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "project.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    first = USE.count("\n") + 1
    found = re.findall(r"^project.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    expected = [(str(first + i), error) for i, error in enumerate(MISUSES.values())]
    assert found == expected, done.stdout + done.stderr
