"""The same numbers wherever the log lies: on several devices, and in several processes."""

import os
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from gamps.bench.problems import Words, write
from gamps.bench.together import together
from gamps.datasets import collect as simulate
from gamps.envs import Minigolf, collect, swimmer
from gamps.envs.minigolf import HORIZON

pytestmark = pytest.mark.distributed
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
                Words(problem=problem, log=logs[problem], rollouts=10, horizon=10), [CORE]
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
        Words(problem=problem, log=logs[problem], rollouts=10, horizon=10, devices=devices), [CORE]
    )
    assert found["devices"] == devices
    agree(found, alone(problem))


@pytest.mark.parametrize("problem", ["minigolf", "swimmer", *(["network"] if FULL else [])])
def test_two_processes_agree_with_one(problem, logs, alone):
    found = together(Words(problem=problem, log=logs[problem], rollouts=10, horizon=10), CORES)
    assert found["devices"] == 2
    agree(found, alone(problem))


def test_what_is_sent_does_not_grow_with_the_log():
    """By the compiled program: bytes of all its collectives, none of them in a loop."""
    sizes = [
        together(
            Words(trajectories=n, steps=4, horizon=2, iterations=1, devices=2, program=True), [CORE]
        )["collectives"]
        for n in (8_192, 16_384)
    ]
    assert sizes[0] == sizes[1]
    assert 0 < sizes[0]["bytes"] < 100_000
    assert sizes[0]["in_loops"] == 0


def test_a_single_process_touches_neither_ray_nor_the_network():
    program = (
        "import sys, jax, gamps, gamps.cli\n"
        "from gamps.bench.together import Words, work\n"
        "work(Words(problem='swimmer', trajectories=4, steps=5, iterations=1))\n"
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
