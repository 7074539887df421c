"""The all-action gradient and the parts beside it, against exact numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import truth
from gamps import search
from gamps.envs import Minigolf
from gamps.errors import SettingError
from gamps.models import (
    Ensemble,
    LinearGaussianModel,
    LogRange,
    Quadratic,
    RandomFourier,
    Tabular,
    concatenated,
)
from gamps.models.features import cosine
from gamps.policies import Annealed, Boltzmann, LinearGaussianPolicy, OneHot, natural_units
from gamps.search import Search, gradients
from gamps.search.fitting import ClosedForm, EachMember, Keep
from gamps.search.gradients import AllActions
from gamps.search.importance import Ratios, log_rho
from gamps.search.values import Exact, Imagined, NoBaseline, OthersOfState, Values
from gamps.search.weights import GradientAware, Ones, Tempered, tempered
from gamps.tasks import Task
from gamps.trajectories import Trajectories

KEY = jax.random.key(3)
FALSE_ALARM = 1e-6


def random_log(n=4, steps=5, size=2, actions=1):
    key_s, key_a = jax.random.split(KEY)
    return Trajectories(
        jax.random.normal(key_s, (n, steps + 1, size)),
        jax.random.normal(key_a, (n, steps, actions)),
        jnp.zeros((n, steps)),
        jnp.zeros((n, steps)),
        jnp.ones((n, steps), bool).at[0, 3:].set(False),
        jnp.zeros(n, bool),
    )


def table_log(n_states, n_actions):
    rng = np.random.default_rng(0)
    shape = (6, 4)
    return Trajectories(
        jnp.asarray(rng.integers(n_states, size=(6, 5))),
        jnp.asarray(rng.integers(n_actions, size=shape)),
        jnp.zeros(shape),
        jnp.full(shape, -1.0),
        jnp.ones(shape, bool).at[2, 1:].set(False),
        jnp.zeros(6, bool),
    )


class Sampled(Boltzmann):
    """Whose actions are drawn, as those of a policy without choices."""

    @property
    def choices(self):
        return None


@pytest.mark.parametrize("drawn", [False, True])
def test_all_action_gradient_is_that_of_the_logged_states(drawn):
    """Mean over draws against Σ_s Σ_a ∇π(a|s) Q(s, a), z-tests with Bonferroni."""
    mdp = truth.random_mdp(0, 4, 3, 0.9)
    policy, log = truth.random_policy(1, 4, 3), table_log(4, 3)
    policy = Sampled(policy.weights, policy.features, policy.forced) if drawn else policy
    task, model = Task(lambda s, a, n: mdp.rewards[s, a], 0.9), Tabular(jnp.log(mdp.transitions))
    ratios = Ratios.of(log_rho(policy, log), log.mask, 0.9)
    pairs = AllActions(states=400, actions=4)

    @jax.jit
    def one(key):
        at, at_ratios = pairs(key, policy, model, task, log, ratios)
        values = Exact()(key, policy, model, task, at, at_ratios)
        part = OthersOfState() if drawn else NoBaseline()
        baseline = part(policy, at, at_ratios, values)
        gradient = gradients.off_policy(policy, at, values.weighted_q_values - baseline)
        return truth.flat(gradient) / (pairs.actions if drawn else 1)

    found = np.asarray(jax.lax.map(one, jax.random.split(KEY, 300)))
    pi, _ = truth.tables(policy)

    def exact_q(s, a):
        alone = Trajectories(
            jnp.full((1, 2), s), jnp.full((1, 1), a), jnp.zeros((1, 1)), jnp.zeros((1, 1)),
            jnp.ones((1, 1), bool), jnp.zeros(1, bool),
        )  # fmt: skip
        unit = Ratios(jnp.zeros((1, 1)), jnp.ones((1, 1)), jnp.zeros(()))
        return Exact()(KEY, policy, model, task, alone, unit).weighted_q_values[0, 0]

    q = jnp.array([[exact_q(s, a) for a in range(3)] for s in range(4)])
    real = np.asarray(log.mask).ravel()
    share = np.bincount(np.asarray(log.states).ravel()[real], minlength=4) / real.sum()
    advantage = q - jnp.sum(pi * q, axis=1, keepdims=True)
    exact = np.asarray(share[:, None] * pi * advantage).ravel()
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    used = error > 1e-12
    z = (found.mean(axis=0) - exact)[used] / error[used]
    assert used.sum() >= 9
    assert np.abs(z).max() < scipy.stats.norm.isf(FALSE_ALARM / used.sum() / 2)
    wrong = np.asarray(share[:, None] * pi * q).ravel()[used]
    assert np.abs((found.mean(axis=0)[used] - wrong) / error[used]).max() > 20


def others(count, values):
    policy = LinearGaussianPolicy(jnp.zeros((3, 1)), log_std=jnp.zeros(1))
    ones = jnp.ones((1, count))
    return OthersOfState()(
        policy, random_log(1, count), Ratios(jnp.zeros_like(ones), ones, jnp.zeros(())), values
    )


def test_others_of_state_leaves_an_action_and_its_mirror_out():
    values = Values(jnp.array([[1.0, 3.0, 8.0, 6.0]]))
    found = others(4, values)
    assert found.tolist() == [[4.5, 4.5, 4.5, 4.5]]
    six = Values(jnp.array([[1.0, 3.0, 8.0, 6.0, 2.0, 4.0]]))
    found = others(6, six)
    assert found.tolist() == [[4.25, 4.75, 3.0, 4.25, 4.75, 3.0]]
    with pytest.raises(SettingError, match="two pairs"):
        others(2, Values(jnp.ones((1, 2))))


def test_rolled_states_are_where_the_model_leads():
    """A model that adds one: 0 to 3 steps, equally often; where that ends, none."""
    log = random_log(3, 4, size=1)
    log = eqx.tree_at(lambda t: t.observations, log, jnp.zeros_like(log.observations))
    policy = LinearGaussianPolicy(jnp.zeros((2, 1)), log_std=jnp.zeros(1))
    up = LinearGaussianModel(jnp.ones((1, 1)), jnp.zeros((1, 1)), lambda s, a: jnp.ones(1), 1e-9)
    ratios = Ratios.of(jnp.zeros(log.mask.shape), log.mask, 0.9)
    at, _ = AllActions(4_000, 2, roll=3)(KEY, policy, up, Task(lambda *_: 0.0, 0.9), log, ratios)
    counts = np.bincount(np.rint(np.asarray(at.states[:, 0, 0])).astype(int), minlength=4)
    assert scipy.stats.chisquare(counts).pvalue > FALSE_ALARM
    short = Task(lambda *_: 0.0, 0.9, lambda s, a, n: n[0] > 2.5)
    at, _ = AllActions(4_000, 2, roll=9)(KEY, policy, up, short, log, ratios)
    counts = np.bincount(np.rint(np.asarray(at.states[:, 0, 0])).astype(int), minlength=3)
    assert scipy.stats.chisquare(counts, [3_200, 400, 400]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("arguments", [dict(actions=3), dict(actions=0), dict(states=0)])
def test_all_actions_refuses(arguments):
    with pytest.raises(SettingError):
        AllActions(**arguments)


def test_cosine():
    """Against NumPy in double precision; far from zero as good as the argument is rounded."""
    x = np.linspace(-40, 40, 400_001, dtype=np.float32)
    apart = np.abs(np.asarray(cosine(jnp.asarray(x))) - np.cos(x, dtype=np.float64))
    assert apart[np.abs(x) < 7].max() < 1e-6
    assert apart.max() < 5e-6


def test_random_fourier_is_a_gaussian_kernel():
    """2/F Σ cos cos → exp(-‖x - y‖² / 2 width²) in standard deviations of the log."""
    log = random_log(50, 8)
    features = RandomFourier.create(KEY, log, size=20_000, width=1.5)
    x, y = (jnp.array([0.3, -0.2]), jnp.array([0.5])), (jnp.array([1.0, 0.4]), jnp.array([-0.3]))
    cosines = [features(*z)[4:] for z in (x, y)]
    real = np.asarray(log.mask).ravel()
    rows = np.concatenate(
        [np.asarray(log.states).reshape(-1, 2), np.asarray(log.actions).reshape(-1, 1)], axis=1
    )[real]
    apart = (np.concatenate(x) - np.concatenate(y)) / (1.5 * rows.std(axis=0))
    found = float(2 * jnp.mean(cosines[0] * cosines[1]))
    assert found == pytest.approx(np.exp(-0.5 * np.sum(apart**2)), abs=5 / np.sqrt(20_000))
    assert features(*x)[:4].tolist() == pytest.approx([1.0, 0.3, -0.2, 0.5])


def test_reweighting_is_worth_it_where_noise_grows():
    """ε = 2x + x² noise: the reweighted slope varies much less than plain least squares'."""

    def slopes(reweighted):
        zeros = jnp.zeros((2, 1))
        model = LinearGaussianModel(
            zeros,
            zeros,
            lambda s, a: jnp.stack([a[0], a[0] ** 2]),
            jnp.full(1, 1e-3),
            reweighted=reweighted,
        )

        @jax.jit
        def slope(key):
            key_x, key_noise = jax.random.split(key)
            x = jax.random.uniform(key_x, (60, 1), minval=0.2, maxval=3.0)
            differences = 2 * x + x**2 * jax.random.normal(key_noise, x.shape)
            fitted = model
            for _ in range(model.passes):
                statistics = fitted.statistics(jnp.zeros_like(x), x, differences, jnp.ones(60))
                fitted = fitted.from_statistics(statistics)
            return fitted.mean_weights[0, 0]

        return np.asarray(jax.lax.map(slope, jax.random.split(KEY, 200)))

    plain, precise = slopes(False), slopes(True)
    assert abs(precise.mean() - 2) < 5 * precise.std() / np.sqrt(200)
    assert precise.std() < 0.6 * plain.std()


def ensemble_of(log, size=3, support=True):
    zeros = jnp.zeros((6, 1))
    one = LinearGaussianModel(zeros, zeros, Quadratic(), jnp.full(1, 1e-3), reweighted=True)
    members = jax.tree.map(lambda x: jnp.stack([x] * size) if eqx.is_array(x) else x, one)
    plain = Ensemble(members, size, LogRange.of(log) if support else None)
    return EachMember(ClosedForm())(KEY, plain, log, log.mask.astype(float))[0]


def test_imagination_stays_in_the_range_of_the_log():
    log = random_log(20, 6, size=1)
    model = ensemble_of(log)
    low, high = float(log.observations.min()), float(log.observations.max())
    assert float(model.step(jnp.array([high]), jnp.array([50.0]), jnp.ones(2))[0]) in (low, high)


def test_actions_of_a_state_share_their_noise():
    """Equal actions in a row have equal values, and rows have noise of their own."""
    log = random_log(6, 4, size=1)
    same = eqx.tree_at(lambda t: (t.actions, t.mask, t.observations), log,
                       (jnp.ones_like(log.actions), jnp.ones_like(log.mask),
                        jnp.zeros_like(log.observations)))  # fmt: skip
    model = LinearGaussianModel(jnp.zeros((2, 1)), jnp.zeros((2, 1)), concatenated, 1.0)
    policy = LinearGaussianPolicy(jnp.zeros((2, 1)), log_std=jnp.zeros(1))
    unit = Ratios(jnp.zeros((6, 4)), jnp.ones((6, 4)), jnp.zeros(()))
    values = Imagined(rollouts=2, horizon=3, sharing="rows", antithetic=False, block=16)
    q = values(KEY, policy, model, Task(lambda s, a, n: n[0], 0.9), same, unit).weighted_q_values
    assert np.ptp(np.asarray(q), axis=1) == pytest.approx(np.zeros(6))
    assert len(np.unique(np.asarray(q[:2, 0]).round(9))) == 2


@pytest.mark.parametrize("support", [True, False])
def test_members_take_turns_and_a_state_is_compared_in_one_of_them(support):
    """Row i has the values of member i modulo three, of seven rows; members without noise."""
    log = random_log(7, 4, size=1)
    moves = jnp.array([[[0.5], [1.0]], [[1.0], [2.0]], [[3.0], [1.0]]])
    members = LinearGaussianModel(moves, 0 * moves, concatenated, jnp.zeros(3))
    model = Ensemble(members, 3, LogRange.of(log) if support else None)
    policy = LinearGaussianPolicy(jnp.zeros((2, 1)), log_std=jnp.full(1, -jnp.inf))
    rho = log.mask * jnp.linspace(0.5, 1.0, 7)[:, None]
    ratios = Ratios(jnp.log(rho), rho, jnp.zeros(()))
    values = Imagined(rollouts=2, horizon=3, sharing="rows", antithetic=False)
    task = Task(lambda s, a, n: n[0], 0.9)
    found = values(KEY, policy, model, task, log, ratios)
    for i in range(3):
        one = model.alone(jax.tree.map(lambda x, i=i: x[i], eqx.filter(members, eqx.is_array)))
        alone = values(KEY, policy, one, task, log, ratios)
        for each, expected in zip(found, alone, strict=True):
            np.testing.assert_allclose(each[i::3], expected[i::3], rtol=1e-9)
    # Three discounted steps at the edge of the log; the third member runs away without a support.
    edge = 2.71 * float(jnp.abs(log.observations).max())
    assert (float(jnp.abs(found.weighted_q_values).max()) <= edge) == support


def test_natural_units_of_a_linear_policy():
    """Score of W is φ (a - mean) / σ²: with a drawn from the policy its square has mean φ²/σ²."""
    states = jax.random.normal(KEY, (200, 51, 1)) * 3
    policy = LinearGaussianPolicy(
        jnp.zeros((2, 1)), log_std=jnp.log(jnp.array([0.5])), learn_std=False
    )
    actions = 0.5 * jax.random.normal(jax.random.key(8), (200, 50, 1))
    log = Trajectories(states, actions, jnp.zeros((200, 50)), jnp.zeros((200, 50)),
                       jnp.ones((200, 50), bool), jnp.zeros(200, bool))  # fmt: skip
    units = natural_units(policy, log)
    rms = np.sqrt(np.mean(np.asarray(log.states) ** 2))
    assert np.asarray(units.weights).ravel() == pytest.approx([0.5 / rms, 0.5], rel=0.05)
    assert units.log_std.tolist() == [0.0]


def test_divergences_against_sums_and_draws():
    first, second = truth.random_policy(1, 3, 4), truth.random_policy(2, 3, 4)
    for s in range(3):
        logs = [np.asarray(jax.nn.log_softmax(p.weights[s])) for p in (first, second)]
        exact = np.sum(np.exp(logs[0]) * (logs[0] - logs[1]))
        assert float(first.divergence(second, jnp.array(s))) == pytest.approx(exact)
    forced = Boltzmann(first.weights, OneHot(3), jnp.array([-1, 2, -1]))
    assert float(forced.divergence(second, jnp.array(1))) == 0.0
    wide = LinearGaussianPolicy(jnp.ones((2, 1)), log_std=jnp.array([0.3]))
    narrow = LinearGaussianPolicy(jnp.array([[0.5], [0.0]]), log_std=jnp.array([-0.2]))
    state = jnp.array([0.7])
    drawn = jax.vmap(lambda k: wide.sample(k, state))(jax.random.split(KEY, 100_000))
    gaps = jax.vmap(lambda a: wide.log_prob(state, a) - narrow.log_prob(state, a))(drawn)
    z = (float(gaps.mean()) - float(wide.divergence(narrow, state))) / float(gaps.std()) * 316.2
    assert abs(z) < scipy.stats.norm.isf(FALSE_ALARM / 2)
    with pytest.raises(SettingError):
        wide.divergence(first, state)


def test_trust_region_shortens_the_step():
    env = Minigolf()
    log = random_log(6, 4, size=1)
    policy = env.policy()
    log = eqx.tree_at(lambda t: t.observations, log, 10 + log.observations)
    model = env  # the game is its own model

    def stepped(limit):
        climb = Search(
            log, env.task(), weighting=Ones(), fit=Keep(), values=Imagined(rollouts=2, horizon=2),
            baseline=OthersOfState(), learning_rate=0.1, pairs=AllActions(20, 4), largest_kl=limit,
        )  # fmt: skip
        state, _, _ = search.run(climb, KEY, climb.init(policy, model), iterations=1)
        at, _ = AllActions(20, 4)(
            jax.random.fold_in(jax.random.fold_in(KEY, 0), 2), policy, model, env.task(), log,
            Ratios.of(log_rho(policy, log), log.mask, 0.99),
        )  # fmt: skip
        each = jax.vmap(lambda s: policy.divergence(state.policy, s))(at.states[:, 0])
        return float(each.mean())

    free = stepped(None)
    assert stepped(free / 50) == pytest.approx(free / 50, rel=0.2)
    assert stepped(2 * free) == pytest.approx(free)


def test_annealed_deviation():
    policy = LinearGaussianPolicy(jnp.zeros((2, 2)), log_std=jnp.zeros(2))
    part = Annealed(0.8, 0.2, 10)
    found = [float(jnp.exp(part(policy, jnp.asarray(i)).log_std[1])) for i in (0, 5, 10, 99)]
    assert found == pytest.approx([0.8, 0.4, 0.2, 0.2])
    with pytest.raises(SettingError, match="Gaussian"):
        part(truth.random_policy(1, 3, 4), jnp.asarray(0))


def test_tempered_weights():
    omega, mask = jnp.array([[4.0, 1.0], [0.0, 9.0]]), jnp.array([[True, True], [True, False]])
    assert tempered(omega, mask, 0.0).tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert np.asarray(tempered(omega, mask, 1.0)) == pytest.approx(
        np.array([[2.4, 0.6], [0.0, 0.0]])
    )
    assert np.asarray(tempered(omega, mask, 0.5)) == pytest.approx(
        np.array([[2.0, 1.0], [0.0, 0.0]])
    )
    log, policy = table_log(4, 3), truth.random_policy(1, 4, 3)
    ratios = Ratios.of(log_rho(policy, log), log.mask, 0.9)
    full = GradientAware()(policy, log, ratios)
    part = Tempered(exponent=1.0)(policy, log, ratios)
    assert np.asarray(part) == pytest.approx(np.asarray(full * log.mask.sum() / full.sum()))
    with pytest.raises(SettingError):
        Tempered(exponent=1.5)
