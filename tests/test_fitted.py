"""Fitted Q evaluation, bounds that always hold, and many runs as one number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.studies.judging import gridworld, minigolf
from gamps import evaluation
from gamps.errors import SettingError
from gamps.evaluation.aggregate import iqm, stratified
from gamps.models import LinearGaussianModel
from gamps.policies import Boltzmann, LinearGaussianPolicy, OneHot
from gamps.search import importance
from gamps.tasks import Task
from gamps.trajectories import Episode, from_episodes

KEY = jax.random.key(0)


def walk(actions, steps, ends):
    """Three places in a row; right is one on, left stays; a step costs its place."""
    here, seen, gained = 0, [0], []
    for action in actions[:steps]:
        gained.append(-1.0 - here)
        here = min(here + action, 2)
        seen.append(here)
    density = np.full(len(gained), np.log(0.5))
    return Episode(np.asarray(seen), np.asarray(actions[:steps]), gained, density, terminated=ends)


ALWAYS = Boltzmann(jnp.zeros((3, 2)), OneHot(3), forced=jnp.asarray([1, 1, 1]))


def test_fitted_q_is_exact_where_everything_is_certain():
    """Every pair is logged and nothing is random: three steps of the policy cost 1 + 2γ + 3γ²."""
    rng = np.random.default_rng(0)
    log = from_episodes([walk(rng.integers(0, 2, 3), 3, ends=False) for _ in range(60)])
    q, v = evaluation.fitted_q(KEY, ALWAYS, log, 0.5).at(KEY, log)
    assert v[:, 0] == pytest.approx(np.full(60, -(1 + 2 * 0.5 + 3 * 0.25)), abs=1e-3)
    right = np.asarray(log.actions[:, 0]) == 1
    assert q[right, 0] == pytest.approx(v[right, 0], abs=1e-6)
    assert q[~right, 0] == pytest.approx(np.full((~right).sum(), -(1 + 0.5 + 2 * 0.25)), abs=1e-3)


def test_an_end_is_worth_nothing_and_a_cut_is_not():
    """Of three episodes one is over after a step, ended or cut off; the others go on from there."""
    whole = -(1 + 2 * 0.5 + 3 * 0.25)
    found = []
    for ends in (True, False):
        log = from_episodes([walk([1, 1, 1], n, ends=ends and n == 1) for n in (1, 3, 3)] * 10)
        found.append(evaluation.fitted_q(KEY, ALWAYS, log, 0.5).at(KEY, log)[1][0, 0])
    assert found[0] == pytest.approx(-1 / 3 + 2 / 3 * whole, abs=2e-3)
    assert found[1] == pytest.approx(whole, abs=2e-3)


def test_episodes_of_other_lengths():
    short, long = (from_episodes([walk([1, 1, 1], n, ends=False)] * 30) for n in (2, 3))
    fitted = evaluation.fitted_q(KEY, ALWAYS, short, 0.5)
    with pytest.raises(SettingError, match="3 steps, but Q was fitted for 2"):
        fitted.at(KEY, long)
    further = evaluation.fitted_q(KEY, ALWAYS, short, 0.5, steps=3)
    assert further.at(KEY, short)[1] == pytest.approx(fitted.at(KEY, short)[1])
    assert evaluation.cases(KEY, ALWAYS, short, long, Task(lambda s, a, n: 0.0, 0.5))
    odd = LinearGaussianPolicy(jnp.ones((2, 1)), log_std=jnp.zeros(1))
    with pytest.raises(SettingError, match="LinearGaussianPolicy on int"):
        evaluation.fitted_q(KEY, odd, short, 0.5)


def test_nothing_beyond_the_log_is_believed():
    """A policy far from the log: Q within the returns of what is left, V still the mean of Q."""
    problem = minigolf()
    far = problem.target(-2.5)
    log = problem.log(problem.behaviour, KEY, 100)
    fitted = evaluation.fitted_q(KEY, far, log, problem.discount)
    q, v = fitted.at(KEY, log)
    low, high = (float(x) for x in fitted.range)
    assert low >= problem.lowest
    assert high == 0.0
    for values in (q, v):
        assert low - 1e-3 <= values.min() <= values.max() <= high + 1e-3
    raw = np.asarray([fitted.features(s, a) @ fitted.weights[-1] for s, a in
                      zip(log.states[:, 0], 8 + 0 * log.actions[:, 0], strict=True)])  # fmt: skip
    assert raw.min() < low or raw.max() > high  # what a regression says out there


def test_a_value_beyond_every_return_is_not_believed():
    problem = gridworld()
    policy = problem.target(0.1)
    log = problem.log(problem.behaviour, KEY, 200)
    case = evaluation.cases(KEY, policy, log, log, problem.env.task())["doubly robust"]
    found = case.evidence
    assert evaluation.judge([case]).verdict.word == "deploy"
    shifted = found._replace(state_values=found.state_values + 30.0)
    verdict = evaluation.judge([case._replace(evidence=shifted)]).verdict
    assert verdict.word == "not shown to be better"
    assert "outside the range of the logged returns" in verdict.why


def test_blocks_add_up():
    """Five thousand transitions, in two blocks: a certain world is still exact."""
    rng = np.random.default_rng(3)
    log = from_episodes([walk(rng.integers(0, 2, 3), 3, ends=False) for _ in range(1_700)])
    v = evaluation.fitted_q(KEY, ALWAYS, log, 0.5).at(KEY, log)[1]
    assert v[:, 0] == pytest.approx(np.full(1_700, -(1 + 2 * 0.5 + 3 * 0.25)), abs=1e-3)


@pytest.mark.full
def test_fitted_q_on_minigolf_against_the_true_game():
    """Ten logs: the mean error within five standard errors and a tenth of the improvement."""
    problem = minigolf()
    policy = problem.target(0.3)
    truth, _ = problem.value(policy)
    base, _ = problem.value(problem.behaviour)
    found = []
    for i in range(10):
        log = problem.log(problem.behaviour, jax.random.key(i), 400)
        v = evaluation.fitted_q(KEY, policy, log, problem.discount).at(KEY, log)[1]
        found.append(v[:, 0].mean())
    error = np.std(found, ddof=1) / np.sqrt(10)
    assert abs(np.mean(found) - truth) < 5 * error + 0.1 * abs(truth - base)


@pytest.mark.full
def test_the_truth_of_the_gridworld_is_that_of_its_episodes():
    """A z-test of 100,000 games at 1e-6."""
    problem = gridworld()
    for distance in (-0.3, 0.3):
        policy = problem.target(distance)
        truth, error = problem.value(policy)
        assert error == 0
        log = problem.log(policy, jax.random.key(3), 100_000)
        returns = np.asarray(log.rewards) @ problem.discount ** np.arange(problem.steps)
        off = abs(returns.mean() - truth) / (returns.std() / np.sqrt(len(returns)))
        assert off < 4.9


@pytest.mark.full
def test_guaranteed_bounds_hold_where_nothing_else_does():
    """The policy that no interval of ratios covers: every log of 100 is covered."""
    problem = minigolf()
    policy = problem.target(1.0)
    truth, _ = problem.value(policy)
    missed = []
    for i in range(100):
        log = problem.log(problem.behaviour, jax.random.key(i), 50)
        found = evaluation.evidence(policy, log, problem.discount)
        bounds = evaluation.guaranteed(found, lowest=problem.lowest, highest=0.0)
        assert problem.lowest <= bounds.low <= truth <= bounds.high <= 0.0
        ratios = evaluation.student(evaluation.self_normalised(found))
        missed.append(not ratios.low <= truth <= ratios.high)
    assert np.mean(missed) > 0.3
    cut = found._replace(seen=found.seen & (np.arange(problem.steps) < 3))
    with pytest.raises(SettingError, match="cut off"):
        evaluation.guaranteed(cut, lowest=problem.lowest, highest=0.0)
    with pytest.raises(SettingError, match="range of returns"):
        evaluation.guaranteed(found, lowest=-3.0, highest=0.0)


def test_guaranteed_bounds_close_in_on_the_truth():
    """Without anything cut off they are those of plain averages: narrow, for many episodes."""
    problem = gridworld()
    policy = problem.target(0.1)
    truth, _ = problem.value(policy)
    log = problem.log(problem.behaviour, KEY, 20_000)
    found = evaluation.evidence(policy, log, problem.discount)
    bounds = evaluation.guaranteed(found, lowest=problem.lowest, highest=0.0)
    assert bounds.low <= truth <= bounds.high
    assert bounds.high - bounds.low < 8


def test_ratios_that_repeat_have_a_tail_index():
    """Of choices: the spacing of a few values is no tail; a heavy one is still seen."""
    rng = np.random.default_rng(0)

    def k(weights):
        return float(importance.pareto_k(jnp.log(jnp.asarray(weights))))

    for base in (1.3, 2.0):
        light = base ** rng.integers(0, 4, 200) * (1 + 1e-6 * rng.random(200))
        assert k(light) < 0.5
    assert k(4.0 ** rng.poisson(1.5, 400)) > 0.7
    assert k(np.r_[np.ones(197), np.full(3, 1_000.0)]) > 0.7
    assert k(np.r_[np.zeros(180), np.ones(20)]) == 0.0  # bounded: the rest cannot happen


def test_interquartile_means_and_strata():
    assert iqm(np.asarray([5.0])) == 5.0
    assert iqm(np.asarray([1.0, 2.0])) == 1.5
    assert iqm(np.arange(8.0)[None]) == pytest.approx([3.5])
    apart = stratified({"a": [0.0] * 4, "b": [1.0] * 4})
    assert apart.low == apart.high == apart.estimate == pytest.approx(0.5)
    mixed = stratified({"all": [0.0] * 4 + [1.0] * 4})
    assert mixed.low < 0.2
    assert mixed.high > 0.8
    with pytest.raises(SettingError, match="confidence"):
        stratified({"a": [0.0]}, confidence=0.3)


def test_a_bootstrap_of_one_column_is_that_of_all():
    """A plain mean is collapsed before it is resampled: the same counts, the same bounds."""
    rng = np.random.default_rng(2)
    numbers = rng.normal(size=(40, 5))
    plain = evaluation.Terms.of(numbers)
    nearly = evaluation.Terms.of(numbers, 1 + 1e-15)
    for corrected in (True, False):
        a, b = (evaluation.bootstrap(t, corrected=corrected) for t in (plain, nearly))
        assert a.low == pytest.approx(b.low)
        assert a.high == pytest.approx(b.high)


def test_doubly_robust_estimates_by_the_model_and_without_one():
    problem = minigolf()
    policy = problem.target(0.15)
    logs = [problem.log(problem.behaviour, jax.random.key(i), 40) for i in (0, 1)]
    zeros = jnp.zeros((2, 1))
    model = LinearGaussianModel(zeros, zeros, problem.env.model_features, rectified=True)
    names = {m is None: set(evaluation.cases(KEY, policy, *logs, problem.env.task(), m))
             for m in (None, model)}  # fmt: skip
    extra = {"direct", "doubly robust, model's Q", "weighted doubly robust, model's Q"}
    assert names[False] - names[True] == extra
