"""The same numbers wherever the log lies: on several devices, and in several processes."""

import dataclasses
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.engine.problems import ProblemSpec, read, write
from benchmarks.engine.together import together
from gamps import search
from gamps.cluster.joining import Devices, mesh_of
from gamps.datasets import collect as simulate
from gamps.envs import Minigolf, collect, swimmer
from gamps.envs.minigolf import HORIZON
from gamps.errors import SettingError
from gamps.search import recipes
from gamps.search.values import Imagined

pytestmark = pytest.mark.distributed
scale = importlib.import_module("benchmarks.engine.scale")  # its command has the same name
FULL = bool(os.environ.get("GAMPS_FULL"))
CORE = sorted(os.sched_getaffinity(0))[0]
CORES = (sorted(os.sched_getaffinity(0)) * 2)[:2]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Neither number of trajectories is a multiple of eight; episodes of minigolf differ."""
    folder = tmp_path_factory.mktemp("logs")
    game, key = Minigolf(), jax.random.key(0)
    golf = collect(game, game.policy(), key, n=53, steps=HORIZON)
    swimming = simulate(swimmer.ID, swimmer.policy(0.5), key, n=19, steps=60)
    return {
        "minigolf": str(write(folder / "minigolf.safetensors", golf)),
        "swimmer": str(write(folder / "swimmer.safetensors", swimming)),
        "network": str(folder / "swimmer.safetensors"),
    }


@pytest.fixture(scope="module")
def alone(logs):
    found = {}

    def of(problem):
        if problem not in found:
            found[problem] = together(
                ProblemSpec(problem=problem, log=logs[problem], rollouts=10, horizon=10), [CORE]
            )
        return found[problem]

    return of


def agree(found, expected):
    """Gradients to 1e-5, parameters after ten iterations to 1e-4, both relative."""
    for a, b in zip(found["gradient"], expected["gradient"], strict=True):
        scale = np.abs(expected["gradient"]).max()
        assert abs(a - b) <= 1e-5 * scale
    scale = np.abs(expected["parameters"]).max()
    assert np.abs(np.subtract(found["parameters"], expected["parameters"])).max() <= 1e-4 * scale


@pytest.mark.parametrize("problem", ["minigolf", "swimmer"])
@pytest.mark.parametrize("devices", [2, 4, 8] if FULL else [8])
def test_several_devices_agree_with_one(problem, devices, logs, alone):
    found = together(
        ProblemSpec(problem=problem, log=logs[problem], rollouts=10, horizon=10, devices=devices),
        [CORE],
    )
    assert found["devices"] == devices
    agree(found, alone(problem))


@pytest.mark.parametrize("problem", ["minigolf", "swimmer", *(["network"] if FULL else [])])
def test_two_processes_agree_with_one(problem, logs, alone):
    found = together(
        ProblemSpec(problem=problem, log=logs[problem], rollouts=10, horizon=10), CORES
    )
    assert found["devices"] == 2
    agree(found, alone(problem))


def test_what_is_sent_does_not_grow_with_the_log():
    """By the compiled program: bytes of all its collectives, none of them in a loop."""
    sizes = [
        together(
            ProblemSpec(trajectories=n, steps=4, horizon=2, iterations=1, devices=2, program=True),
            [CORE],
        )["collectives"]
        for n in (8_192, 16_384)
    ]
    assert sizes[0] == sizes[1]
    assert 0 < sizes[0]["bytes"] < 100_000
    assert sizes[0]["in_loops"] == 0


def test_a_single_process_touches_neither_ray_nor_the_network():
    program = (
        "import sys, jax, gamps, gamps.cli\n"
        "from benchmarks.engine.together import ProblemSpec, work\n"
        "work(ProblemSpec(problem='swimmer', trajectories=4, steps=5, iterations=1))\n"
        "from jax._src import distributed\n"
        "assert distributed.global_state.client is None\n"
        "assert not [m for m in sys.modules if m == 'ray' or m.startswith('ray.')]\n"
        "assert 'jax.experimental.multihost_utils' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_core_install_names_no_cluster():
    from importlib.metadata import requires

    core = [r for r in requires("gamps") or [] if "extra ==" not in r]
    assert not [r for r in core if re.match(r"ray|dask|pyspark|mpi4py", r)]


@pytest.mark.parametrize(
    ("spec", "environment", "match"),
    [
        (("some",), {}, "devices"),
        (("0",), {}, "devices"),
        (("1", "", 2, 0), {}, "coordinator: missing"),
        (("1", "auto"), {"GAMPS_PROCESSES": "two"}, "GAMPS_PROCESSES"),
    ],
)
def test_words_that_mean_no_mesh_are_refused(spec, environment, match, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingError, match=match):
        mesh_of(Devices(*spec))
    assert mesh_of(Devices()) is None


def test_trajectories_that_only_fill_up_count_for_nothing(logs):
    """Every recipe on a log with three rows of no step: the same policy, in this process."""
    log = read(Path(logs["minigolf"]))
    rows = np.append(np.arange(log.n_trajectories), [0, 1, 2])
    filled = jax.tree.map(lambda x: x[rows], log)
    real = np.arange(len(rows)) < log.n_trajectories
    filled = dataclasses.replace(filled, mask=filled.mask & real[:, None])
    game = Minigolf()
    for name in ("gamps", "ml", "pgt", "reinforce"):
        found = []
        for one in (log, filled):
            values = {"values": Imagined(4, 5)} if name in ("gamps", "ml") else {}
            built = getattr(recipes, name)(one, game.task(), learning_rate=0.05, **values)
            state = built.init(game.policy(), game.linear_model())
            state, info, _ = search.run(built, jax.random.key(0), state, iterations=3)
            found.append((np.asarray(state.policy.weights), info.ess, info.gradient_norm))
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=name)


def test_shards_on_disk_in_two_processes(tmp_path, monkeypatch):
    """Sixty-one trajectories, of which a shard holds no multiple of two."""
    monkeypatch.setattr(scale, "STEPS", 20)
    spec = ProblemSpec(
        shards=str(scale.cut(tmp_path / "shards", 61)), rollouts=4, horizon=4, iterations=3
    )
    alone, both = together(spec, [CORE]), together(spec, CORES)
    assert both["devices"] == 2
    agree(both, alone)
