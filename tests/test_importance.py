import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import truth
from gamps import importance
from gamps.errors import SettingError
from gamps.trajectories import Trajectories


def log_with(ratios: np.ndarray, policy_log_prob: float = np.log(0.5)) -> Trajectories:
    """A log on which the uniform policy over two actions has the given per-step log-ratios."""
    ratios = jnp.asarray(ratios)
    n, steps = ratios.shape
    return Trajectories(
        observations=jnp.zeros((n, steps + 1), dtype=int),
        actions=jnp.zeros((n, steps), dtype=int),
        rewards=-jnp.ones((n, steps), dtype=ratios.dtype),
        behaviour_log_prob=policy_log_prob - ratios,
        mask=jnp.ones((n, steps), dtype=bool),
        terminated=jnp.ones(n, dtype=bool),
    )


def test_log_rho_by_hand():
    uniform = truth.random_policy(0, 1, 2, scale=0.0)
    log = log_with(np.log([[2.0, 3.0, 5.0], [0.5, 0.5, 4.0]]))
    rho = np.exp(importance.log_rho(uniform, log))
    np.testing.assert_allclose(rho, [[2, 6, 30], [0.5, 0.25, 1.0]], rtol=1e-12)


def test_discount_and_scale_by_hand():
    log_rho = jnp.log(jnp.array([[2.0, 6.0, 30.0], [0.5, 0.25, 1.0]]))
    mask = jnp.array([[True, True, True], [True, True, False]])
    ratios = importance.Ratios.of(log_rho, mask, 0.5)
    expected = [[2, 3, 7.5], [0.5, 0.125, 0]]
    np.testing.assert_allclose(ratios.discounted_rho * np.exp(ratios.log_scale), expected)
    assert float(ratios.discounted_rho.max()) == 1.0
    np.testing.assert_allclose(importance.whole_episode(log_rho, mask), np.log([30, 0.25]))


def test_clip_and_self_normalise():
    log_rho = jnp.log(jnp.array([[2.0, 6.0], [0.5, 2.0]]))
    clipped = importance.Clip(2.0)(log_rho)
    np.testing.assert_allclose(np.exp(clipped), [[2, 2], [0.5, 2]])
    normalised = np.exp(importance.self_normalise(log_rho))
    np.testing.assert_allclose(normalised.mean(0), 1.0)
    np.testing.assert_allclose(normalised[0] / normalised[1], [4, 3])


def test_all_impossible_actions_give_zero_and_not_nan():
    nothing = jnp.full((3, 2), -jnp.inf)
    weights, scale = importance.exponentiate(nothing, jnp.ones((3, 2), dtype=bool))
    assert not weights.any()
    assert float(scale) == 0.0
    assert float(importance.effective_sample_size(nothing[:, 0])) == 0.0
    assert not np.isnan(importance.self_normalise(nothing)).any()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-500, 500), min_size=1, max_size=30), st.floats(-1e4, 1e4))
def test_ess_lies_between_one_and_n_and_ignores_scale(log_weights, shift):
    log_weights = jnp.asarray(log_weights)
    ess = float(importance.effective_sample_size(log_weights))
    assert 1 - 1e-9 <= ess <= len(log_weights) + 1e-9
    moved = float(importance.effective_sample_size(log_weights + shift))
    assert moved == pytest.approx(ess, rel=1e-6)


def test_ess_by_hand():
    log_weights = jnp.log(jnp.array([3.0, 1.0]))
    assert float(importance.effective_sample_size(log_weights)) == pytest.approx(1.6)


@pytest.mark.parametrize("k", [0.1, 0.5, 0.9])
def test_pareto_k_recovers_the_tail_index(k):
    # 40 samples; the standard error of their mean is about (1 + k) / sqrt(40 * size of the tail),
    # near 0.02. The limit of 0.08 is four of these plus the bias of the weak prior towards 0.5.
    n = 4000
    found = []
    for seed in range(40):
        weights = scipy.stats.genpareto.rvs(k, size=n, random_state=seed)
        found.append(float(importance.pareto_k(jnp.log(jnp.asarray(weights)))))
    assert np.mean(found) == pytest.approx(k, abs=0.08)


def test_pareto_k_of_equal_and_of_few_weights():
    assert float(importance.pareto_k(jnp.zeros(100))) == 0.0
    assert float(importance.pareto_k(jnp.zeros(10))) == np.inf


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_a_window_keeps_the_last_steps(window):
    steps = np.random.default_rng(0).normal(size=(4, 7))
    found = importance.Window(window)(jnp.cumsum(jnp.asarray(steps), axis=1))
    for (i, t), value in np.ndenumerate(np.asarray(found)):
        assert value == pytest.approx(steps[i, max(0, t - window + 1) : t + 1].sum(), abs=1e-12)


def test_a_window_does_not_forgive_an_impossible_action():
    found = importance.Window(2)(jnp.array([[0.0, -jnp.inf, -jnp.inf, -jnp.inf]]))
    np.testing.assert_array_equal(found, [[0, -np.inf, -np.inf, -np.inf]])


def test_transformations_in_a_chain_follow_one_another():
    log_rho = jnp.log(jnp.array([[2.0, 8.0, 64.0]]))
    both = importance.Chain((importance.Window(1), importance.Clip(5.0)))
    np.testing.assert_allclose(jnp.exp(both(log_rho)), [[2.0, 4.0, 5.0]])
    np.testing.assert_array_equal(importance.Chain(())(log_rho), log_rho)


def test_an_empty_window_is_refused():
    with pytest.raises(SettingError, match="at least the last step"):
        importance.Window(0)
