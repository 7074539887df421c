"""The ladder: what lies between two policies, bounds that hold together, and who is chosen."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from gamps import evaluation
from gamps.errors import SettingError
from gamps.evaluation import Evidence
from gamps.evaluation.estimates import Case, as_behaviour
from gamps.policies import (
    Boltzmann,
    LinearGaussianPolicy,
    Mixture,
    MLPGaussianPolicy,
    OneHot,
    between,
)
from truth import exact_limits

KEY = jax.random.key(3)


def gaussian(weights, std, **rest):
    return LinearGaussianPolicy(
        jnp.asarray(weights)[:, None], log_std=jnp.log(jnp.full(1, std)), **rest
    )


def table(*rows):
    return Boltzmann(jnp.asarray(rows, float), OneHot(len(rows)))


def test_between_gaussians_mean_and_deviation_go_their_own_way():
    start, end = gaussian([1.0, 2.0], 1.0), gaussian([3.0, -2.0], 0.25, learn_std=False)
    way = between(start, end, 0.25, 0.5)
    np.testing.assert_allclose(way.weights.ravel(), [1.5, 1.0])
    np.testing.assert_allclose(jnp.exp(way.log_std), 0.5, rtol=1e-6)
    for policy, share in ((start, 0.0), (end, 1.0)):
        same = between(start, end, share)
        x, a = jnp.asarray([0.3]), jnp.asarray([0.7])
        assert same.log_prob(x, a) == pytest.approx(float(policy.log_prob(x, a)), rel=1e-6)
    networks = [
        MLPGaussianPolicy.create(k, observations=2, actions=1) for k in jax.random.split(KEY)
    ]
    assert isinstance(between(*networks, 0.5), MLPGaussianPolicy)


def test_between_softmax_policies_logits_are_averaged():
    start, end = table([0.0, 0.0], [0.0, 2.0]), table([2.0, 0.0], [0.0, 4.0])
    way = between(start, end, 0.5)
    odds = way.log_prob(jnp.asarray(0), jnp.asarray(0)) - way.log_prob(
        jnp.asarray(0), jnp.asarray(1)
    )
    assert float(odds) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (gaussian([0.0, 0.0], 1.0), MLPGaussianPolicy.create(KEY, observations=1, actions=1)),
        (table([0.0, 1.0]), Boltzmann(jnp.ones((1, 2)), lambda s: jnp.ones(1))),
    ],
)
def test_policies_of_different_kinds_are_mixed(start, end):
    assert isinstance(between(start, end, 0.5), Mixture)


def test_a_mixture_acts_as_its_density_says():
    mixed = Mixture(gaussian([0.0, -1.0], 0.5), gaussian([0.0, 2.0], 0.3), 0.3)
    x = jnp.zeros(1)
    noise = jax.random.normal(KEY, (4_000, mixed.noise_size))
    drawn = np.asarray(jax.vmap(lambda z: mixed.act(x, z))(noise)).ravel()

    def distribution(a):
        return 0.7 * scipy.stats.norm.cdf(a, -1, 0.5) + 0.3 * scipy.stats.norm.cdf(a, 2, 0.3)

    assert scipy.stats.kstest(drawn, distribution).pvalue > 1e-3
    grid = jnp.linspace(-4, 4, 2001)
    density = jnp.exp(jax.vmap(lambda a: mixed.log_prob(x, a[None]))(grid))
    assert float(jnp.trapezoid(density, grid)) == pytest.approx(1.0, abs=1e-3)
    assert float(mixed.mode(x)[0]) == pytest.approx(-1.0)


def test_a_share_beyond_the_way_is_refused():
    with pytest.raises(SettingError, match="share"):
        between(table([0.0, 1.0]), table([1.0, 0.0]), 1.5)


def test_the_critical_value_of_one_and_of_independent_policies():
    """In closed form: Student's quantile, and for many episodes that of the largest normal."""
    numbers = np.random.default_rng(0).normal(size=(12, 1))
    expected = scipy.stats.t.ppf(0.95, 11)
    assert evaluation.critical_value(numbers, 0.95) == pytest.approx(expected, rel=0.02)
    assert evaluation.critical_value(numbers.repeat(6, axis=1), 0.95) == pytest.approx(
        expected, rel=0.02
    )
    many = scipy.stats.ortho_group.rvs(400, random_state=0)[:, :6]
    many = many - many.mean(axis=0)
    expected = scipy.stats.norm.ppf(0.95 ** (1 / 6))
    assert evaluation.critical_value(many, 0.95) == pytest.approx(expected, rel=0.03)


def test_bounds_of_several_policies_hold_together():
    """All means are zero: some bound is above it in 5 % of the logs, by the binomial at 99.9 %."""
    generator, n, logs, wrong = np.random.default_rng(1), 40, 1_000, 0
    mixing = np.linalg.cholesky(0.6 + 0.4 * np.eye(5)).T
    for _ in range(logs):
        gains = generator.normal(size=(n, 5)) @ mixing * [1, 2, 3, 4, 5]
        c = evaluation.critical_value(gains, 0.95)
        wrong += bool((gains.mean(axis=0) > c * gains.std(axis=0, ddof=1) / math.sqrt(n)).any())
    low, high = exact_limits(wrong, logs, 0.999)
    assert low <= 0.05 <= high


def shown(gains, log_ratios, level=0.0):
    """A case of one-step episodes whose improvement of each is given, by ratios of these."""
    n = len(gains)
    rho = np.exp(log_ratios)[:, None]
    rewards = level + (np.arange(n) % 2 * 200.0 - 100.0)[:, None]
    # ρ (r - Q) + V, with Q = r and V = what was earned and gained.
    found = Evidence(
        rho, np.ones((n, 1)), rewards, np.ones((n, 1), bool), np.ones((n, 1), bool), np.ones(1),
        rewards, rewards + gains[:, None],
    )  # fmt: skip
    return Case(found, "doubly robust")


def spread(n, size=0.02):
    """Ratios near one, of a light tail."""
    return size * scipy.stats.norm.ppf((np.arange(n) + 0.5) / n)


def test_the_rung_with_the_highest_bound_is_chosen_and_refused_ones_count():
    generator, n = np.random.default_rng(2), 400
    near = generator.normal(0.5, 1.0, n)
    far = generator.normal(1.0, 10.0, n)
    unseen = generator.normal(3.0, 1.0, n)
    cases = [shown(near, spread(n)), shown(far, spread(n)), shown(unseen, 3 * spread(n, 1.0))]
    found = evaluation.judge(cases)
    assert found.chosen == 0
    assert found.verdict.word == "deploy"
    assert [one.refusal is None for one in found.judged] == [True, True, False]
    # Against the closed form with the critical value of all three, and not of the two left.
    gains = np.stack([near, far, unseen], axis=1)
    c = evaluation.critical_value(gains, 0.95)
    assert c > evaluation.critical_value(gains[:, :2], 0.95) + 0.02
    low = near.mean() - c * near.std(ddof=1) / math.sqrt(n)
    assert found.verdict.improvement.low == pytest.approx(low, rel=1e-6)
    assert found.verdict.unseen_loss == pytest.approx(low * n / 3, rel=1e-6)


def test_worse_is_said_only_if_every_rung_loses():
    generator, n = np.random.default_rng(2), 400
    losing = shown(generator.normal(-1.0, 1.0, n), spread(n))
    unsure = shown(generator.normal(0.0, 1.0, n), spread(n))
    assert evaluation.judge([losing, losing]).verdict.word == "worse"
    assert evaluation.judge([losing, unsure]).verdict.word == "not shown to be better"


def test_the_cause_that_binds_comes_first():
    """Twelve episodes of which one counts: that one counts is the reason, not that there are 12."""
    generator = np.random.default_rng(0)
    gains = generator.normal(5.0, 1.0, 12)
    thin = evaluation.judge([shown(gains, np.arange(12) * 3.0)]).verdict
    assert "1.0 effective episodes out of 12" in thin.why or "1.1 effective" in thin.why
    few = evaluation.judge([shown(gains, spread(12))]).verdict
    assert "12 episodes to judge by" in few.why
    assert few.needed == 25
    assert "25 held-out episodes" in few.advice
    gains = np.zeros(100)
    gains[0] = 50.0
    single = evaluation.judge([shown(gains + generator.normal(1, 0.01, 100), spread(100))]).verdict
    assert "single episodes dominate" in single.why
    assert "returns=" in single.advice
    unsure = evaluation.judge([shown(generator.normal(0.1, 1.0, 100), spread(100))]).verdict
    assert "zero is not ruled out" in unsure.why
    assert unsure.needed > 100
    assert str(unsure.needed) in unsure.advice


def test_what_q_misses_of_both_policies_cancels():
    """Q is wrong by a number that depends on the action alone: DR less DR of the logging policy."""
    generator, n = np.random.default_rng(4), 2_000
    wrong = generator.normal(size=(n, 1))
    ones, rewards = np.ones((n, 1)), generator.normal(size=(n, 1))
    found = Evidence(
        ones, ones, rewards, ones > 0, ones > 0, np.ones(1), wrong, np.zeros((n, 1)) + 0.3
    )
    base = as_behaviour(found._replace(state_values=np.zeros((n, 1))))
    paired = evaluation.each(Case(found, "doubly robust", base).improvement)
    alone = evaluation.each(Case(found, "doubly robust").improvement)
    np.testing.assert_allclose(paired, 0.3, atol=1e-12)
    assert alone.std() > 0.9
    assert alone.mean() == pytest.approx(0.3, abs=5 * alone.std() / math.sqrt(n))


@pytest.mark.parametrize("p", [0.003, 0.2])
def test_betting_is_a_bound_for_any_distribution(p):
    """Coins, among them rare ones: the bound is above the truth in 5 % of logs at most."""
    generator, wrong = np.random.default_rng(5), 0
    for _ in range(600):
        wrong += evaluation.betting(generator.random(60) < p, width=1.0, confidence=0.95) > p
    assert exact_limits(wrong, 600, 0.999)[0] <= 0.05


def test_a_rare_loss_deceives_no_declared_bounds():
    """Truly worse by a loss in one of 200 episodes that the log hardly shows."""
    generator, n, told = np.random.default_rng(6), 100, {True: 0, False: 0}
    for _ in range(200):
        new = generator.random(n) < 0.5  # the new action, which the policy always takes
        lost = new & (generator.random(n) < 0.01)
        returns = (0.1 * new - 20.0 * lost)[:, None]  # worth .1 - .2 against half of that
        rho = np.where(new, 2.0, 0.0)[:, None]
        ones = np.ones((n, 1))
        found = Evidence(rho, ones, returns, ones > 0, ones > 0, np.ones(1), 0 * ones, 0 * ones)
        for declared in (True, False):
            bounds = (-20.0, 0.1) if declared else None
            verdict = evaluation.judge([Case(found, "doubly robust")], bounds=bounds).verdict
            told[declared] += verdict.word == "deploy"
    assert exact_limits(told[True], 200, 0.999)[0] <= 0.05
    assert told[False] > 40  # what nothing but a declared bound prevents
