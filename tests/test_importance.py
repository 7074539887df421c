import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import truth
from gamps.errors import SettingError
from gamps.search import importance
from gamps.trajectories import Trajectories

traced_k = jax.jit(importance.pareto_k)


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
        found.append(float(traced_k(jnp.log(jnp.asarray(weights)))))
    assert np.mean(found) == pytest.approx(k, abs=0.08)


def test_pareto_k_of_equal_and_of_few_weights():
    assert float(traced_k(jnp.zeros(100))) == 0.0
    assert float(traced_k(jnp.zeros(10))) == np.inf


def zhang_stephens(log_weights: np.ndarray, size: int) -> float:
    """The index of the `size` largest weights as published, with the density of SciPy.

    Posterior mean of θ over the quantiles of its prior (Zhang and Stephens 2009), then as if ten
    weights of index 1/2 had been seen besides (Vehtari et al. 2024). On weights, not logarithms:
    double precision holds ratios up to 1e300.
    """
    weights = np.sort(np.exp(log_weights - log_weights.max()))
    excess = weights[-size:] - weights[-size - 1]
    number = 30 + int(np.sqrt(size))
    chances = (np.arange(number) + 0.5) / number
    quartile = excess[int(size / 4 + 0.5) - 1]
    theta = 1 / excess[-1] + (1 - 1 / np.sqrt(chances)) / (3 * quartile)
    index = np.array([np.log1p(-t * excess).mean() for t in theta])
    fit = np.array(
        [scipy.stats.genpareto.logpdf(excess, k, scale=-k / t).sum()
         for k, t in zip(index, theta, strict=True)]
    )  # fmt: skip
    best = scipy.special.softmax(fit) @ theta
    return (size * np.log1p(-best * excess).mean() + 10 * 0.5) / (size + 10)


# How many of n weights are the tail: a fifth of few, three square roots of many.
TAILS = [(25, 5), (100, 20), (225, 45), (400, 60)]


@pytest.mark.parametrize(("n", "size"), TAILS)
@pytest.mark.parametrize("k", [0.1, 0.7, 2.0])
def test_pareto_k_is_the_published_estimate(n, size, k):
    log_weights = np.log(scipy.stats.genpareto.rvs(k, size=n, random_state=n))
    expected = zhang_stephens(log_weights, size)
    assert float(importance.pareto_k(log_weights)) == pytest.approx(expected, abs=1e-9)
    assert float(traced_k(jnp.asarray(log_weights))) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "size"), TAILS)
def test_pareto_k_looks_at_the_tail_alone(n, size):
    """The weights of the tail and the one that cuts it off matter, and no other."""
    logs = np.sort(np.random.default_rng(n).normal(size=n))
    index = float(importance.pareto_k(logs))
    below = logs.copy()
    below[: -size - 1] -= 3.0
    assert float(importance.pareto_k(below)) == index
    for place in (-size - 1, -size):
        moved = logs.copy()
        moved[place] = (logs[place] + logs[place + 1]) / 2
        assert float(importance.pareto_k(moved)) != index


def test_few_weights_are_pulled_to_one_half():
    """Twenty of index 2 and ten of 1/2 are 1.5 on average, of 1/2 they stay 1/2.

    A z-test at 1e-6; the estimate is biased by a tenth with so few weights and so heavy a tail.
    """
    for k, expected in ((2.0, 1.5), (0.5, 0.5)):
        drawn = [scipy.stats.genpareto.rvs(k, size=100, random_state=i) for i in range(400)]
        found = np.array([importance.pareto_k(np.log(weights)) for weights in drawn])
        error = found.std(ddof=1) / np.sqrt(len(found))
        assert abs(found.mean() - expected) < 4.9 * error + 0.1


def test_a_tail_index_needs_five_weights_of_a_tail():
    log_weights = np.random.default_rng(0).normal(size=25)
    assert np.isfinite(importance.pareto_k(log_weights))
    assert float(importance.pareto_k(log_weights[:24])) == np.inf


def test_what_cannot_happen_is_no_tail():
    """Weights of zero below bounded ones: an average of these is safe, however few they are."""
    rng = np.random.default_rng(1)
    for positive in (20, 45, 60):
        log_weights = np.full(400, -np.inf)
        log_weights[rng.permutation(400)[:positive]] = np.log(rng.uniform(1, 2, positive))
        traced = jnp.asarray(log_weights, "float32")
        for of, array in ((importance.pareto_k, log_weights), (traced_k, traced)):
            assert float(of(array)) < 0.7
    heavy = np.where(np.arange(400) < 100, rng.exponential(3.0, 400), -np.inf)
    assert float(importance.pareto_k(heavy)) > 0.7
    assert float(importance.pareto_k(np.full(100, -np.inf))) == 0.0


def test_two_equal_weights_are_no_heavy_tail():
    """The smallest of five and the one below it: light weights, of the index of a light tail."""
    log_weights = np.sort(0.5 * np.random.default_rng(0).normal(size=25))
    log_weights[-5] = log_weights[-6]
    assert float(importance.pareto_k(log_weights)) < 0.7


@pytest.mark.parametrize("spread", [20.0, 60.0, 150.0])
@pytest.mark.parametrize("n", [60, 100, 400])
def test_pareto_k_of_a_collapse_in_single_precision(n, spread):
    """One weight is all: the others vanish beside it, and say by how much it is too heavy."""
    found = []
    for seed in range(5):
        logs = np.random.default_rng(seed).normal(size=n).astype(np.float32) * np.float32(spread)
        if float(importance.effective_sample_size(jnp.asarray(logs))) < 1.1:
            expected = zhang_stephens(logs.astype(np.float64), int(min(n / 5, 3 * n**0.5)))
            single = traced_k(jnp.asarray(logs))
            assert single.dtype == jnp.float32
            assert float(single) == pytest.approx(expected, rel=1e-4)
            found.append(expected)
    assert found
    assert min(found) > 2.0


def test_pareto_k_beyond_every_float():
    """Logarithms a thousand apart: twice as far apart is an index twice as large."""
    logs = 1_000 * np.random.default_rng(0).normal(size=100)
    once, twice = ((float(importance.pareto_k(s * logs)) * 30 - 5) / 20 for s in (1.0, 2.0))
    assert once > 100
    assert twice == pytest.approx(2 * once, rel=1e-2)
    single = float(traced_k(jnp.asarray(logs, "float32")))
    assert single == pytest.approx((20 * once + 5) / 30, rel=1e-4)


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
