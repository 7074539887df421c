"""Choices: the exact gradient, a policy told by its probabilities, and the default on them."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.users.logs import propensities, ward_controller
from benchmarks.users.plants import Ward, returns, run
from gamps import evaluation
from gamps.learner import Settings, learn
from gamps.models import Tabular, WithChoice
from gamps.policies import Affine, Boltzmann, OneHot, Sharpened, estimation, log_probs
from gamps.policies.choice_fits import recognised_choices, unfitted_choices
from gamps.search.gradients import AllActions, off_policy
from gamps.search.importance import Ratios
from gamps.tasks import Task
from gamps.trajectories import Episode, flat, from_episodes, split

KEY = jax.random.key(3)
WARD = Ward()


def ward_log(n, seed=1, chosen=propensities):
    log = run(WARD, ward_controller, n, seed)
    episodes = []
    for i, steps in enumerate(log.lengths):
        seen, actions = log.observations[i, : steps + 1], log.actions[i, :steps]
        p = chosen(seen[:-1])[np.arange(steps), actions]
        ended = bool(log.ended[i])
        episodes.append(Episode(seen, actions, log.rewards[i, :steps], np.log(p), ended))
    return from_episodes(episodes)


def reward(observation, action, following):
    del observation
    given = 1.0 * ((action == 1) | (action == 3)) + 1.0 * (action >= 2)
    ends = 3.0 * (following[3] < -1) - 5.0 * (following[3] > 3)
    return -0.2 * following[3] - 0.05 * given + ends


TASK = Task(reward, 0.95, lambda s, a, n: (n[3] < -1) | (n[3] > 3))


def test_the_sum_over_choices_is_exact():
    """Against the derivative of Σ_s Σ_a π(a|s) Q(s, a) at the drawn states, for any Q."""
    log = ward_log(40)
    weights = jax.random.normal(KEY, (11, 4))
    policy = Boltzmann(weights, Affine())
    ratios = Ratios.of(jnp.zeros(log.mask.shape), log.mask, jnp.asarray(1.0))
    pairs, at = AllActions(30, 4)(KEY, policy, Tabular(jnp.zeros((1, 1, 1))), TASK, log, ratios)
    q = jnp.sin(5.0 * pairs.states.sum(axis=-1) + pairs.actions)
    np.testing.assert_allclose(at.discounted_rho.sum(axis=1), 1.0, rtol=1e-5)
    found = off_policy(policy, pairs, at.discounted_rho * q).weights

    def worth(weights):
        log_p = log_probs(Boltzmann(weights, Affine()), pairs)
        return jnp.sum(jnp.exp(log_p) * q) / len(q)

    np.testing.assert_allclose(found, jax.grad(worth)(weights), rtol=1e-4, atol=1e-6)


def test_a_sharper_policy_has_larger_logits():
    policy = Boltzmann(jnp.array([[0.0, 1.0]]), OneHot(1))
    sharper = Sharpened(2.0)(policy, jnp.asarray(0))
    assert sharper.weights.tolist() == [[0.0, 2.0]]
    assert policy.choices == 2


@pytest.mark.parametrize("known", [True, False])
def test_a_softmax_is_told_by_its_probabilities(known):
    """The one that made the log to 1e-3; of one that is no softmax the fit is given back."""
    true = Boltzmann(0.5 * jax.random.normal(KEY, (11, 4)), Affine())

    def chosen(observations):
        each = jax.vmap(jax.vmap(true.log_prob, (None, 0)), (0, None))
        return np.exp(each(jnp.asarray(observations), jnp.arange(4)))

    log = ward_log(300, chosen=chosen if known else propensities)
    found = recognised_choices(unfitted_choices(KEY, log), log)
    off = np.abs(np.asarray(log_probs(found, log)) - np.asarray(log.behaviour_log_prob))
    assert (off[np.asarray(log.mask)].max() < 1e-3) == known


def test_a_table_is_told_by_its_probabilities_and_takes_nothing_else():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3, 5.0), 5)
    p[:, 2] = 0.0
    p = p / p.sum(axis=1, keepdims=True)
    states = rng.integers(0, 4, (50, 9))
    actions = (rng.random((50, 8)) > p[states[:, :-1], 0]).astype(int)
    both = zip(states, actions, strict=True)
    episodes = [Episode(s, a, np.zeros(8), np.log(p[s[:-1], a])) for s, a in both]
    log = from_episodes([*episodes, Episode([3, 4], [1], [0.0], [np.log(p[3, 1])])])
    fitted = estimation.fit(KEY, log, "choices")
    exact = estimation.recognised(fitted, log)
    for policy, off in ((fitted, 0.2), (exact, 1e-4)):
        table = np.asarray(jax.nn.softmax(policy.weights, axis=1))
        np.testing.assert_allclose(table[:4, :2], p[:4, :2], atol=off)
    assert estimation.fit(KEY, from_episodes(episodes), "choices", space=log).weights.shape == (
        5,
        2,
    )
    assert float(exact.log_prob(jnp.asarray(0), jnp.asarray(2))) == -np.inf  # there is no third
    assert policy.weights.shape == (5, 2)  # the fifth state was never acted in
    np.testing.assert_allclose(table[4], 0.5)


def test_a_network_of_choices_is_fitted():
    log = ward_log(400)
    network, affine = (estimation.fit(KEY, log, kind) for kind in ("network", "choices"))
    mask = np.asarray(log.mask)
    likely = [np.asarray(log_probs(p, log))[mask].mean() for p in (network, affine)]
    assert likely[0] > likely[1] - 0.01
    x = WithChoice(4)(flat(log.states)[0], jnp.asarray(2))
    assert x[-4:].tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.full
def test_the_default_learns_treatments_that_can_be_certified():
    learned, held_out = split(ward_log(2_000), 0.5)
    short = Settings(iterations=40, states=60, horizon=8, roll=4, members=2)
    outcome = learn(learned, TASK, settings=short)
    policy = jax.jit(jax.vmap(outcome.policy.act))

    def act(observations, rng):
        noise = rng.normal(size=(len(observations), 1))
        return np.asarray(policy(jnp.asarray(observations, jnp.float32), jnp.asarray(noise)))

    gained = returns(WARD, run(WARD, act, 5_000, 7)) - returns(
        WARD, run(WARD, ward_controller, 5_000, 7)
    )
    assert gained.mean() > 0.3
    found = evaluation.evaluate(outcome.ladder, learned, held_out, TASK, details=False)
    assert found.verdict.word == evaluation.DEPLOY
    again = learn(learned, TASK, settings=short)
    assert eqx.tree_equal(dataclasses.replace(again.policy), outcome.policy)
