"""Imagined values against truth: closed forms, exact solves, and a loop written by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree

from benchmarks.engine import kernels
from gamps._utils.noise import normal
from gamps.envs.two_areas import two_areas
from gamps.errors import SettingError
from gamps.models import Ensemble, LinearGaussianModel, LogRange, Model, Tabular
from gamps.paper.setup import log_of
from gamps.policies import Boltzmann, LinearGaussianPolicy, OneHot, Policy
from gamps.search import gradients
from gamps.search.importance import Ratios
from gamps.search.values import Border, Exact, FittedQ, Imagined, PerTime, Values
from gamps.search.values.rollouts import Noise, draw, returns
from gamps.tasks import Task
from gamps.trajectories import Episode, Trajectories, from_episodes

FALSE_ALARM = 1e-6
KEY = jax.random.key(0)


def on_policy(log):
    """Ratios of one, so that weighted values are the values."""
    return Ratios(jnp.zeros(log.mask.shape), log.mask.astype(float), jnp.zeros(()))


def evaluate(estimator, policy, model, task, log, key=KEY):
    values = eqx.filter_jit(lambda k: estimator(k, policy, model, task, log, on_policy(log)))(key)
    return np.asarray(values.weighted_q_values), np.asarray(values.state_values)


@pytest.mark.parametrize("shape", [(3,), (50, 8, 20, 3)])
def test_noise_is_that_of_jax(shape):
    """Folded afterwards, for the compiler's sake: no number may change by it, nor under vmap."""
    keys = jax.random.split(KEY, 3)

    @jax.jit
    def both(keys):
        return [
            jax.vmap(lambda key, one=one: one(key, shape, jnp.float32))(keys)
            for one in (normal, jax.random.normal)
        ]

    np.testing.assert_array_equal(*both(keys))


# A linear system with quadratic reward, in two dimensions and one action.
MOVE = jnp.array([[-0.2, 0.1], [0.3, -0.4], [0.5, 0.2], [0.1, -0.1]])  # of [s, a, 1]
SPREAD = jnp.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.3, 0.2]])
COST = jnp.array([[1.0, 0.2], [0.2, 0.5]])
EFFORT, PULL, GAMMA = 0.3, jnp.array([0.4, -0.7]), 0.9


def with_bias(s, a):
    return jnp.concatenate([s, a, jnp.ones(1, s.dtype)])


def quadratic(s, a, following):
    return -(s @ COST @ s) - EFFORT * a[0] ** 2 + PULL @ following


LQ = LinearGaussianModel(MOVE, SPREAD, with_bias, least_std=0.0)
LINEAR = LinearGaussianPolicy(jnp.array([[-0.5], [0.3], [0.2]]), log_std=jnp.log(jnp.array([0.4])))
LQ_TASK = Task(quadratic, GAMMA)


def exact_lq(horizon):
    """Q_H as a quadratic form of [s, a, 1], and V_H of [s, 1], by the Riccati recursion."""
    move = np.zeros((3, 4))
    move[:2, :2], move[:2] = np.eye(2), move[:2]
    move[:2] = np.asarray(MOVE).T + np.hstack([np.eye(2), np.zeros((2, 2))])
    move[2, 3] = 1
    now = np.zeros((4, 4))
    now[:2, :2], now[2, 2] = -np.asarray(COST), -EFFORT
    pull = np.asarray(PULL) @ move[:2]
    now[3] += pull / 2
    now[:, 3] += pull / 2
    gain = np.asarray(LINEAR.weights)[:, 0]
    act = np.array([[1, 0, 0], [0, 1, 0], gain, [0, 0, 1]])
    noise = np.diag(np.asarray(SPREAD)[3] ** 2)
    v = np.zeros((3, 3))
    for _ in range(horizon):
        q = now + GAMMA * move.T @ v @ move
        q[3, 3] += GAMMA * np.trace(v[:2, :2] @ noise)
        v = act.T @ q @ act
        v[2, 2] += 0.4**2 * q[2, 2]
    return q, v


def lq_log(n=2, steps=3):
    return Trajectories(
        jax.random.normal(jax.random.key(1), (n, steps + 1, 2)),
        jax.random.normal(jax.random.key(2), (n, steps, 1)),
        jnp.zeros((n, steps)), jnp.zeros((n, steps)), jnp.ones((n, steps), bool),
        jnp.zeros(n, bool),
    )  # fmt: skip


def lq_values(log, horizon):
    q, v = exact_lq(horizon)
    ones = np.ones((*log.mask.shape, 1))
    pair = np.concatenate([log.states, log.actions, ones], axis=-1)
    state = np.concatenate([log.states, ones], axis=-1)
    return (
        np.einsum("nti,ij,ntj->nt", pair, q, pair),
        np.einsum("nti,ij,ntj->nt", state, v, state),
    )


def spread_of_returns(policy, model, task, log, horizon, n=2000):
    """Standard deviation of one imagined return from each logged pair, and from each state."""

    @eqx.filter_jit
    def one(state, action):
        noise = draw(
            KEY, policy, model, starts=1, rollouts=n, horizon=horizon, antithetic=False, dtype=float
        )
        state, action = (jnp.repeat(x[..., None], n, axis=-1) for x in (state, action))
        from_pair = returns(policy, model, task, noise, state, action)
        return jnp.std(from_pair), jnp.std(returns(policy, model, task, noise, state))

    found = jax.lax.map(lambda x: jax.vmap(one)(*x), (log.states, log.actions))
    return tuple(np.asarray(x) for x in found)


def assert_close_to(found, exact, standard_error):
    """No estimate further off than chance allows, all of them taken together."""
    limit = scipy.stats.norm.isf(FALSE_ALARM / 2 / found.size)
    z = (found - exact) / standard_error
    assert np.abs(z).max() < limit, z


@pytest.mark.parametrize("block", [2000, 300_000])
@pytest.mark.parametrize("sharing", ["blocks", "none", "all"])
def test_q_and_v_of_a_linear_system(sharing, block):
    """M = 10^5 imagined trajectories against the closed form, one or three starts to a block."""
    log, horizon, rollouts = lq_log(), 8, 100_000
    estimator = Imagined(
        rollouts=rollouts, horizon=horizon, sharing=sharing, antithetic=False, block=block
    )
    q, v = evaluate(estimator, LINEAR, LQ, LQ_TASK, log)
    exact_q, exact_v = lq_values(log, horizon)
    spread_q, spread_v = spread_of_returns(LINEAR, LQ, LQ_TASK, log, horizon)
    assert_close_to(q, exact_q, spread_q / np.sqrt(rollouts))
    assert_close_to(v, exact_v, spread_v / np.sqrt(rollouts))


@pytest.mark.parametrize("antithetic", [True, False])
@pytest.mark.parametrize("sharing", ["blocks", "none", "all"])
def test_who_shares_noise(sharing, antithetic):
    """From twelve equal starts, four to a block, Q̂ shows who has whose noise."""
    log = jax.tree.map(lambda x: jnp.repeat(x, 12, axis=0), lq_log(n=1, steps=1))
    estimator = Imagined(rollouts=6, horizon=4, block=24, sharing=sharing, antithetic=antithetic)
    distinct = {"blocks": 4, "none": 12, "all": 1}[sharing]
    for values in evaluate(estimator, LINEAR, LQ, LQ_TASK, log):
        assert len(np.unique(values.round(9))) == distinct
        repeated = np.tile(values.ravel()[:distinct], 12 // distinct)
        np.testing.assert_allclose(values.ravel(), repeated, rtol=1e-9)


class Drift(Model):
    """Half a step of whatever is done, and a little noise."""

    noise_size = 1

    def step(self, observation, action, noise):
        return observation + 0.5 * action + 0.1 * noise


class Wobble(Policy):
    """Any number around a third of the state."""

    noise_size = 1

    def act(self, observation, noise):
        return observation / 3 + noise


def test_a_log_of_whole_numbers_imagines_what_its_floats_do():
    whole = from_episodes([Episode([[0], [1], [2]], [[1], [-1]], [0.0, 0.0], [-1.0, -1.0])])
    assert jnp.issubdtype(whole.observations.dtype, jnp.integer)
    floats = eqx.tree_at(
        lambda t: (t.observations, t.actions), whole, replace_fn=lambda x: x.astype(float)
    )
    task = Task(lambda s, a, n: n[0] - a[0] ** 2, 0.9)
    estimator = Imagined(rollouts=4, horizon=5)
    for a, b in zip(
        evaluate(estimator, Wobble(), Drift(), task, whole),
        evaluate(estimator, Wobble(), Drift(), task, floats),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_z_test_sees_a_wrong_discount():
    log, rollouts = lq_log(), 100_000
    estimator = Imagined(rollouts=rollouts, horizon=8, antithetic=False)
    q, _ = evaluate(estimator, LINEAR, LQ, Task(quadratic, 0.89), log)
    error = spread_of_returns(LINEAR, LQ, LQ_TASK, log, 8)[0] / np.sqrt(rollouts)
    with pytest.raises(AssertionError):
        assert_close_to(q, lq_values(log, 8)[0], error)


def test_antithetic_noise_cancels_what_is_linear():
    """With a reward linear in the states one pair of trajectories gives the exact Q."""
    log = lq_log()
    task = Task(lambda s, a, following: PULL @ following, GAMMA)
    one, _ = evaluate(Imagined(rollouts=2, horizon=6), LINEAR, LQ, task, log)
    other, _ = evaluate(Imagined(rollouts=2, horizon=6), LINEAR, LQ, task, log, jax.random.key(9))
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_gridworld_agrees_with_the_exact_solve():
    env = two_areas("A")
    behaviour, log = log_of(env, jax.random.key(0), 10)
    model = eqx.tree_at(lambda m: m.logits, env.effect_model(), jax.random.normal(KEY, (4, 5)))
    horizon, rollouts = 12, 2000
    estimator = Imagined(rollouts=rollouts, horizon=horizon, antithetic=False)
    q, v = evaluate(estimator, behaviour, model, env.task(), log)
    exact_q, exact_v = evaluate(Exact(horizon=horizon), behaviour, model, env.task(), log)
    mask = np.asarray(log.mask)
    spread = spread_of_returns(behaviour, model, env.task(), log, horizon)
    # A pair from which the goal cannot be reached within the horizon has no spread at all.
    error_q, error_v = (np.maximum(s[mask], 1e-6) / np.sqrt(rollouts) for s in spread)
    assert_close_to(q[mask], exact_q[mask], error_q)
    assert_close_to(v[mask], exact_v[mask], error_v)
    assert not q[~mask].any()


def deterministic():
    """A chain 0 → 1 → 2 → 3 → 3 by action 1, staying by action 0, and a policy that always goes."""
    following = np.array([[0, 1], [1, 2], [2, 3], [3, 3]])
    logits = jnp.where(jax.nn.one_hot(following, 4) > 0, 0.0, -jnp.inf)
    policy = Boltzmann(jnp.zeros((4, 2)), OneHot(4), jnp.ones(4, dtype=int))
    rng = np.random.default_rng(0)
    lengths = np.array([3, 7, 1, 5, 7])
    log = Trajectories(
        jnp.asarray(rng.integers(4, size=(5, 8))), jnp.asarray(rng.integers(2, size=(5, 7))),
        jnp.zeros((5, 7)), jnp.zeros((5, 7)), jnp.asarray(np.arange(7) < lengths[:, None]),
        jnp.zeros(5, bool),
    )  # fmt: skip
    task = Task(lambda s, a, n: -1.0 - s + 0.1 * a, 0.9, lambda s, a, n: n == 3)
    return policy, Tabular(logits), task, log


@pytest.mark.parametrize("block", [2, 4, 6, 10, 1000])
@pytest.mark.parametrize("sharing", ["blocks", "none", "all"])
def test_blocks_and_padding_change_nothing(block, sharing):
    """Without chance, Q is exact whatever the blocks, stops at the goal, and is zero in padding."""
    policy, model, task, log = deterministic()
    exact_q, exact_v = evaluate(Exact(horizon=9), policy, model, task, log)
    estimator = Imagined(rollouts=2, horizon=9, block=block, sharing=sharing)
    q, v = evaluate(estimator, policy, model, task, log)
    mask = np.asarray(log.mask)
    np.testing.assert_allclose(q[mask], exact_q[mask], atol=1e-12)
    np.testing.assert_allclose(v[mask], exact_v[mask], atol=1e-12)
    assert not q[~mask].any()
    assert not v[~mask].any()


def test_padding_is_not_rolled_out():
    """The loop ends with the last block that holds a real step."""
    policy, model, _, log = deterministic()
    visited = []

    def reward(s, a, n):
        jax.debug.callback(lambda x: visited.append(1), s)
        return -1.0

    evaluate(Imagined(rollouts=2, horizon=1, block=2), policy, model, Task(reward, 0.9), log)
    jax.effects_barrier()
    # Two rollouts of one step from each of 23 real steps, for Q and for V; with padding 140.
    assert len(visited) == 2 * 2 * int(log.mask.sum()) == 92


def one_hot_pair(s, a):
    return jax.nn.one_hot(s * 2 + a, 8, dtype=float)


def test_fitted_q_equals_the_exact_solve_in_a_table():
    policy, model, task, log = deterministic()
    exact_q, exact_v = evaluate(Exact(), policy, model, task, log)
    fitted = FittedQ(one_hot_pair, samples=2, sweeps=60, ridge=0.0)
    pairs = zip(log.states[log.mask].tolist(), log.actions[log.mask].tolist(), strict=True)
    assert len(set(pairs)) == 8, "the log must show every pair for a table to be fitted"
    q, v = evaluate(fitted, policy, model, task, log)
    mask = np.asarray(log.mask)
    np.testing.assert_allclose(q[mask], exact_q[mask], atol=1e-9)
    np.testing.assert_allclose(v[mask], exact_v[mask], atol=1e-9)


def products(s, a):
    x = jnp.concatenate([s, a, jnp.ones(1, s.dtype)])
    return jnp.outer(x, x)[jnp.triu_indices(4)]


def test_fitted_q_and_the_tail_see_past_the_horizon():
    """The value of a linear system is quadratic: fitted Q finds it, and two steps with it do."""
    log = lq_log(n=200, steps=10)
    exact_q, exact_v = lq_values(log, 400)
    fitted = FittedQ(products, samples=50, sweeps=400)
    q, v = evaluate(fitted, LINEAR, LQ, LQ_TASK, log)
    scale = exact_q.std()
    assert np.abs(q - exact_q).mean() < 0.02 * scale
    assert np.abs(v - exact_v).mean() < 0.1 * scale  # fifty actions a state, the same for all
    few = log_rows(log, 20)
    truth = lq_values(few, 400)[0]
    cut, _ = evaluate(Imagined(rollouts=400, horizon=2), LINEAR, LQ, LQ_TASK, few)
    tailed, _ = evaluate(Imagined(rollouts=400, horizon=2, tail=fitted), LINEAR, LQ, LQ_TASK, few)
    assert np.abs(tailed - truth).mean() < 0.2 * np.abs(cut - truth).mean()


def log_rows(log, n):
    return jax.tree.map(lambda x: x[:n], log)


def test_the_kernel_equals_a_loop_written_by_hand():
    """Same noise, same numbers: the library's returns and NumPy's."""
    given = kernels.parts(2, 50)
    plain = kernels.plain(given)
    found = kernels.numpy_loop(plain, rollouts=4, horizon=5, block=400)()
    z_model, z_policy = kernels._noise(5, 400)
    noise = Noise(jnp.zeros((2, 400)), jnp.asarray(z_model), jnp.asarray(z_policy))
    states, actions = (jnp.repeat(jnp.asarray(x.T), 4, axis=-1) for x in plain[:2])
    total = returns(given.policy, given.model, given.task, noise, states, actions)
    np.testing.assert_allclose(total.reshape(100, 4).mean(axis=1), found, rtol=1e-4, atol=1e-4)
    bare = kernels.bare(plain, rollouts=4, horizon=5, block=400)()
    np.testing.assert_allclose(np.asarray(bare).ravel(), found, rtol=1e-4, atol=1e-4)


def test_the_gradient_in_float32_is_that_in_float64():
    """Imagined Q, per-time baseline and policy gradient, with the same noise in both."""
    log = lq_log(n=20, steps=10)
    noise = draw(KEY, LINEAR, LQ, starts=200, rollouts=4, horizon=25, antithetic=False, dtype=float)

    @eqx.filter_jit
    def gradient(policy, model, task, noise, log):
        def starts(x):
            return jnp.repeat(jnp.moveaxis(x.reshape(200, -1), 0, -1), 4, axis=-1)

        total = returns(policy, model, task, noise, starts(log.states), starts(log.actions))
        q = jnp.mean(total.reshape(20, 10, 4), axis=-1)
        ratios = Ratios.of(jnp.zeros_like(q), log.mask, task.discount)
        values = Values(ratios.discounted_rho * q)
        advantages = values.weighted_q_values - PerTime()(policy, log, ratios, values)
        return ravel_pytree(gradients.off_policy(policy, log, advantages))[0]

    exact = (LINEAR, LQ, LQ_TASK, noise, log)
    rough = jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, exact)
    a, b = gradient(*exact), gradient(*rough)
    assert (a.dtype, b.dtype) == (jnp.float64, jnp.float32)
    assert float(a @ b / jnp.linalg.norm(a) / jnp.linalg.norm(b)) >= 0.9999


@pytest.mark.parametrize(
    "settings",
    [{"rollouts": 0}, {"horizon": 0}, {"block": 0}, {"rollouts": 3}],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        Imagined(**settings)


def stacked(*models):
    return jax.tree.map(lambda *x: jnp.stack(x) if eqx.is_array(x[0]) else x[0], *models)


def test_an_ensemble_imagines_what_its_members_do():
    log = lq_log(5)
    moves = (MOVE, 0.5 * MOVE, 0.2 * MOVE)
    each = [LinearGaussianModel(move, SPREAD, with_bias, least_std=0.0) for move in moves]
    members = stacked(*each)
    estimator = Imagined(rollouts=12, horizon=6)
    found = evaluate(estimator, LINEAR, Ensemble(members, 3), LQ_TASK, log)
    alone = [
        evaluate(Imagined(rollouts=4, horizon=6), LINEAR, member, LQ_TASK, log, key)
        for member, key in zip(each, jax.random.split(KEY, 3), strict=True)
    ]
    for i in range(2):
        np.testing.assert_allclose(found[i], np.mean([a[i] for a in alone], axis=0), rtol=1e-9)
    assert np.abs(alone[0][0] - alone[2][0]).max() > 0.1


def test_an_ensemble_needs_as_many_rollouts_for_each():
    members = stacked(LQ, LQ, LQ)
    for rollouts in (4, 10):
        with pytest.raises(SettingError, match="over 3 members"):
            evaluate(Imagined(rollouts=rollouts), LINEAR, Ensemble(members, 3), LQ_TASK, lq_log(1))


class Sliding(Model):
    """s' = s + a, without noise."""

    push: jax.Array

    @property
    def noise_size(self):
        return 1

    def step(self, observation, action, noise):
        return observation + self.push * action

    def log_prob(self, observation, action, next_observation):
        raise NotImplementedError


def sliding():
    """An ensemble of one that has seen observations from 0 to 2."""
    one = jnp.ones(1)
    support = LogRange(0 * one, 2 * one, one)
    return Ensemble(Sliding(jnp.ones((1, 1))), 1, support)


@pytest.mark.parametrize("fall", [-3.0, 0.0])
@pytest.mark.parametrize("width", [0.1, 0.5])
def test_beyond_the_log_a_trajectory_ends_low(fall, width):
    """From 1.5 by steps of 0.7: beyond by 0.2, and then, back at the border, by 0.7 each time."""
    model = sliding()
    policy = LinearGaussianPolicy(jnp.asarray([[0.0], [0.7]]), log_std=jnp.zeros(1))
    task, horizon = Task(lambda s, a, n: n[0], 0.9), 4
    silent = Noise(jnp.zeros((1, 1)), jnp.zeros((horizon, 2, 1)), jnp.zeros((horizon, 1, 1)))
    border = Border(jnp.asarray(fall), jnp.asarray(width))
    states = jnp.full((1, 1), 1.5)
    found = float(returns(policy, model, task, silent, states, border=border)[0])
    total, weight = 0.0, 1.0
    for excess in (0.2, 0.7, 0.7, 0.7):
        total += weight * 2.0  # at the border, brought back
        weight *= 0.9
        stays = np.exp(-((excess / 2 / width) ** 2))
        total += weight * (1 - stays) * fall
        weight *= stays
    assert found == pytest.approx(total, rel=1e-5)
    kept = float(returns(policy, model, task, silent, states)[0])
    assert kept == pytest.approx(2 * (1 + 0.9 + 0.81 + 0.729), rel=1e-5)


def test_an_end_beyond_the_log_is_imagined():
    """The task ends at 2.1, which the log has never seen and a model kept inside never reaches."""
    model = sliding()
    policy = LinearGaussianPolicy(jnp.asarray([[0.0], [0.7]]), log_std=jnp.zeros(1))
    task = Task(lambda *_: jnp.ones(()), 1.0, lambda s, a, n: n[0] > 2.1)
    silent = Noise(jnp.zeros((1, 1)), jnp.zeros((5, 2, 1)), jnp.zeros((5, 1, 1)))
    found = returns(policy, model, task, silent, jnp.full((1, 1), 1.35))
    assert float(found[0]) == 2.0  # 2.05 is beyond the log, 2.7 is the end
