"""A log in parts: the same numbers as in one piece, and recovery of nothing more than is there."""

import dataclasses
import json
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets, search
from gamps.envs import Minigolf, TwoTanks, collect, tanks
from gamps.envs.minigolf import HORIZON
from gamps.errors import SettingError
from gamps.policies import rebuild
from gamps.search import recipes, streaming
from gamps.search.fitting import Keep, Minibatches
from gamps.search.gradients import AllActions
from gamps.search.importance import self_normalise
from gamps.search.sampling import Some
from gamps.search.values import EpisodeReturn, Imagined, NoBaseline
from gamps.search.values.imagined import _turned
from gamps.search.values.rollouts import Noise
from gamps.search.weights import Mixed, Ones
from gamps.trajectories import Episode

GAME = Minigolf()


class InParts(list):
    """Parts of a log in memory."""

    @property
    def n_trajectories(self):
        return sum(int(part.mask[:, 0].sum()) for part in self)

    def only(self, indices):
        return InParts(self[i] for i in indices)


@pytest.fixture(scope="module")
def log():
    return collect(GAME, GAME.policy(), jax.random.key(0), n=90, steps=HORIZON)


def cut(log, size):
    """Parts of equal shape; the last is filled up with rows of no step."""
    parts = InParts()
    for first in range(0, log.n_trajectories, size):
        rows = np.minimum(np.arange(first, first + size), log.n_trajectories - 1)
        part = jax.tree.map(lambda x, rows=rows: x[rows], log)
        real = np.arange(first, first + size) < log.n_trajectories
        parts.append(dataclasses.replace(part, mask=part.mask & real[:, None]))
    return parts


def built_on(log, **parts):
    values = Imagined(rollouts=10, horizon=20)
    built = recipes.gamps(log, GAME.task(), **({"values": values, "learning_rate": 0.08} | parts))
    return built, built.init(GAME.policy(), GAME.linear_model())


@pytest.mark.parametrize("parts", [{}, {"weighting": Ones(), "baseline": NoBaseline()}])
def test_ten_iterations_in_parts_end_where_they_end_in_one_piece(log, parts):
    built, state = built_on(log, **parts)
    whole, info, _ = search.run(built, jax.random.key(1), state, iterations=10)
    found, seen, _ = streaming.run(built, cut(log, 32), jax.random.key(1), state, iterations=10)
    np.testing.assert_allclose(found.policy.weights, whole.policy.weights, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(seen.gradient_norm, info.gradient_norm, rtol=1e-4)
    np.testing.assert_allclose(seen.ess, info.ess, rtol=1e-4)
    np.testing.assert_allclose(seen.model_loss, info.model_loss, rtol=1e-3)
    for a, b in zip(jax.tree.leaves(found.model), jax.tree.leaves(whole.model), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


def test_ratios_beyond_any_float_add_up(log):
    """Log-ratios of hundreds, different in each part: the scale is carried apart."""
    far = eqx.tree_at(lambda p: p.log_std, GAME.policy(), jnp.full(1, 2.5))
    shifted = dataclasses.replace(log, behaviour_log_prob=log.behaviour_log_prob - 40.0)
    built, state = built_on(shifted, weighting=Ones())
    state = state._replace(policy=far)
    whole, info, _ = search.run(built, jax.random.key(1), state, iterations=1)
    found, seen, _ = streaming.run(built, cut(shifted, 30), jax.random.key(1), state, iterations=1)
    assert info.log_scale[0] > 100
    np.testing.assert_allclose(seen.log_scale, info.log_scale, rtol=1e-5)
    np.testing.assert_allclose(found.policy.weights, whole.policy.weights, rtol=1e-4, atol=1e-5)


def test_some_shards_are_an_unbiased_gradient(log):
    """The mean over all choices of two of three unequal parts is the whole, exactly.

    And what `run` draws is one of these choices, each of them for some key.
    """
    parts = cut(log, 32)
    built, state = built_on(
        log, weighting=Ones(), baseline=NoBaseline(), fit=Keep(), values=EpisodeReturn()
    )

    def gradient(state):
        """The first moment of Adam after a step is a tenth of the gradient."""
        return np.asarray(state.optimiser.mu.weights).ravel()

    def of(indices, count=None):
        now = jax.random.fold_in(jax.random.key(1), 0)
        return gradient(streaming.step(built, now, state, parts.only(indices), count=count)[0])

    choices = np.stack([of(pair, count=90 * 2 / 3) for pair in ([0, 1], [0, 2], [1, 2])])
    np.testing.assert_allclose(choices.mean(axis=0), of([0, 1, 2]), rtol=1e-5)
    met = set()
    for seed in range(12):
        found, _, _ = streaming.run(built, parts, jax.random.key(seed), state, iterations=1, some=2)
        apart = np.abs(choices - gradient(found)).max(axis=1)
        assert apart.min() <= 1e-6 * np.abs(choices).max()
        met.add(int(apart.argmin()))
    assert met == {0, 1, 2}


def test_what_looks_at_the_whole_log_is_refused(log):
    for parts, field in (
        ({"fit": Minibatches()}, "fit"),
        ({"weighting": Mixed()}, "weighting"),
        ({"largest_kl": 0.1}, "largest_kl"),
        ({"pairs": AllActions()}, "pairs"),
        ({"ratio": self_normalise}, "ratio"),
        ({"sample": Some(3)}, "sample"),
    ):
        built, state = built_on(log, **parts)
        with pytest.raises(SettingError, match=field):
            streaming.run(built, cut(log, 30), jax.random.key(0), state, iterations=1)
    built, state = built_on(log)
    with pytest.raises(SettingError, match="some"):
        streaming.run(built, cut(log, 30), jax.random.key(0), state, iterations=1, some=9)


def test_shards_on_disk_are_the_log(log, tmp_path):
    """Written by episodes, in buckets of their length; the same policy as of the log in memory."""
    lengths = np.asarray(log.lengths)
    episodes = [
        Episode(
            np.asarray(log.observations[i, : n + 1]),
            np.asarray(log.actions[i, :n]),
            np.asarray(log.rewards[i, :n]),
            np.asarray(log.behaviour_log_prob[i, :n]),
            bool(log.terminated[i]),
        )
        for i, n in enumerate(lengths)
    ]
    shards = datasets.write_shards(episodes, tmp_path / "shards", steps=60)
    assert len(shards) > 3
    order = np.concatenate([shards.numbers(i) for i in range(len(shards))])
    built, state = built_on(jax.tree.map(lambda x: x[order], log))
    whole, _, _ = search.run(built, jax.random.key(1), state, iterations=5)
    # A block of noise must not be larger than a shard, or it would differ: 60 steps hold one.
    built = dataclasses.replace(built, values=Imagined(rollouts=10, horizon=20, block=100))
    whole, _, _ = search.run(built, jax.random.key(1), state, iterations=5)
    found, _, _ = streaming.run(built, shards, jax.random.key(1), state, iterations=5)
    np.testing.assert_allclose(found.policy.weights, whole.policy.weights, rtol=1e-4, atol=1e-5)
    fewer, _, _ = streaming.run(built, shards, jax.random.key(1), state, iterations=3, some=2)
    assert np.isfinite(np.asarray(fewer.policy.weights)).all()


@pytest.mark.full
def test_the_command_streams_to_the_same_policy(tmp_path, monkeypatch):
    """In processes of their own, as a user has it: in single precision."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    # Episodes of one length: shards then keep the order of the log, and every step its noise.
    log = collect(TwoTanks(), tanks.policy(), jax.random.key(2), n=40, steps=8)
    assert bool(log.mask.all())
    datasets.save("tanks/stream-v0", log, tanks.policy())
    words = ["train", "tanks/stream-v0", "--task", "gamps.envs.tanks:task", "--recipe", "ml",
             "--model", "linear", "--iterations", "4"]  # fmt: skip

    def gamps(*words):
        line = [sys.executable, "-c", "from gamps.cli import main; main()", *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    assert gamps(*words, "--out", tmp_path / "memory").returncode == 0
    streamed = gamps(*words, "--out", tmp_path / "disk", "--stream")
    assert streamed.returncode == 0, streamed.stderr
    last = [json.loads((tmp_path / run / "last.json").read_text()) for run in ("memory", "disk")]
    for a, b in zip(*(jax.tree.leaves(rebuild(policy)) for policy in last), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert np.abs(rebuild(last[0]).weights - tanks.policy().weights).max() > 0.05
    network = [*words[:-4], "--model", "network", "--stream", "--out", tmp_path / "unmade"]
    assert "Minibatches needs the whole log" in gamps(*network).stderr
    assert not (tmp_path / "unmade").exists()


def test_noise_far_into_a_log_is_that_of_its_start():
    """Where steps times rollouts would not fit 32 bits: whole starts are turned, no halves."""
    numbers = jnp.arange(20.0).reshape(1, 20)
    noise = Noise(numbers, numbers[None], numbers[None])
    for before in (3, 300_000_007, 2**31 - 1):
        found = _turned(noise, jnp.asarray(before, jnp.int32), 20, 4).first[0]
        np.testing.assert_array_equal(found, np.roll(np.arange(20.0), -(before % 5) * 4))
