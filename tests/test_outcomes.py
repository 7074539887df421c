"""Reward and termination that are fitted to a log, against the functions that made it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets
from gamps.envs import Minigolf, TwoTanks, tanks
from gamps.models import learned_task, quality
from gamps.trajectories import Episode, from_episodes

KEY = jax.random.key(2)
GOLF = Minigolf()


def test_tanks_have_a_reward_that_can_be_told():
    log = datasets.collect(TwoTanks(), tanks.policy(), KEY, n=100, steps=30)
    task, found = learned_task(KEY, log, 0.9)
    assert found.reward > 0.99
    assert found.ends is None
    assert float(task.discount) == pytest.approx(0.9)
    fresh = datasets.collect(TwoTanks(), tanks.policy(), jax.random.key(9), n=100, steps=30)
    assert quality(task, fresh).reward > 0.99


def test_noise_is_not_told():
    log = datasets.collect(TwoTanks(), tanks.policy(), KEY, n=60, steps=30)
    noise = jnp.asarray(np.random.default_rng(0).normal(size=log.rewards.shape), jnp.float32)
    _, found = learned_task(KEY, dataclasses.replace(log, rewards=noise), 0.9)
    assert found.reward < 0.1


def test_ends_of_minigolf_are_told_where_the_log_shows_where_they_led():
    log = datasets.collect(GOLF, GOLF.policy(), KEY, n=600, steps=20)
    _, found = learned_task(KEY, log, 0.99, GOLF.model_features)
    assert found.ends is not None
    assert found.ends > 0.9
    assert found.false_ends < 0.05


def test_tables_of_numbered_states():
    """The reward is of the state that is led to; the last state ends an episode."""
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(200):
        states = [0]
        while states[-1] != 3 and len(states) < 9:
            states.append(int(rng.integers(0, 4)))
        n = len(states) - 1
        rewards = [1.0 * (s == 3) - 0.5 * (s == 1) for s in states[1:]]
        actions = rng.integers(0, 2, n)
        episodes.append(Episode(states, actions, rewards, np.full(n, -0.7), states[-1] == 3))
    task, found = learned_task(KEY, from_episodes(episodes), 0.9)
    assert found == pytest.approx((1.0, 1.0, 0.0))
    one = [jnp.asarray(x) for x in (0, 1, 3)]
    assert float(task.reward(*one)) == pytest.approx(1.0)
    assert bool(task.terminal(*one))
