"""The balance heuristic against enumeration: every episode of small random problems."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps.errors import SettingError
from gamps.evaluation import balanced
from gamps.policies import Boltzmann, OneHot, log_probs
from gamps.trajectories import Episode, from_episodes

STATES, ACTIONS, STEPS = 2, 2, 3


def policy(rng):
    return Boltzmann(jnp.asarray(rng.normal(size=(STATES, ACTIONS))), OneHot(STATES))


def everything(rng):
    """All episodes of a random problem: as trajectories, chance of their transitions, return."""
    first = rng.dirichlet(np.ones(STATES))
    moves = rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    rewards = rng.normal(size=(STATES, ACTIONS))
    episodes, chances, returns = [], [], []
    for states in itertools.product(range(STATES), repeat=STEPS + 1):
        for actions in itertools.product(range(ACTIONS), repeat=STEPS):
            steps = list(zip(states, actions, states[1:], strict=False))
            earned = [rewards[s, a] for s, a, _ in steps]
            episodes.append(Episode(np.array(states), np.array(actions), earned, np.zeros(STEPS)))
            chances.append(first[states[0]] * np.prod([moves[step] for step in steps]))
            returns.append(sum(earned))
    return from_episodes(episodes), np.array(chances), np.array(returns)


def probabilities(one, log):
    return np.exp(np.asarray(log_probs(one, log), np.float64).sum(axis=1))


def test_unbiased_and_no_wilder_than_one_log():
    """200 problems, two to four loggers: exact mean, and Veach's bound on the variance.

    With a fixed number of episodes of each logger, the balance heuristic's variance is at most that
    of any other combination plus (1 / min n - 1 / Σ n) J². Here the other one is a single logger's
    episodes alone.
    """
    rng = np.random.default_rng(0)
    for _ in range(200):
        log, chances, returns = everything(rng)
        loggers = [policy(rng) for _ in range(rng.integers(2, 5))]
        k = len(loggers)
        counts = 1 + rng.multinomial(8 - k, np.full(k, 1 / k))  # eight in all: one program
        target = policy(rng)
        wanted = probabilities(target, log)
        true = float((chances * wanted * returns).sum())
        drawn = [probabilities(logger, log) for logger in loggers]
        # One enumerated log stands for all: densities do not depend on how many rows there are.
        whole = len(log.mask)
        shares = counts * whole
        big = _repeated(log, int(counts.sum()))
        mixed = balanced(big, loggers, shares.tolist())
        density = np.exp(np.asarray(mixed.behaviour_log_prob, np.float64).sum(axis=1))[:whole]
        terms = wanted / density * returns
        means = [float((chances * p * terms).sum()) for p in drawn]
        n = counts.sum()
        np.testing.assert_allclose(np.dot(counts, means) / n, true, rtol=2e-4, atol=2e-5)
        spread = sum(
            count * (float((chances * p * terms**2).sum()) - mean**2)
            for count, p, mean in zip(counts, drawn, means, strict=True)
        ) / n**2  # fmt: skip
        for count, p in zip(counts, drawn, strict=True):
            alone = float((chances * p * (wanted / p * returns) ** 2).sum()) - true**2
            assert spread <= alone / count + (1 / counts.min() - 1 / n) * true**2 + 1e-6


def _repeated(log, times):

    return jax.tree.map(lambda x: jnp.concatenate([x] * times), log)


def test_one_logger_keeps_its_own_densities():
    rng = np.random.default_rng(1)
    log, *_ = everything(rng)
    one = policy(rng)
    mixed = balanced(log, [one], [log.n_trajectories])
    np.testing.assert_allclose(mixed.behaviour_log_prob, log_probs(one, log), atol=1e-5)


def test_episodes_have_to_add_up():
    rng = np.random.default_rng(2)
    log, *_ = everything(rng)
    with pytest.raises(SettingError, match="how many episodes each logger made"):
        balanced(log, [policy(rng), policy(rng)], [1, 2])


def test_loggers_that_were_chosen_by_data_make_it_biased():
    """A second logger that depends on the first's return: the mixture's estimate is off."""
    rng = np.random.default_rng(3)
    biases = []
    for _ in range(20):
        log, chances, returns = everything(rng)
        first, good, bad, target = (policy(rng) for _ in range(4))
        wanted = probabilities(target, log)
        true = float((chances * wanted * returns).sum())
        middle = float((chances * probabilities(first, log) * returns).sum())
        mean = 0.0
        for high in (True, False):  # what the first episode earned decides who logs the second
            second = good if high else bad
            part = (returns > middle) == high
            mixed = balanced(_repeated(log, 2), [first, second], [len(log.mask)] * 2)
            ratio = wanted / np.exp(np.asarray(mixed.behaviour_log_prob).sum(axis=1))[: len(wanted)]
            p = chances * probabilities(first, log)
            q = chances * probabilities(second, log)
            mean += (
                (p * ratio * returns)[part].sum() + p[part].sum() * (q * ratio * returns).sum()
            ) / 2
        own = 0.0  # each episode by its own density
        for high in (True, False):
            part = (returns > middle) == high
            p = chances * probabilities(first, log)
            own += ((chances * wanted * returns)[part].sum() + p[part].sum() * true) / 2
        np.testing.assert_allclose(own, true, atol=1e-5)
        biases.append(abs(mean - true))
    assert np.median(biases) > 0.01
