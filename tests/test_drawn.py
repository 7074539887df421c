"""Some of the log in place of all of it: the same mean, at a cost that the user sets."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import search
from gamps.envs import Minigolf, collect
from gamps.envs.minigolf import HORIZON
from gamps.errors import SettingError
from gamps.policies import score_norms
from gamps.search import gradients, importance, recipes
from gamps.search.fitting import ClosedForm, SubsampledFit
from gamps.search.gradients import SubsampledPairs
from gamps.search.sampling import Some, drawn, single
from gamps.search.values import Imagined, PerDecisionReturn

GAME = Minigolf()


@pytest.fixture(scope="module")
def log():
    return collect(GAME, GAME.policy(), jax.random.key(0), n=40, steps=HORIZON)


@pytest.fixture(scope="module")
def moved():
    """A policy away from the log's, so that ratios differ."""
    return eqx.tree_at(lambda p: p.weights, GAME.policy(), GAME.policy().weights * 1.1)


def ratios_of(policy, log):
    return importance.Ratios.of(importance.log_rho(policy, log), log.mask, GAME.discount)


def test_steps_come_in_proportion_to_their_shares():
    shares = jnp.array([[1.0, 0.0, 3.0], [0.0, 0.0, 0.0], [2.0, 2.0, 0.0]])
    keys = jax.random.split(jax.random.key(3), 4_000)
    rows, steps = jax.vmap(lambda key: drawn(key, shares, 8))(keys)
    counts = np.zeros(shares.shape)
    np.add.at(counts, (np.asarray(rows).ravel(), np.asarray(steps).ravel()), 1)
    expected = np.asarray(shares / shares.sum()) * 32_000
    assert (counts[expected == 0] == 0).all()
    # Six standard errors of a multinomial count: a false alarm in a hundred million.
    assert (np.abs(counts - expected) <= 6 * np.sqrt(expected)).all()


def test_a_single_step_is_what_was_logged(log):
    rows, steps = jnp.array([3, 7]), jnp.array([0, 1])
    found = single(log, rows, steps)
    assert found.mask.shape == (2, 1)
    np.testing.assert_array_equal(found.states[:, 0], log.states[rows, steps])
    np.testing.assert_array_equal(found.next_states[:, 0], log.next_states[rows, steps])
    lengths = np.asarray(log.lengths)[[3, 7]]
    ended = np.asarray(log.terminated)[[3, 7]] & (np.asarray(steps) + 1 == lengths)
    np.testing.assert_array_equal(found.terminated, ended)


def test_the_gradient_of_drawn_pairs_is_unbiased(log, moved):
    """z-tests of every parameter: by 4,000 draws of 16 pairs, any fixed Q and baseline.

    Joint false-alarm rate 1e-6 by Bonferroni.
    """
    ratios = ratios_of(moved, log)
    q_of = lambda at: jnp.sin(at.states[..., 0]) + at.actions[..., 0]  # noqa: E731
    truth = gradients.off_policy(moved, log, ratios.discounted_rho * q_of(log))

    @jax.jit
    def estimate(key):
        at, found = SubsampledPairs(16)(key, moved, None, GAME.task(), log, ratios)
        return gradients.off_policy(moved, at, found.discounted_rho * q_of(at))

    each = jax.lax.map(estimate, jax.random.split(jax.random.key(5), 4_000))
    for found, expected in zip(jax.tree.leaves(each), jax.tree.leaves(truth), strict=True):
        found = np.asarray(found, float).reshape(4_000, -1)
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        z = (found.mean(axis=0) - np.asarray(expected).ravel()) / np.where(error > 0, error, 1)
        assert (np.abs(z) < 5.5).all(), z  # two-sided 4e-8 for each of seven


def test_the_gradient_of_some_trajectories_is_unbiased(log, moved):
    """And of pairs drawn from these, by the same z-tests; ratios are those of the trajectories."""
    whole = ratios_of(moved, log)
    q_of = lambda at: jnp.cos(at.states[..., 0]) - at.actions[..., 0]  # noqa: E731
    truth = gradients.off_policy(moved, log, whole.discounted_rho * q_of(log))
    truth = np.asarray(truth.weights) * np.exp(float(whole.log_scale))

    @jax.jit
    def estimate(key):
        some = Some(10)(key, log)
        own = ratios_of(moved, some)
        at, found = SubsampledPairs(8)(
            jax.random.fold_in(key, 1), moved, None, GAME.task(), some, own
        )
        gradient = gradients.off_policy(moved, at, found.discounted_rho * q_of(at))
        return gradient.weights * jnp.exp(found.log_scale)

    found = jax.lax.map(estimate, jax.random.split(jax.random.key(6), 4_000))
    found = np.asarray(found, float).reshape(4_000, -1)
    z = (found.mean(axis=0) - truth.ravel()) / found.std(axis=0, ddof=1) * np.sqrt(4_000)
    assert (np.abs(z) < 5.5).all(), z


def test_an_unweighted_draw_is_caught(log, moved):
    """The test above sees a wrong correction: ratios left as they were logged."""
    ratios = ratios_of(moved, log)
    truth = gradients.off_policy(moved, log, ratios.discounted_rho)

    @jax.jit
    def wrong(key):
        at, _ = SubsampledPairs(16)(key, moved, None, GAME.task(), log, ratios)
        return gradients.off_policy(moved, at, jnp.ones(at.mask.shape))

    each = jax.lax.map(wrong, jax.random.split(jax.random.key(5), 1_000))
    found = np.asarray(each.weights).reshape(1_000, -1)
    z = (
        (found.mean(axis=0) - np.asarray(truth.weights).ravel())
        / found.std(axis=0)
        * np.sqrt(1_000)
    )
    assert np.abs(z).max() > 5.5


def test_where_the_score_is_zero_nothing_is_drawn(log, moved):
    ratios = ratios_of(moved, log)
    at, found = SubsampledPairs(200)(jax.random.key(0), moved, None, GAME.task(), log, ratios)
    assert (np.asarray(score_norms(moved, at, q=2.0)) > 0).all()
    assert np.isfinite(np.asarray(found.discounted_rho)).all()
    assert np.asarray(at.mask).all()


def test_a_drawn_fit_has_the_mean_of_the_whole(log):
    """Statistics of drawn transitions, over many draws, against the weighted statistics."""
    model = GAME.linear_model()
    weights = jnp.where(log.mask, jnp.abs(log.actions[..., 0]) + 0.1, 0.0)
    whole = model.statistics(
        *(x.reshape(-1, *x.shape[2:]) for x in (log.states, log.actions, log.next_states, weights))
    )

    @jax.jit
    def one(key):
        some = single(log, *drawn(key, weights, 32))
        return model.statistics(
            some.states[:, 0], some.actions[:, 0], some.next_states[:, 0], jnp.ones(32)
        )

    each = jax.lax.map(one, jax.random.split(jax.random.key(1), 4_000))
    scale = float(weights.sum()) / 32
    for found, expected in zip(jax.tree.leaves(each), jax.tree.leaves(whole), strict=True):
        found = scale * np.asarray(found, float).reshape(4_000, -1)
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found)) + 1e-5 * np.abs(expected).max()
        assert (np.abs(found.mean(axis=0) - np.asarray(expected).ravel()) < 5.5 * error).all()


def test_a_search_of_drawn_steps_climbs(log):
    """Its policy after ten iterations is near that of full passes, as far as draws differ."""
    values = Imagined(rollouts=10, horizon=20)

    def learned(**parts):
        built = recipes.gamps(log, GAME.task(), values=values, learning_rate=0.03, **parts)
        state = built.init(GAME.policy(), GAME.linear_model())
        state, info, _ = search.run(built, jax.random.key(1), state, iterations=10)
        return np.asarray(state.policy.weights), info

    full, _ = learned()
    some, info = learned(pairs=SubsampledPairs(3_000), fit=SubsampledFit(ClosedForm(), 3_000))
    assert np.isfinite(info.model_loss).all()
    start = np.asarray(GAME.policy().weights)
    cosine = np.vdot(full - start, some - start)
    cosine /= np.linalg.norm(full - start) * np.linalg.norm(some - start)
    assert cosine > 0.8


def test_logged_returns_of_drawn_pairs_are_refused(log):
    with pytest.raises(SettingError, match="PerDecisionReturn"):
        recipes.pgt(log, GAME.task(), values=PerDecisionReturn(), pairs=SubsampledPairs(8))


def test_rows_that_fill_up_a_shard_are_not_drawn(log):
    """The same trajectories are, whether there are such rows or not."""
    rows = np.append(np.arange(log.n_trajectories), [0] * 24)
    filled = jax.tree.map(lambda x: x[rows], log)
    real = jnp.arange(len(rows)) < log.n_trajectories
    filled = dataclasses.replace(filled, mask=filled.mask & real[:, None])
    one, other = (Some(12)(jax.random.key(2), each) for each in (log, filled))
    np.testing.assert_array_equal(one.observations, other.observations)
    np.testing.assert_array_equal(one.mask, other.mask)
