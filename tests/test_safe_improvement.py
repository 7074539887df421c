"""HCPI and SPIBB as the study writes them: what their papers say of simple cases."""

import importlib

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import truth
from gamps.evaluation import Evidence
from gamps.exact import tabular

study = importlib.import_module("benchmarks.studies.safe_improvement")


def problem(seed):
    mdp = truth.random_mdp(seed, 4, 3, 0.9)
    behaviour = np.asarray(truth.tables(truth.random_policy(seed, 4, 3))[0])
    return np.asarray(mdp.transitions), np.asarray(mdp.rewards), behaviour, mdp


@pytest.mark.parametrize("seed", range(3))
def test_spibb_of_a_long_log_is_the_best_policy(seed):
    moves, rewards, behaviour, mdp = problem(seed)
    pi = study.spibb(1e6 * moves, behaviour, rewards, 0.9, 5)
    best = float(mdp.initial @ tabular.optimal_values(mdp))
    assert float(tabular.expected_return(mdp, jnp.asarray(pi))) == pytest.approx(best, rel=1e-6)


def test_spibb_keeps_what_was_rarely_seen():
    moves, rewards, behaviour, _ = problem(1)
    few = 10.0 * moves
    np.testing.assert_allclose(study.spibb(few, behaviour, rewards, 0.9, 20), behaviour)
    few[0, 1] = few[2, 0] = 100 * moves[0, 1]
    pi = study.spibb(few, behaviour, rewards, 0.9, 20)
    rare = few.sum(axis=2) < 20
    assert (pi[rare] >= behaviour[rare] - 1e-12).all()
    np.testing.assert_allclose(pi.sum(axis=1), 1.0)
    low, _ = study.spibb_bound(few, behaviour, rewards, np.full(4, 0.25), 0.9, 20)
    assert low < 0


def one_step(ratios, returns):
    ones = np.ones((len(ratios), 1))
    return Evidence(ratios[:, None], ones, returns[:, None], ones > 0, ones > 0, np.ones(1))


def test_hcpi_by_student_is_scipys_interval():
    generator = np.random.default_rng(0)
    ratios, returns = generator.uniform(0, 2, 80), generator.normal(-3, 1, 80)
    low, _ = study.by_t_test(one_step(ratios, returns), -10.0, None, None)
    known = scipy.stats.ttest_1samp(ratios * (returns + 10), 0.0, alternative="greater")
    assert low == pytest.approx(known.confidence_interval(0.95).low - 10)


def test_hcpi_by_an_inequality_is_hardly_ever_above_the_truth():
    """Of 200 logs at an error of 5 %, 21 would be 0.1 % likely. The inequality is far from it."""
    above = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        taken = generator.random(100) < 0.5
        found = one_step(np.where(taken, 1.6, 0.4), np.where(taken, -1.0, -3.0))
        above += study.by_inequality(found, -4.0, 2.0, None)[0] > 0.8 * -1 + 0.2 * -3
    assert above < 21
