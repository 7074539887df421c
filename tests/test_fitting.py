from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import truth
from gamps._utils.linear import regress
from gamps._utils.networks import MLP
from gamps.envs import Minigolf, collect
from gamps.errors import SettingError
from gamps.models import Ensemble, LinearGaussianModel, MLPGaussianModel, Tabular
from gamps.models.mlp_gaussian import Scale
from gamps.search import recipes
from gamps.search.fitting import (
    ClosedForm,
    EachMember,
    GradientDescent,
    Keep,
    Minibatches,
    negative_log_likelihood,
)
from gamps.trajectories import Episode, Trajectories, from_episodes

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


def golf_log(n=400):
    env = Minigolf()
    return env, jax.jit(lambda k: collect(env, env.policy(), k, n=n, steps=20))(KEY)


def test_linear_model_is_weighted_least_squares():
    env, log = golf_log(40)
    weights = jax.random.uniform(jax.random.key(9), log.mask.shape) ** 4
    fitted, _ = ClosedForm()(KEY, env.linear_model(), log, weights)
    used = np.asarray(log.mask)
    s, a, following = (np.asarray(x)[used] for x in (log.states, log.actions, log.next_states))
    features = np.concatenate([s, np.clip(a, 1e-5, 5)], axis=1)
    root = np.sqrt(np.asarray(weights)[used])[:, None]
    mean, *_ = np.linalg.lstsq(root * features, root * (s - following))
    deviation, *_ = np.linalg.lstsq(root * features, root * np.abs(s - following - features @ mean))
    np.testing.assert_allclose(fitted.mean_weights, mean, rtol=1e-4)
    np.testing.assert_allclose(fitted.std_weights, np.sqrt(np.pi / 2) * deviation, rtol=1e-4)


def test_statistics_of_shards_add_up():
    env, log = golf_log(40)
    model, weights = env.linear_model(), log.mask.astype(float)

    def statistics(rows):
        def flat(x):
            return x[rows].reshape(-1, *x.shape[2:])

        return model.statistics(*map(flat, (log.states, log.actions, log.next_states, weights)))

    whole = statistics(slice(None))
    halves = jax.tree.map(jnp.add, statistics(slice(0, 15)), statistics(slice(15, None)))
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(halves), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_closed_form_finds_a_linear_gaussian_model():
    """2,000 transitions of the model itself: mean and deviation within five standard errors."""
    true = LinearGaussianModel(jnp.array([[-0.3], [0.8]]), jnp.array([[0.2], [0.5]]))
    keys = jax.random.split(KEY, 3)
    shape = (100, 20, 1)
    states = jax.random.uniform(keys[0], shape, minval=0.5, maxval=2.0)
    actions = jax.random.uniform(keys[1], shape, minval=0.5, maxval=2.0)
    noise = jax.random.normal(keys[2], shape)
    following = jax.vmap(jax.vmap(true.step))(states, actions, noise)
    # Each row a trajectory of one step, so that the next observation is its own.
    log = Trajectories(
        jnp.stack([states, following], axis=2).reshape(2000, 2, 1), actions.reshape(2000, 1, 1),
        jnp.zeros((2000, 1)), jnp.zeros((2000, 1)), jnp.ones((2000, 1), bool),
        jnp.zeros(2000, bool),
    )  # fmt: skip
    start = LinearGaussianModel(jnp.zeros((2, 1)), jnp.zeros((2, 1)))
    fitted, loss = ClosedForm()(KEY, start, log, jnp.ones((2000, 1)))
    np.testing.assert_allclose(fitted.mean_weights, true.mean_weights, atol=0.12)
    np.testing.assert_allclose(fitted.std_weights, true.std_weights, atol=0.12)
    assert float(loss) == pytest.approx(
        float(negative_log_likelihood(true, log, jnp.ones((2000, 1)))), abs=0.01
    )


@pytest.mark.parametrize("weight_on", [0, 1])
def test_all_weight_on_one_transition_stays_finite(weight_on):
    env, log = golf_log(10)
    weights = jnp.zeros(log.mask.shape).at[weight_on, 0].set(1e-30)
    fitted, loss = ClosedForm()(KEY, env.linear_model(), log, weights)
    assert jnp.isfinite(loss)
    assert all(jnp.isfinite(x).all() for x in (fitted.mean_weights, fitted.std_weights))


@pytest.mark.parametrize("sizes", [(3, 5, 2), (10, 64, 64, 16), (1, 1)])
def test_a_network_starts_as_its_layers_would(sizes):
    keys = jax.random.split(KEY, len(sizes) - 1)
    dtype = jnp.result_type(float)
    alone = tuple(
        eqx.nn.Linear(inputs, outputs, key=key, dtype=dtype)
        for key, (inputs, outputs) in zip(keys, pairwise(sizes), strict=True)
    )
    assert eqx.tree_equal(MLP(KEY, sizes).layers, alone)


def test_network_learns_by_descent():
    """The 2×32 network comes near the likelihood of the true game, which is not normal."""
    env, log = golf_log(200)
    weights = log.mask.astype(float)
    start = MLPGaussianModel.create(KEY, log, features=env.model_features, rectified=True)
    fit = GradientDescent(steps=400, learning_rate=0.01, patience=400)
    fitted, loss = eqx.filter_jit(fit)(KEY, start, log, weights)
    assert jax.tree.all(
        jax.tree.map(jnp.array_equal, fitted.features.__self__, start.features.__self__)
    ), "the game's constants are not the model's parameters"
    before = float(negative_log_likelihood(start, log, weights))
    truth_loss = float(negative_log_likelihood(env, log, weights))
    assert float(loss) == pytest.approx(float(negative_log_likelihood(fitted, log, weights)))
    assert float(loss) < before - 0.5
    assert float(loss) < truth_loss + 0.5


def test_members_of_an_ensemble_differ_and_fit():
    env, log = golf_log(50)
    weights = log.mask.astype(float)
    members = jax.tree.map(
        lambda x: jnp.stack([x] * 4) if eqx.is_array(x) else x, env.linear_model()
    )
    fitted, loss = EachMember(ClosedForm())(KEY, Ensemble(members, 4), log, weights)
    alone, _ = ClosedForm()(KEY, env.linear_model(), log, weights)
    slopes = np.asarray(fitted.members.mean_weights)
    assert (slopes.std(axis=0) > 0).all()
    np.testing.assert_allclose(slopes.mean(axis=0), alone.mean_weights, rtol=0.2)
    assert float(loss) == pytest.approx(float(negative_log_likelihood(fitted, log, weights)))


def test_members_spread_as_whole_trajectories_do():
    """Twenty trajectories of 25 equal steps each are twenty numbers, not five hundred.

    The mean of n numbers under Dirichlet weights, which the Bayesian bootstrap draws, has variance
    Σ (x - mean)² / n(n + 1). That of 400 members is within five of its relative errors, √(2/400);
    as many numbers as steps would have it 25 times smaller.
    """
    moves = np.random.default_rng(0).normal(size=20)
    log = from_episodes(
        [Episode(m * np.arange(26.0)[:, None], np.zeros((25, 1)), np.zeros(25), np.zeros(25))
         for m in moves]
    )  # fmt: skip
    zeros = jnp.zeros((400, 1, 1))
    members = LinearGaussianModel(zeros, zeros, lambda *_: jnp.ones(1), jnp.full(400, 1e-3))
    fitted, _ = EachMember(ClosedForm())(KEY, Ensemble(members, 400), log, log.mask.astype(float))
    means = np.asarray(fitted.members.mean_weights)[:, 0, 0]
    expected = np.sum((moves - moves.mean()) ** 2) / (20 * 21)
    assert means.var() == pytest.approx(expected, rel=5 * np.sqrt(2 / 400))
    assert means.mean() == pytest.approx(moves.mean(), abs=5 * np.sqrt(expected / 400))


def test_a_model_without_a_closed_form_is_named():
    _, log = golf_log(10)
    model = MLPGaussianModel.create(KEY, log)
    with pytest.raises(SettingError, match=r"fit: ClosedForm.*MLPGaussianModel.*GradientDescent"):
        ClosedForm()(KEY, model, log, log.mask.astype(float))
    built = recipes.gamps(log, Minigolf().task(), fit=Keep())
    with pytest.raises(SettingError, match=r"values: Exact.*MLPGaussianModel.*Imagined"):
        built.step(KEY, built.init(Minigolf().policy(), model))


def test_an_ensemble_is_told_how_to_be_fitted():
    env, log = golf_log(10)
    members = jax.tree.map(
        lambda x: jnp.stack([x] * 2) if eqx.is_array(x) else x, env.linear_model()
    )
    with pytest.raises(SettingError, match="EachMember"):
        ClosedForm()(KEY, Ensemble(members, 2), log, log.mask.astype(float))
    with pytest.raises(SettingError, match="members"):
        Ensemble(members, 3)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_regression_does_not_depend_on_units(scale):
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(500, 2)) * [1.0, scale]).astype(np.float32)
    target = features @ np.array([1.0, 1 / scale], np.float32)
    found = regress(
        jnp.asarray(features.T @ features), jnp.asarray((features.T @ target)[:, None]), ridge=1e-6
    )
    np.testing.assert_allclose(found.ravel() * np.array([1.0, scale]), 1.0, rtol=1e-3)


def test_a_feature_never_seen_gets_nothing():
    gram, moments = jnp.diag(jnp.array([2.0, 0.0])), jnp.array([[4.0], [0.0]])
    np.testing.assert_allclose(regress(gram, moments, ridge=0.0).ravel(), [2.0, 0.0])


@pytest.mark.parametrize("value", [0.1, 9.81, 1013.25])
def test_a_constant_column_keeps_its_unit(value):
    values = jnp.full((777, 1), value, jnp.float32)
    scale = Scale.of(values, jnp.ones(777, bool))
    assert float(scale.std[0]) == 1.0


def linear_log(n=60, steps=20, spoiled=False):
    """s' = s + .5 a - .3 s + .1 z; if spoiled, actions work the other way in its second half."""
    rng = np.random.default_rng(0)
    episodes = []
    for i in range(n):
        turn = -1 if spoiled and i >= n // 2 else 1
        s, seen, actions = rng.normal(size=1), [], rng.normal(size=(steps, 1))
        seen.append(s)
        for a in actions:
            s = s + turn * 0.5 * a - 0.3 * s + 0.1 * rng.normal(size=1)
            seen.append(s)
        episodes.append(Episode(np.stack(seen), actions, np.zeros(steps), np.zeros(steps)))
    return from_episodes(episodes)


MINIBATCHES = Minibatches(epochs=100, size=100, learning_rate=0.01, patience=20)


def test_minibatches_find_the_weighted_maximum():
    log = linear_log(spoiled=True)
    weights = jnp.where(jnp.arange(60)[:, None] < 30, 1.0, 0.0) * jnp.ones(log.mask.shape)
    start = MLPGaussianModel.create(jax.random.key(1), log, hidden=(16,))
    fitted, loss = eqx.filter_jit(MINIBATCHES)(KEY, start, log, weights)
    mean, std = jax.vmap(fitted.moments)(jnp.array([[0.5], [-1.0]]), jnp.array([[1.0], [0.3]]))
    np.testing.assert_allclose(mean[:, 0], [0.5 - 0.15, 0.15 + 0.3], atol=0.08)
    np.testing.assert_allclose(std[:, 0], 0.1, rtol=0.15)
    # The density of the truth, in expectation; the log has only so many transitions.
    assert float(loss) == pytest.approx(0.5 * np.log(2 * np.pi * 0.01) + 0.5, abs=0.05)


def test_minibatches_do_not_depend_on_the_scale_of_weights():
    log = linear_log()
    weights = jax.random.uniform(KEY, log.mask.shape)
    start = MLPGaussianModel.create(jax.random.key(1), log, hidden=(4,))
    fit = eqx.filter_jit(Minibatches(epochs=2, size=100, learning_rate=0.01))
    once, loss = fit(KEY, start, log, weights)
    for scale in (1e-200, 1e200):
        again, scaled = fit(KEY, start, log, weights * scale)
        assert float(scaled) == pytest.approx(float(loss))
        np.testing.assert_allclose(
            once.network.layers[0].weight, again.network.layers[0].weight, rtol=1e-6
        )


def test_minibatches_stop_where_nothing_improves():
    log = linear_log()
    weights = log.mask.astype(float)
    start = MLPGaussianModel.create(jax.random.key(1), log, hidden=(4,))
    still = Minibatches(epochs=10**6, size=100, learning_rate=0.0, patience=3)
    kept, _ = eqx.filter_jit(still)(KEY, start, log, weights)  # or it would never come back
    np.testing.assert_array_equal(kept.network.layers[0].weight, start.network.layers[0].weight)


@pytest.mark.parametrize("rate", [3.0, 1e6])
def test_minibatches_that_run_away_are_undone(rate):
    log = linear_log()
    start = MLPGaussianModel.create(jax.random.key(1), log, hidden=(4,))
    fit = eqx.filter_jit(Minibatches(epochs=30, size=100, learning_rate=rate))
    fitted, _ = fit(KEY, start, log, log.mask.astype(float))
    assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(eqx.filter(fitted, eqx.is_array)))


def test_minibatches_of_a_pass_are_limited():
    log = linear_log()
    start = MLPGaussianModel.create(jax.random.key(1), log, hidden=(4,))

    def fitted(**given):
        fit = Minibatches(epochs=1, size=100, learning_rate=0.01, **given)
        return eqx.filter_jit(fit)(KEY, start, log, log.mask.astype(float))[0]

    def moved(model):
        return np.abs(model.network.layers[0].weight - start.network.layers[0].weight).max()

    # A step of Adam moves a weight by at most the learning rate, the first one by just that.
    assert moved(fitted(batches=1)) == pytest.approx(0.01, rel=1e-3)
    assert moved(fitted(batches=3)) > 0.02
    assert moved(fitted(batches=10**6)) == moved(fitted())


def test_updates_are_limited_whatever_the_size_of_the_log():
    log = linear_log()
    start = MLPGaussianModel.create(jax.random.key(1), log, hidden=(4,))

    def moved(**given):
        fit = Minibatches(size=100, learning_rate=0.01, patience=10**6, **given)
        model = eqx.filter_jit(fit)(KEY, start, log, log.mask.astype(float))[0]
        return np.abs(model.network.layers[0].weight - start.network.layers[0].weight).max()

    assert moved(epochs=10**6, updates=1) == pytest.approx(0.01, rel=1e-3)
    assert 0.02 < moved(epochs=10**6, updates=5) <= 0.05 + 1e-6
    assert moved(epochs=1, updates=1) == moved(epochs=1, batches=1)


def test_minibatches_of_any_length_are_one_program():
    """A trial of a few passes must not cost a compilation of its own."""
    log = linear_log()
    start = MLPGaussianModel.create(KEY, log)
    traced = []

    @eqx.filter_jit
    def fitted(fit):
        traced.append(fit)
        return fit(KEY, start, log, log.mask.astype(float))[1]

    losses = [fitted(Minibatches(epochs=n, size=100, patience=n, decay=True)) for n in (1, 7)]
    assert len(traced) == 1
    assert losses[1] < losses[0]
    assert Minibatches(epochs=jnp.array([1, 7])).epochs.shape == (2,)


def test_minibatches_need_sizes():
    for name in ("epochs", "size", "batches", "patience"):
        with pytest.raises(SettingError, match=name):
            Minibatches(**{name: 0})


def test_minibatches_ignore_padding():
    log = linear_log(n=10)
    padded = from_episodes(_episodes_of(log), length=40)
    spoiled = eqx.tree_at(lambda t: t.observations, padded, padded.observations.at[:, 25:].set(1e3))
    start = MLPGaussianModel.create(jax.random.key(1), log, hidden=(4,))
    fit = eqx.filter_jit(Minibatches(epochs=3, size=50, learning_rate=0.01))
    fitted, loss = fit(KEY, start, padded, padded.mask.astype(float))
    again, _ = fit(KEY, start, spoiled, spoiled.mask.astype(float))
    assert np.isfinite(loss)
    np.testing.assert_array_equal(fitted.network.layers[0].weight, again.network.layers[0].weight)


def _episodes_of(log):
    return [
        Episode(o, a, r, b)
        for o, a, r, b in zip(
            *(
                np.asarray(x)
                for x in (log.observations, log.actions, log.rewards, log.behaviour_log_prob)
            ),
            strict=True,
        )
    ]
