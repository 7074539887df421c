import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import truth
from gamps.envs import collect
from gamps.fitting import ClosedForm, GradientDescent, Keep, negative_log_likelihood
from gamps.models import Tabular

KEY = jax.random.key(2)


@pytest.fixture(scope="module")
def problem():
    mdp = truth.random_mdp(2, 3, 2, 0.9)
    mdp = eqx.tree_at(lambda m: m.initial, mdp, jnp.array([0.5, 0.5, 0.0]))
    policy = truth.random_policy(2, 3, 2)
    log = collect(truth.TableEnv(mdp, end=2), policy, KEY, n=200, steps=8)
    weights = jax.random.uniform(jax.random.key(9), log.mask.shape)
    return mdp, log, weights


def test_closed_form_is_weighted_frequencies(problem):
    _, log, weights = problem
    fitted, loss = ClosedForm()(KEY, Tabular(jnp.zeros((3, 2, 3))), log, weights)
    counts = np.zeros((3, 2, 3))
    for i, t in np.argwhere(np.asarray(log.mask)):
        counts[int(log.states[i, t]), int(log.actions[i, t]), int(log.next_states[i, t])] += float(
            weights[i, t]
        )
    seen = counts.sum(-1) > 0
    assert not seen[2].any()  # nothing is logged after the end
    expected = counts / np.where(seen, counts.sum(-1), 1)[..., None]
    np.testing.assert_allclose(fitted.transitions()[seen], expected[seen], atol=1e-12)
    np.testing.assert_allclose(fitted.transitions()[~seen], 1 / 3)
    assert float(loss) == pytest.approx(float(negative_log_likelihood(fitted, log, weights)))


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30])
def test_the_maximiser_does_not_depend_on_the_scale(problem, scale):
    _, log, weights = problem
    model = Tabular(jnp.zeros((3, 2, 3)))
    once, _ = ClosedForm()(KEY, model, log, weights)
    scaled, loss = ClosedForm()(KEY, model, log, weights * scale)
    np.testing.assert_allclose(once.transitions(), scaled.transitions(), rtol=1e-9)
    assert np.isfinite(loss)


def test_descent_reaches_the_closed_form(problem):
    _, log, weights = problem
    model = Tabular(jnp.zeros((3, 2, 3)))
    exact, lowest = ClosedForm()(KEY, model, log, weights)
    fit = GradientDescent(steps=3000, learning_rate=0.05, patience=100)
    found, loss = eqx.filter_jit(fit)(KEY, model, log, weights)
    assert float(loss) == pytest.approx(float(lowest), abs=1e-4)
    assert float(loss) >= float(lowest) - 1e-12
    np.testing.assert_allclose(found.transitions()[:2], exact.transitions()[:2], atol=1e-3)


def test_early_stopping_stops_and_hands_out_the_lowest(problem):
    _, log, weights = problem
    start = Tabular(jnp.zeros((3, 2, 3)))
    exact, lowest = ClosedForm()(KEY, start, log, weights)
    # Steps far too large bounce: with patience they come lower than without.
    stopped, patient = (
        eqx.filter_jit(GradientDescent(steps=100, learning_rate=2.0, patience=p)) for p in (1, 1000)
    )
    assert float(stopped(KEY, start, log, weights)[1]) > float(patient(KEY, start, log, weights)[1])
    kept, loss = patient(KEY, exact, log, weights)
    assert float(loss) == pytest.approx(float(lowest), abs=1e-12)
    assert float(negative_log_likelihood(kept, log, weights)) == pytest.approx(float(loss))


def test_warm_continues_and_cold_starts_again(problem):
    _, log, weights = problem
    start = Tabular(jnp.zeros((3, 2, 3)))
    warm = GradientDescent(steps=5, learning_rate=0.01, patience=50)
    cold = GradientDescent(steps=5, learning_rate=0.01, patience=50, start=start)
    first, _ = cold(KEY, start, log, weights)
    again, _ = cold(KEY, first, log, weights)
    further, loss = warm(KEY, first, log, weights)
    np.testing.assert_array_equal(first.logits, again.logits)
    assert float(loss) < float(negative_log_likelihood(first, log, weights))
    assert not np.array_equal(further.logits, first.logits)


def test_keep_keeps(problem):
    _, log, weights = problem
    assert Keep()(KEY, "model", log, weights)[0] == "model"
