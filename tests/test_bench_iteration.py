"""`benchmarks.engine iteration`: the hand-written iterations do what the library's does."""

import importlib.util
import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks import engine
from benchmarks.command_line import main
from benchmarks.engine import iteration_kernels as bare
from benchmarks.engine.iteration import BLOCK, apart, gradient_of, in_torch, problem
from gamps import search
from gamps.errors import SettingError

SIZE = dict(rollouts=20, horizon=5)
ITERATIONS = 3


@pytest.fixture(scope="module")
def given():
    return problem(20, 25, **SIZE)


@pytest.mark.full
def test_bare_takes_the_same_steps_as_the_library(given):
    """The same noise, hence the same numbers, over several iterations and all that is reported."""
    key = jax.random.key(3)
    state, infos, _ = search.run(given.search, key, given.state, iterations=ITERATIONS)
    carried = given.carried
    for i in range(ITERATIONS):
        carried, reported, _ = bare.step(key, given.log, carried, **SIZE, block=BLOCK)
        for name, value in reported._asdict().items():
            np.testing.assert_allclose(value, getattr(infos, name)[i], rtol=1e-8, err_msg=name)
    assert apart((state.policy.weights, state.policy.log_std), carried.policy) < 1e-8
    assert apart((state.model.mean_weights, state.model.std_weights), carried.model[:2]) < 1e-8


def test_the_gradients_of_bare_and_library_agree(given):
    key = jax.random.key(3)
    *_, gradient = bare.step(key, given.log, given.carried, **SIZE, block=BLOCK)
    state, *_ = search.run(given.search, key, given.state, iterations=1)
    assert apart(gradient_of(state), gradient) < 1e-8


def test_other_noise_gives_another_gradient(given):
    """The agreement above is no accident of a gradient that noise does not reach."""
    one, other = (
        bare.step(jax.random.key(k), given.log, given.carried, **SIZE, block=BLOCK)[-1]
        for k in (3, 4)
    )
    assert apart(one, other) > 1e-3


def test_torch_agrees_where_there_is_torch(given):
    python = os.environ.get("GAMPS_TORCH_PYTHON")
    if python is None:
        pytest.skip("GAMPS_TORCH_PYTHON names no interpreter that has PyTorch")
    key = jax.random.key(3)
    *_, gradient = bare.step(key, given.log, given.carried, **SIZE, block=BLOCK)
    noise = bare.draw(key, 0, **SIZE, block=BLOCK)
    answer = in_torch(given, noise, Path(python), SIZE["rollouts"], 1)
    assert apart([np.asarray(g) for g in answer["gradient"]], gradient) < 1e-8
    assert all(seconds > 0 for seconds in answer["seconds"].values())


def test_command_as_json(capsys):
    size = ["--trajectories", "20", "--steps", "25", "--horizon", "5", "--repeats", "1"]
    main(engine, ["iteration", *size, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {"library", "bare"} <= set(found["results"])
    assert found["results"]["bare"]["ratio_to_bare"] == 1.0
    assert found["results"]["library"]["gradient_apart"] < 1e-8
    assert found["settings"]["horizon"] == 5


def test_command_as_a_table(capsys):
    size = ["--trajectories", "20", "--steps", "25", "--horizon", "5", "--repeats", "1"]
    main(engine, ["iteration", *size])
    out = capsys.readouterr().out
    assert "ratio to bare" in out
    if importlib.util.find_spec("torch") is None:
        assert "--torch-python" in out


@pytest.mark.parametrize(
    ("arguments", "field"),
    [(["--rollouts", "7"], "rollouts"), (["--trajectories", "1", "--steps", "7"], "steps")],
)
def test_an_impossible_size_is_named(arguments, field, capsys):
    with pytest.raises(SystemExit):
        main(engine, ["iteration", *arguments])
    assert field in capsys.readouterr().err


def test_a_python_that_fails_is_named(given, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no torch here >&2\nexit 1\n")
    python.chmod(0o700)
    noise = bare.draw(jax.random.key(3), 0, **SIZE, block=BLOCK)
    with pytest.raises(SettingError, match="no torch here"):
        in_torch(given, noise, python, SIZE["rollouts"], 1)
