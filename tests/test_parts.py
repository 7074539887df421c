"""Weights, score norms and baselines against numbers computed by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import truth
from gamps.errors import SettingError
from gamps.models import products
from gamps.policies import Boltzmann, LinearGaussianPolicy, OneHot, log_probs, score_norms
from gamps.search.importance import Ratios, log_rho
from gamps.search.values import (
    MinimumVariance,
    NoBaseline,
    PerDecisionReturn,
    PerTime,
    Regression,
    StateValue,
    Values,
)
from gamps.search.weights import GradientAware, Mixed, Ones, RewardWeighted
from gamps.tasks import Task
from gamps.trajectories import Episode, from_episodes

KEY = jax.random.key(3)


def any_features(observation):
    x = jnp.asarray(observation, dtype=float)
    return jnp.stack([x, x**2, jnp.ones_like(x)])


POLICIES = {
    "one-hot": truth.random_policy(3, 3, 4),
    "forced": Boltzmann(truth.random_policy(3, 3, 4).weights, OneHot(3), jnp.array([-1, 2, -1])),
    "features": Boltzmann(jax.random.normal(KEY, (3, 4)), any_features),
}


def test_forced_rows_are_certain_and_have_no_score():
    policy = POLICIES["forced"]
    assert float(policy.log_prob(jnp.array(1), jnp.array(2))) == 0.0
    assert float(policy.log_prob(jnp.array(1), jnp.array(0))) == -np.inf
    for a in range(4):
        score = jax.grad(
            lambda w, a=a: eqx.tree_at(lambda p: p.weights, policy, w).log_prob(
                jnp.array(1), jnp.array(a)
            )
        )(policy.weights)
        assert not score.any()


def small_log(policy=POLICIES["one-hot"], seed=0):
    rng = np.random.default_rng(seed)
    episodes = []
    for steps in (4, 2, 3):
        observations, actions = rng.integers(3, size=steps + 1), rng.integers(4, size=steps)
        episodes.append(
            Episode(observations, actions, -np.ones(steps), np.full(steps, np.log(0.25)))
        )
    return from_episodes(episodes)


@pytest.mark.parametrize("q", [1.0, 2.0, 3.0, np.inf])
def test_score_norms_equal_the_closed_form(q):
    policy, log = POLICIES["one-hot"], small_log()
    norms = score_norms(policy, log, q=q)
    for (i, t), norm in np.ndenumerate(np.asarray(norms)):
        s, a = int(log.states[i, t]), int(log.actions[i, t])
        score = np.eye(4)[a] - np.asarray(jax.nn.softmax(policy.weights[s]))
        assert norm == pytest.approx(np.linalg.norm(score, ord=q), rel=1e-10)


def test_softmax_score_has_l1_twice_its_maximum():
    policy, log = POLICIES["one-hot"], small_log()
    ratio = score_norms(policy, log, q=1.0) / score_norms(policy, log, q=np.inf)
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-12)


def test_gradient_aware_weights_by_hand():
    policy, log = POLICIES["one-hot"], small_log()
    ratios = Ratios.of(log_rho(policy, log), log.mask, 0.9)
    weights = np.asarray(GradientAware(q=2.0)(policy, log, ratios) * np.exp(ratios.log_scale))
    log_prob = np.asarray(log_probs(policy, log))
    norms = np.asarray(score_norms(policy, log, q=2.0))
    for i, steps in enumerate((4, 2, 3)):
        rho, magnitude = 1.0, 0.0
        for t in range(4):
            if t >= steps:
                assert weights[i, t] == 0
                continue
            rho *= np.exp(log_prob[i, t]) / 0.25
            magnitude += norms[i, t]
            assert weights[i, t] == pytest.approx(0.9**t * rho * magnitude, rel=1e-10)


def test_ones_are_the_mask():
    log = small_log()
    ratios = Ratios.of(log_rho(POLICIES["one-hot"], log), log.mask, 0.9)
    np.testing.assert_array_equal(Ones()(POLICIES["one-hot"], log, ratios), log.mask.astype(float))


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_reward_weighted_by_hand(steps):
    policy, log = POLICIES["one-hot"], small_log()
    ratios = Ratios.of(log_rho(policy, log), log.mask, 0.9)
    mask = np.asarray(log.mask)
    omega = np.asarray(GradientAware()(policy, log, ratios))[mask]
    c = 1 / omega.mean()
    for _ in range(steps):
        u = c * np.exp(-c * omega)
        c = u.sum() / (u * omega).sum()
    weights = np.asarray(RewardWeighted(steps=steps)(policy, log, ratios))
    expected = np.exp(-c * omega)
    np.testing.assert_allclose(weights[mask] / weights[mask].sum(), expected / expected.sum())
    assert not weights[~mask].any()
    # To the letter it turns the order around: what the gradient needs most counts least.
    assert np.argmax(weights[mask]) == np.argmin(omega)


@pytest.mark.parametrize("q", [0.5, -1.0, np.nan])
def test_a_norm_needs_q_of_at_least_one(q):
    with pytest.raises(SettingError, match="q"):
        GradientAware(q=q)


@pytest.mark.parametrize("discount", [0.0, -0.5, 1.5])
def test_discount_must_be_in_range(discount):
    with pytest.raises(SettingError, match="discount"):
        Task(lambda s, a, n: 0.0, discount)


def test_baselines_by_hand():
    policy, log = POLICIES["one-hot"], small_log()
    ratios = Ratios.of(log_rho(policy, log), log.mask, 0.9)
    rng, mask = np.random.default_rng(1), np.asarray(log.mask)
    rho, norms = np.asarray(ratios.discounted_rho), np.asarray(score_norms(policy, log, q=2.0))
    q_values, v = rng.normal(size=mask.shape), rng.normal(size=mask.shape)
    values = Values(jnp.asarray(rho * q_values), jnp.asarray(v))
    mean, least = np.zeros(4), np.zeros(4)
    for t in range(4):
        rows = [i for i in range(3) if mask[i, t]]
        mean[t] = sum(rho[i, t] * q_values[i, t] for i in rows) / sum(rho[i, t] for i in rows)
        sway = {i: (rho[i, t] * norms[i, t]) ** 2 for i in rows}
        least[t] = sum(sway[i] * q_values[i, t] for i in rows) / sum(sway.values())
    for baseline, expected in (
        (NoBaseline(), 0 * rho), (PerTime(), rho * mean), (MinimumVariance(), rho * least),
        (StateValue(), rho * v),
    ):  # fmt: skip
        np.testing.assert_allclose(baseline(policy, log, ratios, values), expected, atol=1e-12)


def test_forced_rows_need_a_table():
    with pytest.raises(SettingError, match="OneHot"):
        Boltzmann(jnp.zeros((3, 4)), any_features, jnp.array([-1, 2, -1]))


@pytest.mark.parametrize("uniform", [0.0, 0.3, 1.0])
def test_mixed_weights_by_hand(uniform):
    policy, log = POLICIES["one-hot"], small_log()
    ratios = Ratios.of(log_rho(policy, log), log.mask, 0.9)
    mask = np.asarray(log.mask)
    omega = np.asarray(GradientAware()(policy, log, ratios))
    weights = np.asarray(Mixed(uniform=uniform)(policy, log, ratios))
    assert not weights[~mask].any()
    expected = uniform + (1 - uniform) * omega[mask] / omega[mask].mean()
    np.testing.assert_allclose(weights[mask], expected)


@pytest.mark.parametrize("uniform", [-0.1, 1.5])
def test_a_share_is_a_share(uniform):
    with pytest.raises(SettingError, match="uniform"):
        Mixed(uniform=uniform)


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 9, None])
def test_logged_returns_of_a_horizon_by_hand(horizon):
    policy, log = POLICIES["one-hot"], small_log()
    ratios = Ratios.of(log_rho(policy, log), log.mask, 0.9)
    task = Task(lambda s, a, following: 0.0, 0.9)
    found = PerDecisionReturn(horizon)(KEY, policy, None, task, log, ratios).weighted_q_values
    rho, rewards = np.asarray(ratios.discounted_rho), np.asarray(log.rewards)
    for (i, t), value in np.ndenumerate(np.asarray(found)):
        last = 4 if horizon is None else min(4, t + horizon)
        assert value == pytest.approx(sum(rho[i, u] * rewards[i, u] for u in range(t, last)))


LINEAR = LinearGaussianPolicy(jnp.zeros((3, 1)), log_std=jnp.zeros(1))


def continuous_log():
    rng = np.random.default_rng(0)
    lengths = (5, 9, 7, 9)
    return from_episodes(
        [
            Episode(rng.normal(size=(n + 1, 2)), rng.normal(size=(n, 1)), np.zeros(n), np.zeros(n))
            for n in lengths
        ]
    )


def test_a_regression_removes_what_its_features_explain():
    log = continuous_log()
    log_ratios = jnp.asarray(np.random.default_rng(1).normal(size=log.mask.shape))
    ratios = Ratios.of(log_ratios, log.mask, 0.9)
    s = np.asarray(log.states)
    explained = 3 + s[..., 0] - 2 * s[..., 1] + 0.5 * s[..., 0] * s[..., 1] - s[..., 1] ** 2
    rho = np.asarray(ratios.discounted_rho)
    values = Values(jnp.asarray(rho * explained))
    left = values.weighted_q_values - Regression(ridge=0.0)(LINEAR, log, ratios, values)
    np.testing.assert_allclose(left, 0, atol=1e-9)


def test_what_a_regression_leaves_is_orthogonal_to_its_features():
    log = continuous_log()
    rng = np.random.default_rng(1)
    ratios = Ratios.of(jnp.asarray(rng.normal(size=log.mask.shape)), log.mask, 0.9)
    values = Values(ratios.discounted_rho * jnp.asarray(rng.normal(size=log.mask.shape)))
    baseline = Regression(ridge=0.0)(LINEAR, log, ratios, values)
    left = np.asarray(values.weighted_q_values - baseline)[np.asarray(log.mask)]
    features = np.asarray(jax.vmap(products)(np.asarray(log.states)[np.asarray(log.mask)]))
    assert features.shape[1] == 6
    np.testing.assert_allclose(features.T @ left, 0, atol=1e-9)
    assert np.abs(left).max() > 0.1
