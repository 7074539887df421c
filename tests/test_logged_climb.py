"""Climbing on the log alone: advantages, what V knows, and whether its gains come true."""

import dataclasses
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets
from gamps._utils.networks import MLP
from gamps.envs import Minigolf, TwoTanks, tanks
from gamps.policies import natural_units
from gamps.search import logged_climb
from gamps.search.values import ValueNetwork, advantages, logged_advantages, value_network, value_of
from gamps.trajectories import first_steps

KEY = jax.random.key(11)
GOLF = Minigolf()


@pytest.fixture(autouse=True)
def reduced(monkeypatch):
    """The standing tier makes a third of the updates; GAMPS_FULL=1 makes all."""
    if not os.environ.get("GAMPS_FULL"):
        monkeypatch.setattr(advantages, "UPDATES", 1_600)
        monkeypatch.setattr(advantages, "REFIT_UPDATES", 270)


@pytest.fixture(scope="module")
def golf():
    return datasets.collect(GOLF, GOLF.policy(), KEY, n=2_000, steps=20)


class From(Minigolf):
    """Games that start at one place."""

    place: float = 10.0

    def initial(self, rng, params=None):
        return jnp.full((1,), self.place)


def moved(policy, by):
    """The same policy, its weights all larger."""
    return dataclasses.replace(policy, weights=policy.weights * by)


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("trace", [0.0, 0.7, 1.0])
def test_advantages_are_sums_of_surprises(golf, trace, other):
    """Step by step in a loop, games of all lengths, some ended and some cut off."""
    steps = 7
    log = first_steps(jax.tree.map(lambda x: x[:40], golf), steps)
    assert int(log.terminated.sum()) > 0
    assert len(set(np.asarray(log.lengths).tolist())) > 3
    assert int(log.lengths.max()) == steps  # nothing follows the last step of the array
    network = MLP(KEY, (2, 8, 1))
    value = ValueNetwork(network, jnp.array([[5.0, 3.0], [4.0, 2.0]]), jnp.array([-20.0, 9.0]))
    policy = moved(GOLF.policy(), 1.3) if other else None
    found = np.asarray(logged_advantages(value, log, 0.9, trace, policy))
    left = [sum(0.9**k for k in range(steps - t)) for t in range(steps + 1)]
    for i in range(40):
        n = int(log.lengths[i])
        inputs = [jnp.append(log.observations[i, t], left[t]) for t in range(n + 1)]
        v = [float(value(x)) for x in inputs[:-1]] + [0.0]
        surprise = [float(log.rewards[i, t]) + 0.9 * v[t + 1] - v[t] for t in range(n)]
        ratio = np.ones(n)
        if other:
            at = [policy.log_prob(log.states[i, t], log.actions[i, t]) for t in range(n)]
            ratio = np.exp(np.asarray(at) - np.asarray(log.behaviour_log_prob[i, :n]))
        missed, each = 0.0, []
        for t in reversed(range(n)):
            each.insert(0, surprise[t] + 0.9 * trace * missed)
            missed = min(ratio[t], 1.5) * surprise[t] + 0.9 * trace * min(ratio[t], 1.0) * missed
        np.testing.assert_allclose(found[i, :n], each, rtol=1e-3, atol=1e-3)
        assert (found[i, n:] == 0).all()


def test_the_network_knows_what_a_position_is_worth(golf):
    """Against fresh games from five positions; four errors of the mean and a tenth of the range."""
    value = value_network(KEY, golf, 0.99)
    total = float(jnp.sum(0.99 ** jnp.arange(20)))
    for position in (3.0, 7.0, 11.0, 15.0, 19.0):
        fresh = datasets.collect(From(place=position), GOLF.policy(), KEY, n=2_000, steps=20)
        returns = np.asarray(fresh.rewards) @ 0.99 ** np.arange(20)
        assert float(fresh.observations[0, 0, 0]) == position
        known = float(value(jnp.array([position, total])))
        assert abs(known - returns.mean()) < 4 * returns.std() / 2_000**0.5 + 4.0


def test_the_network_follows_another_policy(golf):
    """What fresh games of it earn; V of the policy that made the log is further off."""
    other = moved(GOLF.policy(), 1.2)
    before = value_network(KEY, golf, 0.99)
    value = value_of(KEY, before, golf, 0.99, other)
    total = float(jnp.sum(0.99 ** jnp.arange(20)))
    off = []
    for position in (3.0, 7.0, 11.0, 15.0, 19.0):
        fresh = datasets.collect(From(place=position), other, KEY, n=2_000, steps=20)
        true = (np.asarray(fresh.rewards) @ 0.99 ** np.arange(20)).mean()
        off.append([float(v(jnp.array([position, total]))) - true for v in (before, value)])
    of_log, of_other = np.sqrt((np.asarray(off) ** 2).mean(axis=0))
    assert of_other < 0.6 * of_log


def climbed(log, policy, clip=0.5, times=1):
    policy = dataclasses.replace(policy, learn_std=False)
    units = natural_units(policy, log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logged_climb, "TIMES", times)
        return logged_climb.climb_on_log(KEY, policy, units, log, 0.99, trace=0.6, clip=clip)


def test_gains_of_nothing_are_not_claimed():
    """Rewards that no action changes: a gain within four errors, where learning sees one."""
    log = datasets.collect(GOLF, GOLF.policy(), KEY, n=300, steps=20)
    noise = jnp.asarray(np.random.default_rng(0).normal(size=log.rewards.shape), jnp.float32)
    blind = dataclasses.replace(log, rewards=jnp.where(log.mask, noise, 0.0))
    learned = jax.tree.map(lambda x: jnp.repeat(x, 2, axis=0), blind)
    found = climbed(blind, GOLF.policy())
    assert abs(found.gain) < 4 * found.error
    # Of every episode a copy is learned from: what the rest claims is then what it was bent to.
    bent = climbed(learned, GOLF.policy())
    assert bent.gain > max(found.gain, 0.0)


def test_gains_come_true_on_the_tanks():
    """With a tight clip, and as in the default."""
    log = datasets.collect(TwoTanks(), tanks.policy(), KEY, n=200, steps=30)
    ways = ((0.05, 1), (0.5, logged_climb.TIMES))
    both = [climbed(log, tanks.policy(), clip, times) for clip, times in ways]
    found, true = both[1], []
    for policy in (tanks.policy(), found.policy):
        fresh = datasets.collect(TwoTanks(), policy, jax.random.key(77), n=2_000, steps=30)
        true.append(np.asarray(fresh.rewards) @ 0.99 ** np.arange(30))
    gained = true[1] - true[0]
    error = np.hypot(found.error, gained.std() / len(gained) ** 0.5)
    assert found.gain > 5 * found.error
    assert gained.mean() > found.gain / 2 - 4 * error

    # A tighter clip stays nearer.
    states, logging = log.states.reshape(-1, 2), tanks.policy()
    near, far = (
        float(jnp.mean(jax.vmap(lambda s, p=each.policy: p.divergence(logging, s))(states)))
        for each in both
    )
    assert 0 < 3 * near < far < 0.5  # with the noise of the log
    assert eqx.tree_equal(found.policy.log_std, logging.log_std)
