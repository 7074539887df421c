"""Logs of several controllers, and of episodes that belong together."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets, evaluation
from gamps.errors import DatasetError
from gamps.evaluation.ratio_sums import by_group
from gamps.policies import LinearGaussianPolicy
from gamps.runs.build import build
from gamps.runs.resolve import better_controller, policy_of
from gamps.runs.spec import TrainSpec
from gamps.tasks import Task
from gamps.trajectories import Episode, from_episodes

STD = 0.5


def policy(gain):
    weights = jnp.array([[gain], [0.2]])
    return LinearGaussianPolicy(weights, log_std=jnp.log(jnp.full(1, STD)), learn_std=False)


def episode(gain, rng, steps=4):
    observations = rng.normal(size=(steps + 1, 1))
    mean = gain * observations[:-1] + 0.2
    actions = mean + STD * rng.normal(size=mean.shape)
    density = -0.5 * ((actions - mean) / STD) ** 2 - np.log(STD * np.sqrt(2 * np.pi))
    rewards = -((actions[:, 0] - observations[:-1, 0]) ** 2)
    return Episode(observations, actions, rewards, density[:, 0])


def reward(observation, action, following):
    return -((action[0] - observation[0]) ** 2)


def dataset(n=40, gains=(0.1, 0.6)):
    rng = np.random.default_rng(0)
    log = from_episodes([episode(gain, rng) for gain in gains for _ in range(n)])
    labels = datasets.Labels(
        ("x",), ("u",), ("old",) * n + ("new",) * n,
        tuple(f"day {i // 4}" for i in range(2 * n)), "new",
    )  # fmt: skip
    return datasets.Dataset(log, None, 0.9, None, "known", labels)


def test_training_starts_at_the_newest_controller():
    """Its own densities tell it; by all of the log neither would be found."""
    data = dataset()
    found = policy_of("behaviour", data, 0)
    np.testing.assert_allclose(found.weights, policy(0.6).weights, atol=1e-3)
    assert int(datasets.newest(data).sum()) == 40
    one = policy_of("behaviour", data._replace(labels=datasets.Labels()), 0)
    assert 0.2 < float(one.weights[0, 0]) < 0.5


def test_the_search_starts_at_an_older_controller_that_is_shown_to_be_better():
    """It is told by its densities; a newest controller that is as good or better stays."""
    worse = dataset(gains=(0.6, 0.1))
    found = better_controller(worse, policy(0.1), 0.9, 0, worse.trajectories)
    np.testing.assert_allclose(found.weights, policy(0.6).weights, atol=1e-3)
    for gains in ((0.1, 0.6), (0.4, 0.4)):
        data = dataset(gains=gains)
        assert better_controller(data, policy(gains[1]), 0.9, 0, data.trajectories) is None
    one = worse._replace(labels=datasets.Labels())
    assert better_controller(one, policy(0.1), 0.9, 0, one.trajectories) is None


def test_a_training_knows_both_controllers(monkeypatch):
    """It starts at the better one; its ladder leads from the newest."""
    monkeypatch.setattr(sys.modules[__name__], "TASK", Task(reward, 0.9), raising=False)
    spec = TrainSpec("in memory", task=f"{__name__}:TASK", iterations=1)
    training = build(spec, dataset(gains=(0.6, 0.1)))
    np.testing.assert_allclose(training.start().best.weights, policy(0.6).weights, atol=1e-3)
    np.testing.assert_allclose(training.controller.weights, policy(0.1).weights, atol=1e-3)


def test_groups_are_not_torn_apart():
    data = dataset()
    learned, held_out = datasets.split_dataset(data, 0.5, seed=1)
    days = [set(part.labels.groups) for part in (learned, held_out)]
    assert not days[0] & days[1]
    assert len(days[0] | days[1]) == 20
    assert len(learned.labels.controllers) == learned.trajectories.n_trajectories
    whole = datasets.split_dataset(data._replace(labels=datasets.Labels()), 0.5, seed=1)
    assert [part.trajectories.n_trajectories for part in whole] == [40, 40]


def test_bounds_by_groups_cover_where_those_by_episodes_do_not():
    """Gains that a day shares: of 2,000 logs at most 6 % of the bounds by groups are too high."""
    rng = np.random.default_rng(0)
    days, each = np.repeat(np.arange(40), 5), 2_000
    wrong = np.zeros(2)
    for _ in range(each):
        numbers = rng.normal(size=40)[days] + 0.5 * rng.normal(size=200)
        for k, x in enumerate((numbers, by_group(numbers, days))):
            wrong[k] += x.mean() - 1.69 * x.std(ddof=1) / np.sqrt(len(x)) > 0
    assert wrong[1] / each < 0.06
    assert wrong[0] / each > 0.15


def test_a_verdict_by_groups_is_wider():
    data = dataset(60)
    rows = np.asarray(datasets.newest(data))
    log = jax.tree.map(lambda x: x[rows], data.trajectories)
    learned, held_out = (jax.tree.map(lambda x, k=k: x[k::2], log) for k in (0, 1))
    better = policy(0.7)
    task = Task(lambda s, a, n: -((a[0] - s[0]) ** 2), 0.9)
    lows = []
    for groups in (None, np.repeat(["a", "b", "c"], 10), np.arange(30)):
        found = evaluation.evaluate(
            better, learned, held_out, task, behaviour=policy(0.6), groups=groups, details=False
        )
        lows.append(found.verdict.improvement)
    assert lows[0].low == lows[2].low  # each its own
    np.testing.assert_allclose(lows[0].estimate, lows[1].estimate)
    assert lows[1].low != lows[0].low


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"judged": -3}, "-3 of 10 episodes judged a policy"),
        ({"judged": 10}, "10 of 10 episodes judged a policy"),
        ({"newest": "nobody"}, "the newest controller, 'nobody', made no episode"),
        ({"controllers": ("old",)}, "1 controllers for 10 episodes"),
    ],
)
def test_labels_that_contradict_the_log_are_refused(tmp_path, monkeypatch, change, message):
    """Else nothing would be held out, or nobody's densities be compared."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = dataset(5)
    labels = data.labels._replace(**change)
    datasets.save("several/wrong-v0", data.trajectories, None, labels=labels)
    with pytest.raises(DatasetError, match=message):
        datasets.load("several/wrong-v0")
