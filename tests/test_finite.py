"""Finite problems: a table that is not trusted, and values of a log by dynamic programming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps.evaluation.tabular_q import fitted_table
from gamps.exact import tabular
from gamps.learner import FiniteLearner, Settings, is_finite, learn
from gamps.learner.finite import DISTRUST, Table
from gamps.models import learned_task
from gamps.policies import Boltzmann, OneHot
from gamps.tasks import Task
from gamps.trajectories import Episode, from_episodes

S, A, T = 6, 3, 5
RNG = np.random.default_rng(4)
P = RNG.dirichlet(0.3 * np.ones(S), (S, A))
R = RNG.normal(size=(S, A))
LOGITS = RNG.normal(size=(S, A))
PI = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
DISCOUNT = 0.9


def collected(n, seed=0, forbidden=None):
    """Episodes of a random problem; state 0 ends them."""
    rng, episodes = np.random.default_rng(seed), []
    pi = PI.copy()
    if forbidden is not None:
        pi[forbidden] = 0.0
        pi = pi / pi.sum(axis=1, keepdims=True)
    for _ in range(n):
        states, actions = [int(rng.integers(1, S))], []
        while len(actions) < T and states[-1] != 0:
            actions.append(int(rng.choice(A, p=pi[states[-1]])))
            states.append(int(rng.choice(S, p=P[states[-1], actions[-1]])))
        density = np.log(pi[states[:-1], actions])
        rewards = R[states[:-1], actions]
        episodes.append(Episode(states, actions, rewards, density, states[-1] == 0))
    return from_episodes(episodes, length=T)


def task():
    rewards = jnp.asarray(R)
    return Task(lambda s, a, n: rewards[s, a], DISCOUNT, lambda s, a, n: n == 0)


def behaviour():
    return Boltzmann(jnp.asarray(LOGITS), OneHot(S))


def exact(pi, steps=T):
    """Of the true problem, from a uniform start."""
    going = P.copy()
    going[:, :, 0] = 0.0
    initial = np.r_[0.0, np.full(S - 1, 1 / (S - 1))]
    mdp = tabular.MDP(*(jnp.asarray(x) for x in (going, R, initial, DISCOUNT)))
    return float(tabular.expected_return(mdp, jnp.asarray(pi), horizon=steps))


def test_values_of_a_log_are_those_of_its_frequencies():
    """Against dynamic programming in the finite problem that the log makes, pair by pair."""
    log, policy = collected(400), behaviour()
    fitted = fitted_table(policy, log, DISCOUNT, OneHot(S), T)
    mask = np.asarray(log.mask)
    states, actions, following = (
        np.asarray(x)[mask] for x in (log.states, log.actions, log.next_states)
    )
    counts, rewards = np.zeros((S, A, S)), np.zeros((S, A))
    np.add.at(counts, (states, actions, following), 1.0)
    np.add.at(rewards, (states, actions), np.asarray(log.rewards)[mask])
    n = counts.sum(axis=2)
    going = counts / np.maximum(n, 1)[..., None]
    going[:, :, 0] = 0.0
    initial = jnp.full(S, 1 / S)
    means = jnp.asarray(rewards / np.maximum(n, 1))
    mdp = tabular.MDP(jnp.asarray(going), means, initial, jnp.asarray(DISCOUNT))
    for left in (1, 3, T):
        q = np.asarray(tabular.action_values(mdp, jnp.asarray(PI), horizon=left))
        np.testing.assert_allclose(fitted.q_values[left - 1][n > 0], q[n > 0], atol=1e-4)
    q, v = fitted.at(jax.random.key(0), log)
    whole = fitted.q_values[T - 1, states[0]]
    np.testing.assert_allclose(q[0, 0], whole[actions[0]])
    np.testing.assert_allclose(v[0, 0], PI[states[0]] @ whole, rtol=1e-5)


def test_nothing_follows_an_end():
    """Though in the same state others go on. A state that was not seen is worth the mean of all."""
    ended, other = Episode([1, 2], [0], [1.0], [0.0], True), Episode([2, 0], [0], [5.0], [0.0])
    policy = Boltzmann(jnp.zeros((3, 1)), OneHot(3))
    fitted = fitted_table(policy, from_episodes([ended, other]), 0.9, OneHot(3), 3)
    one, two = 5.0 + 0.9 * 3.0, 5.0 + 0.9 * (1.0 + 5.0 + 0.9 * 3.0) / 2
    expected = [[3.0, 1.0, 5.0], [(1 + one) / 2, 1.0, one], [(1 + two) / 2, 1.0, two]]
    np.testing.assert_allclose(fitted.q_values[:, :, 0], expected)


def test_the_table_is_distrusted_by_half_a_transition():
    """One transition of reward two, of an episode whose worst return is minus one."""
    log = from_episodes(
        [Episode([1, 0], [0], [2.0], [0.0], True), Episode([2, 0], [1], [-1.0], [0.0], True)]
    )
    rewards = Task(lambda s, a, n: jnp.where(s == 1, 2.0, -1.0), 0.9, lambda s, a, n: n == 0)
    q = Table(log, rewards, (3, 2)).values(np.full((3, 2), 0.5), 4)
    assert q[1, 0] == pytest.approx((2.0 - DISTRUST) / (1 + DISTRUST))
    assert q[2, 1] == pytest.approx(-1.0)
    assert q[1, 1] == pytest.approx(-1.0)  # never tried


@pytest.mark.parametrize("known", [True, False])
def test_a_large_log_leads_near_the_optimum(known):
    log = collected(1_500)
    given = task() if known else learned_task(jax.random.key(0), log, DISCOUNT)[0]
    outcome = learn(log, given, behaviour() if known else None)
    pi = np.asarray(jax.nn.softmax(outcome.policy.weights, axis=1))
    best = max(
        exact(np.eye(A)[np.array(choice)])
        for choice in np.stack(np.meshgrid(*[range(A)] * S), -1).reshape(-1, S)
    )
    before = exact(PI)
    assert exact(pi) > before + 0.9 * (best - before)
    assert outcome.run.best == Settings().iterations


def test_what_was_never_tried_is_not_done():
    forbidden = np.zeros((S, A), bool)
    forbidden[np.arange(S), R.argmax(axis=1)] = True  # though nothing would pay more at once
    outcome = learn(collected(800, forbidden=forbidden), task())
    pi = np.asarray(jax.nn.softmax(outcome.policy.weights, axis=1))
    assert pi[1:][forbidden[1:]].max() < 1e-6


def test_it_goes_on_where_it_was_left():
    log = collected(300)
    assert is_finite(behaviour(), log)
    learner = FiniteLearner(jax.random.key(0), log, task(), behaviour())
    progress = learner.start()
    for _ in range(3):
        progress, metrics = learner.step(progress)
    again, _ = learner.step(learner.like(progress.run)._replace(state=progress.state))
    once, _ = learner.step(progress)
    assert np.array_equal(again.best.weights, once.best.weights)
    assert metrics["estimate"] == progress.run.estimate
