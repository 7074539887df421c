"""Off-policy evaluation against enumeration, and what it does with episodes that end early."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import evaluation, exporting
from gamps.deployed import load_policy
from gamps.policies import Boltzmann, LinearGaussian, OneHot
from gamps.trajectories import Episode, from_episodes


def policy(p):
    return Boltzmann(jnp.log(jnp.asarray([[1 - p, p]])), OneHot(1))


def log_of(n, key, p=0.5, steps=3):
    """Bandit steps: the action is the reward."""
    actions = np.asarray(jax.random.bernoulli(key, p, (n, steps))).astype(int)
    density = np.where(actions == 1, np.log(p), np.log(1 - p))
    seen = np.zeros(steps + 1, int)
    return from_episodes(
        [Episode(seen, a, a.astype(float), d) for a, d in zip(actions, density, strict=True)]
    )


def test_estimates_are_within_their_errors_of_the_truth():
    """Three steps of probability .7: 2.1; a z-test of 200 logs, false alarms at 1e-6."""
    found = [
        evaluation.self_normalised(policy(0.7), log_of(400, key), 1.0)
        for key in jax.random.split(jax.random.key(0), 200)
    ]
    means = np.asarray([f.mean for f in found])
    error = means.std(ddof=1) / np.sqrt(len(means))
    # Self-normalised estimates are biased by about one over the number of episodes.
    assert abs(means.mean() - 2.1) < 4.9 * error + 3 / 400
    claimed = np.mean([f.standard_error for f in found])
    assert claimed == pytest.approx(means.std(ddof=1), rel=0.25)


def test_every_outcome_once_is_exact():
    """All eight outcomes, once each, under the uniform policy: the estimate is the expectation."""
    actions = np.asarray(list(itertools.product((0, 1), repeat=3)))
    episodes = [
        Episode(np.zeros(4, int), a, a.astype(float), np.full(3, np.log(0.5))) for a in actions
    ]
    found = evaluation.self_normalised(policy(0.9), from_episodes(episodes), 0.5)
    assert float(found.mean) == pytest.approx(0.9 * (1 + 0.5 + 0.25), abs=1e-12)


def test_a_cut_off_episode_says_nothing_of_later_steps():
    long = Episode(np.zeros(21, int), np.ones(20, int), -np.ones(20), np.full(20, np.log(0.5)))
    short = Episode(np.zeros(3, int), np.ones(2, int), -np.ones(2), np.full(2, np.log(0.5)))
    cut = evaluation.self_normalised(policy(0.5), from_episodes([long, short] * 5), 1.0)
    assert float(cut.mean) == pytest.approx(-20.0)
    ended = short._replace(terminated=True)
    ended = evaluation.self_normalised(policy(0.5), from_episodes([long, ended] * 5), 1.0)
    assert float(ended.mean) == pytest.approx(-11.0)


def test_a_collapse_shows_in_the_effective_number():
    log = log_of(100, jax.random.key(1), steps=10)
    near, far = (evaluation.self_normalised(policy(p), log, 1.0) for p in (0.5, 0.999))
    assert float(near.ess) == pytest.approx(100)
    assert float(far.ess) < 20
    never = Boltzmann(jnp.asarray([[0.0, 0.0]]), OneHot(1), forced=jnp.asarray([1]))
    zeros = from_episodes([Episode(np.zeros(2, int), [0], [1.0], [-0.7])] * 3)
    assert float(evaluation.self_normalised(never, zeros, 1.0).ess) == 0.0


def test_the_most_likely_choice_is_exported(tmp_path):
    """Not the middle of the distribution function, which is the least likely here."""
    made = Boltzmann(jnp.log(jnp.asarray([[0.45, 0.2, 0.35]])), OneHot(1))
    exporting.export(made, log_of(3, jax.random.key(0)), tmp_path / "policy")
    found = load_policy(tmp_path / "policy")
    assert int(found.predict(np.asarray(0))) == 0
    draws = [int(found.sample(np.asarray(0), np.random.default_rng(i))) for i in range(200)]
    assert set(draws) == {0, 1, 2}
    forced = Boltzmann(made.weights, OneHot(1), forced=jnp.asarray([2]))
    assert int(forced.mode(jnp.asarray(0))) == 2
    linear = LinearGaussian(jnp.ones((2, 1)), log_std=jnp.zeros(1))
    assert float(linear.mode(jnp.asarray([3.0]))[0]) == 4.0
