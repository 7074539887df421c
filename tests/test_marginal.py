"""Ratios of states: exact where they are known, found from a log, and doubted where they fail."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import truth
from gamps import evaluation
from gamps.envs import TwoTanks, collect, tanks
from gamps.evaluation import StateRatios
from gamps.evaluation.agreement import _in_errors, disagreement
from gamps.evaluation.estimators import doubly_robust, evidence
from gamps.evaluation.marginal import _Means, by_states, carrying
from gamps.policies import LinearGaussianPolicy

STATES, ACTIONS, STEPS, END, DISCOUNT = 3, 2, 3, 2, 0.9
KEY = jax.random.key(5)


def problem(seed):
    """An MDP that never starts in its end, the same with nothing after it, and two policies."""
    mdp = truth.random_mdp(seed, STATES, ACTIONS, DISCOUNT)
    cut = truth.cut_at(mdp, END)
    mdp = eqx.tree_at(lambda one: one.initial, mdp, cut.initial)
    return mdp, cut, [truth.random_policy(seed + k, STATES, ACTIONS) for k in (1, 0)]


def state_ratios(mdp, policy, behaviour, steps=STEPS):
    """`[T, S]`, exactly, by both policies' masses going forwards."""
    masses = []
    for one in (policy, behaviour):
        pi, mass, of_each = truth.tables(one)[0], mdp.initial, []
        for _ in range(steps):
            of_each.append(mass)
            mass = jnp.einsum("s,sa,sat->t", mass, pi, mdp.transitions)
        masses.append(jnp.stack(of_each))
    return np.asarray(jnp.where(masses[1] > 0, masses[0] / masses[1], 0.0))


def values(mdp, policy, steps=STEPS):
    """`[T, S, A]` Q and `[T, S]` V of what is left of an episode, exactly."""
    pi, q, v = truth.tables(policy)[0], [], jnp.zeros(STATES)
    for _ in range(steps):
        q.insert(0, mdp.rewards + mdp.discount * mdp.transitions @ v)
        v = jnp.sum(pi * q[0], axis=1)
    return jnp.stack(q), jnp.stack([jnp.sum(pi * one, axis=1) for one in q])


@pytest.mark.exact
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wrong", ["ratios", "values", "neither"])
def test_doubly_robust_by_states_is_exact_if_ratios_or_values_are(seed, wrong):
    """The expectation over every trajectory is the policy's value."""
    whole, mdp, (policy, behaviour) = problem(seed)
    enumerated = truth.enumerate_trajectories(STATES, ACTIONS, STEPS, END)
    log, probability = truth.enumerated_log(whole, behaviour, enumerated)
    random = np.random.default_rng(seed)
    q, v = values(mdp, policy)
    exact = float(mdp.initial @ v[0])
    weights = state_ratios(mdp, policy, behaviour)
    if wrong == "values":
        q = jnp.asarray(random.normal(size=q.shape))
        v = jnp.sum(truth.tables(policy)[0] * q, axis=2)
    if wrong == "ratios":
        weights = random.uniform(0, 2, weights.shape)
    t, states, actions = np.arange(STEPS), np.asarray(log.states), np.asarray(log.actions)
    steps = np.exp(
        np.asarray(jax.vmap(jax.vmap(policy.log_prob))(log.states, log.actions))
        - np.asarray(log.behaviour_log_prob)
    )
    found = evidence(
        policy, log, DISCOUNT, q_values=np.asarray(q)[t, states, actions],
        state_values=np.asarray(v)[t, states],
    )  # fmt: skip
    ratios = np.where(log.mask, weights[t, states] * steps, 0.0)
    numbers = doubly_robust(by_states(found, ratios)).numerators.sum(axis=1)
    assert float(probability @ numbers) == pytest.approx(exact, abs=1e-10)


def collected(mdp, behaviour, n, key):
    return collect(truth.TableEnv(mdp, END), behaviour, key, n=n, steps=6)


def test_a_log_shows_how_likely_states_are():
    """Episodes end here, more of them by one policy: what is left need not have mean one."""
    whole, cut, (policy, behaviour) = problem(8)
    log, other = (collected(whole, behaviour, 20_000, key) for key in jax.random.split(KEY))
    found = StateRatios(KEY, log)(policy, other)
    exact = state_ratios(cut, policy, behaviour, 6)
    mask, states = np.asarray(other.mask), np.asarray(other.states)
    steps = np.exp(
        np.asarray(jax.vmap(jax.vmap(policy.log_prob))(other.states, other.actions))
        - np.asarray(other.behaviour_log_prob)
    )
    expected = exact[np.arange(6), states] * steps
    assert exact.max() > 1.3
    assert not mask.all()
    off = np.where(mask, found - expected, 0.0)
    assert np.sqrt((off**2).sum() / (expected**2 * mask).sum()) < 0.04


def seen_by(log, hidden):
    """The log of the tanks, with or without the first level; the controller looks at the second."""
    return (
        eqx.tree_at(lambda one: one.observations, log, log.observations[..., 1:]) if hidden else log
    )


def pump(offset, hidden):
    gains = jnp.asarray(tanks.GAINS, dtype=float).at[-1].add(offset)[:, None]
    return LinearGaussianPolicy(
        gains[1:] if hidden else gains, log_std=tanks.policy().log_std, learn_std=False
    )


def tank_log(key, hidden=False, **rest):
    return seen_by(collect(TwoTanks(), tanks.policy(), key, **rest), hidden)


def both_cases(log, hidden=False):
    policies = [pump(offset, hidden) for offset in (0.03, 0.06)]
    return evaluation.markov_cases(policies, log, tanks.DISCOUNT, behaviour=pump(0.0, hidden))


def test_means_of_states_are_believed_as_far_as_the_log_shows():
    """Targets that a state decides, targets that are mere luck, and a state that nobody saw."""
    rng = np.random.default_rng(0)
    states = np.repeat(np.arange(50), 20)
    decided, luck = states / 50.0, rng.exponential(size=len(states))
    line, inside = _Means(states).fit(decided + 0.01 * luck)
    np.testing.assert_allclose(inside, decided + 0.01, atol=0.02)
    np.testing.assert_allclose(line(states), inside)
    np.testing.assert_allclose(line(np.array([50, 99])), inside.mean(), atol=1e-3)
    _, inside = _Means(states).fit(luck)
    assert inside.std() < luck.reshape(50, 20).mean(axis=1).std() / 2


def test_episodes_that_were_cut_off_are_judged_alike():
    """Of four lengths."""
    log = tank_log(KEY, n=200, steps=12)
    lengths = log.n_steps - 2 * (jnp.arange(200)[:, None] % 4)
    log = eqx.tree_at(lambda one: one.mask, log, log.mask & (jnp.arange(log.n_steps) < lengths))
    markov, plain = both_cases(log)
    assert disagreement(markov, plain) is None
    for one in markov:
        assert np.isfinite(one.evidence.rho).all()
        assert evaluation.graded(one.log_ratios).ess > 0.75 * len(one.log_ratios) > 70


def test_steps_that_no_episode_was_seen_at_carry_nothing():
    weights = np.asarray([[1.0, 2.0, 5.0], [1.0, 1.0, 7.0], [1.0, 3.0, 9.0]])
    seen = np.asarray([[True, True, False]] * 3)
    np.testing.assert_allclose(np.exp(carrying(weights, seen)), weights[:, 1])
    seen[0, 1] = False
    np.testing.assert_allclose(np.exp(carrying(weights, seen)), [1.0, 3.0])


@pytest.mark.parametrize("hidden", [False, True])
def test_where_something_is_hidden_estimates_disagree(hidden):
    """Of three Markov logs one may be doubted, two are 1 % likely; of three others all are."""
    doubted = []
    for key in jax.random.split(KEY, 3):
        log = tank_log(key, hidden, n=200, steps=20)
        doubted.append(disagreement(*both_cases(log, hidden)) is not None)
    assert sum(doubted) == 3 if hidden else sum(doubted) <= 1


def test_episodes_of_a_group_are_one_observation():
    one = np.random.default_rng(0).normal(0.3, size=50)
    twice, groups = np.repeat(one, 2), np.repeat(np.arange(50), 2)
    for fitted in (False, True):
        apart = _in_errors(twice, 0 * twice, groups, fitted=fitted)
        np.testing.assert_allclose(apart, _in_errors(one, 0 * one, None, fitted=fitted))


def test_what_is_no_number_is_no_agreement():
    markov, plain = both_cases(tank_log(KEY, n=50, steps=5))
    assert disagreement(markov, plain) is None
    rewards = np.full_like(plain[1].evidence.rewards, np.nan)
    plain[1] = plain[1]._replace(evidence=plain[1].evidence._replace(rewards=rewards))
    assert disagreement(markov, plain) is not None


@pytest.mark.parametrize("grouped", [False, True])
def test_no_episode_is_judged_by_what_was_fitted_to_its_group(grouped):
    """Another reward in one episode changes the Q of other folds, and nothing of its own group."""
    log = tank_log(KEY, n=20, steps=5)
    groups = np.arange(20) // 2 if grouped else None
    own = [0, 1] if grouped else [0]
    other = eqx.tree_at(lambda one: one.rewards, log, log.rewards.at[0].add(100.0))
    first, second = (
        evaluation.markov_cases([pump(0.03, False)], one, tanks.DISCOUNT, groups=groups)[0][
            0
        ].evidence
        for one in (log, other)
    )
    np.testing.assert_array_equal(first.q_values[own], second.q_values[own])
    changed = (first.q_values != second.q_values).any(axis=1)
    assert 20 - changed.sum() == 20 // 5  # one fold
    np.testing.assert_array_equal(first.rho, second.rho)


def test_a_log_that_the_behaviour_made_in_part_has_no_base():
    """Folds without a foreign episode would have one; a base of some episodes fits no evidence."""
    log = tank_log(KEY, n=20, steps=5)
    foreign = log.behaviour_log_prob.at[0].add(-1.0)
    log = eqx.tree_at(lambda one: one.behaviour_log_prob, log, foreign)
    policies = [pump(0.03, False)]
    (case,), _ = evaluation.markov_cases(policies, log, tanks.DISCOUNT, behaviour=pump(0.0, False))
    assert case.base is None
    assert case.improvement.numerators.shape[0] == 20


def test_estimates_by_states_have_no_bias():
    """Of 24 logs, against the exact value; 5 standard errors: a false alarm in a million runs."""
    whole, cut, (policy, behaviour) = problem(8)
    exact = float(cut.initial @ values(cut, policy, 6)[1][0])
    off = []
    for key in jax.random.split(KEY, 24):
        log = collected(whole, behaviour, 60, key)
        (case,), _ = evaluation.markov_cases([policy], log, DISCOUNT)
        numbers = doubly_robust(case.evidence).numerators.sum(axis=1)
        off.append((numbers.mean() - exact) / (numbers.std(ddof=1) / np.sqrt(len(numbers))))
    assert abs(np.mean(off)) < 5 / np.sqrt(len(off))
