"""Bounds on the return that a user declares: what they guarantee, and what they do not."""

import jax.numpy as jnp
import numpy as np
import pytest

from gamps import evaluation
from gamps.errors import SettingError
from gamps.evaluation import DEPLOY, NOT_SHOWN, guaranteed_gain
from gamps.policies import LinearGaussianPolicy
from gamps.tasks import Task
from gamps.trajectories import Episode, from_episodes, padded


def policy(mean: float) -> LinearGaussianPolicy:
    return LinearGaussianPolicy(jnp.array([[0.0], [mean]]), log_std=jnp.zeros(1))


def episode(rewards, actions, *, terminated=True) -> Episode:
    actions = np.reshape(actions, (-1, 1))
    densities = -0.5 * actions[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    return Episode(np.ones((len(actions) + 1, 1)), actions, rewards, densities, terminated)


def reward(state, action, following):
    del state, following
    return jnp.where(action[0] > 4, 1.0, jnp.clip(-0.2 * action[0], -1, 1))


def test_a_policy_without_support_is_not_shown_to_be_worse():
    """In truth it gains .96: its actions, about 6, are not in the log, where larger ones lose."""
    rng = np.random.default_rng(0)
    actions = rng.normal(size=4000)
    log = [episode([np.clip(-0.2 * a, -1, 1)], [a]) for a in actions[actions < 4]]
    learned, held_out = from_episodes(log[::2]), from_episodes(log[1::2])
    task = Task(reward, 1.0, returns=(-1.0, 1.0))
    judged = (policy(6.0), learned, held_out)
    verdict = evaluation.evaluate(*judged, task, behaviour=policy(0.0), details=False).verdict
    assert verdict.word == NOT_SHOWN
    better = (policy(-0.7), learned, held_out)
    verdict = evaluation.evaluate(*better, task, behaviour=policy(0.0), details=False).verdict
    assert verdict.word == DEPLOY
    assert "guaranteed" in verdict.why


def test_a_sorted_log_guarantees_no_more_than_a_shuffled_one():
    """No gain in truth; sorted, the losses come last, after the bets on a gain have paid."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        gains = np.sort(rng.choice([-1.0, 1.0], size=200))[::-1]
        ratios = 1 + gains / 2
        wrong += guaranteed_gain(ratios, np.ones(200), lowest=0.0, highest=1.0, confidence=0.95) > 0
    assert wrong <= 32  # at 5 % there are more with a chance of .3 %


def of_lengths(lengths, seed, *, terminated=True):
    """Episodes that lose the less, the larger their actions are."""
    rng = np.random.default_rng(seed)
    each = (rng.normal(size=n) for n in lengths)
    return from_episodes([
        episode(np.clip(-0.5 + 0.3 * a, -1, 0), a, terminated=terminated) for a in each
    ])  # fmt: skip


@pytest.mark.parametrize("steps", [3, 40])
def test_bounds_of_a_step_bound_the_longest_possible_episode(steps):
    """Where all have terminated that is endless, however long the longest was or its padding is."""
    learned, held_out = (of_lengths([2, 3] * 100, seed) for seed in (1, 2))
    judged = (policy(0.4), learned, padded(held_out, steps))
    known = dict(behaviour=policy(0.0), details=False)
    with pytest.raises(SettingError, match="nothing limits"):
        evaluation.evaluate(*judged, Task(reward, 1.0, rewards=(-1.0, 0.0)), **known)
    lows = [
        evaluation.evaluate(*judged, task, **known).verdict.improvement.low
        for task in (
            Task(reward, 0.9, rewards=(-1.0, 0.0)),
            Task(reward, 0.9, returns=(-10.0, 0.0)),
        )
    ]
    assert lows[0] == pytest.approx(lows[1])


def test_an_episode_that_was_cut_off_shows_how_long_one_can_be():
    learned, held_out = (of_lengths([3] * 200, seed, terminated=False) for seed in (1, 2))
    judged = (policy(0.4), learned, held_out)
    lows = [
        evaluation.evaluate(
            *judged, task, behaviour=policy(0.0), details=False
        ).verdict.improvement.low
        for task in (
            Task(reward, 0.9, rewards=(-1.0, 0.0)),
            Task(reward, 0.9, returns=(-2.71, 0.0)),
        )
    ]
    assert lows[0] == pytest.approx(lows[1])


def test_bounds_may_be_met_exactly_in_single_precision():
    returns = np.tile(np.float32([0.0, 0.1]), 50).astype(np.float64)
    known = dict(ratios=np.ones(100), returns=returns, confidence=0.95)
    assert guaranteed_gain(**known, lowest=0.0, highest=0.1) <= 0
    with pytest.raises(SettingError, match="range of returns"):
        guaranteed_gain(**known, lowest=0.0, highest=0.09)
