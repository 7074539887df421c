"""One program a shape: numbers are swept, and later processes find programs ready."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from gamps import search
from gamps._utils.compile_cache import keep_compiled
from gamps.cli import main
from gamps.envs import Minigolf, collect
from gamps.errors import OutputError
from gamps.search import recipes
from gamps.search.importance import Clip
from gamps.search.values import Imagined
from gamps.tasks import Task

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "first_step.py"
TRACES: list[str] = []


class CountTraces(eqx.Module):
    """A baseline that counts how often it is traced, which is once a compilation."""

    name: str = eqx.field(static=True)

    def __call__(self, policy, trajectories, ratios, values):
        TRACES.append(self.name)
        return jnp.zeros_like(values.weighted_q_values)


def assembled(
    name, env=None, *, discount=0.99, rate=0.08, clip=5.0, std=0.8, n=8, least=1e-3, ess=0.0
):
    """A recipe on minigolf with every number a setting."""
    env = Minigolf() if env is None else env
    log = DRAW(env, env.policy(), jax.random.key(0), n)
    values = {} if name in ("pgt", "reinforce") else {"values": Imagined(rollouts=4, horizon=5)}
    built = getattr(recipes, name)(
        log,
        Task(env.reward, discount, env.ends),
        baseline=CountTraces(name),
        learning_rate=rate,
        ratio=Clip(clip),
        least_ess=ess,
        **values,
    )
    model = eqx.tree_at(lambda m: m.least_std, env.linear_model(), jnp.asarray(least, dtype=float))
    return built, built.init(env.policy(std=std), model)


@eqx.filter_jit
def DRAW(env, policy, key, n):
    return collect(env, policy, key, n=n, steps=20)


SWEEPS = [
    {"rate": 0.01},
    {"discount": 0.9},
    {"clip": 1.0},
    {"std": 0.5},
    {"least": 0.1},
    {"ess": 7.9},
    {"env": Minigolf(noise=0.1)},
    {"env": Minigolf(far_friction=0.3, strongest=4.0)},
]


@pytest.mark.parametrize("name", ["gamps", "ml", "pgt", "reinforce"])
def test_numbers_are_swept_without_compiling_again(name):
    TRACES.clear()
    weights = []
    for sweep in ({}, *SWEEPS):
        built, state = assembled(name, **sweep)
        for i in range(2):
            state, *_ = search.run(built, jax.random.key(i), state, iterations=2)
        weights.append(state.policy.weights)
    assert [name] == TRACES
    # And each of them means something, but the model's floor to those without a model.
    same = [bool((w == weights[0]).all()) for w in weights[1:]]
    assert not any(s for s, sweep in zip(same, SWEEPS, strict=True) if "least" not in sweep)
    built, state = assembled(name, n=9)
    search.run(built, jax.random.key(0), state, iterations=1)
    assert [name, name] == TRACES


@pytest.fixture
def restored():
    """JAX's settings as they were."""
    names = (
        "jax_enable_compilation_cache",
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_folder_is_private(tmp_path, monkeypatch, restored):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    jax.config.update("jax_enable_compilation_cache", True)
    folder = keep_compiled()
    assert folder == tmp_path / "gamps" / "xla"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert jax.config.jax_compilation_cache_dir == str(folder)


@pytest.mark.parametrize("place", [".", "xla"])
def test_a_folder_that_others_can_write_to_is_refused(place, tmp_path, restored):
    (tmp_path / "xla").mkdir(mode=0o700)
    (tmp_path / place).chmod(0o777)
    with pytest.raises(OutputError, match="others can write"):
        keep_compiled(tmp_path / "xla")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners here")
@pytest.mark.parametrize("place", [".", "xla"])
def test_a_folder_of_somebody_else_is_refused(place, tmp_path, monkeypatch, restored):
    """Nobody else can write to it but its owner, who can put in it what is run as the user."""
    folder = tmp_path / "xla"
    folder.mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    assert keep_compiled(folder) == folder
    jax.config.update("jax_compilation_cache_dir", "before")
    if os.getuid() == 0:
        os.chown(tmp_path / place, 12_345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(OutputError, match="run unchecked"):
        keep_compiled(folder)
    assert jax.config.jax_compilation_cache_dir == "before"


def test_a_command_goes_on_without_the_folder(tmp_path, monkeypatch, restored, capsys):
    (tmp_path / "gamps").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    jax.config.update("jax_enable_compilation_cache", True)
    with pytest.raises(SystemExit):
        main(["export", str(tmp_path / "no run")])
    printed = capsys.readouterr().err
    assert "not kept" in printed
    assert "no run" in printed.splitlines()[-1]


def test_the_environment_decides(monkeypatch, tmp_path, restored):
    jax.config.update("jax_enable_compilation_cache", True)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    assert keep_compiled() is None
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    jax.config.update("jax_enable_compilation_cache", False)
    assert keep_compiled() is None


def test_a_file_in_the_way_is_named(tmp_path, restored):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        keep_compiled(tmp_path / "file" / "xla")


@pytest.mark.full
def test_the_second_process_steps_sooner():
    """`benchmarks/first_step.py` shows five times and more; a loaded machine is granted half."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_"))}
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--seeds", "10"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert float(done.stdout.split()[-3]) >= 2.5, done.stdout
