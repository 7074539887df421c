"""Logs of several controllers, and of episodes that belong together."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets, evaluation
from gamps.datasets.dataset import together
from gamps.errors import DatasetError, SettingError
from gamps.evaluation.ratio_sums import by_group
from gamps.models import LinearGaussianModel
from gamps.policies import LinearGaussianPolicy, SoftClipped
from gamps.runs.build import build
from gamps.runs.resolve import better_controller, features_of, policy_of
from gamps.runs.spec import TrainSpec
from gamps.tasks import Task
from gamps.trajectories import Episode, from_episodes, padded

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
    found = better_controller(worse, policy(0.1), 0.9)
    np.testing.assert_allclose(found.weights, policy(0.6).weights, atol=1e-3)
    for gains in ((0.1, 0.6), (0.4, 0.4)):
        data = dataset(gains=gains)
        assert better_controller(data, policy(gains[1]), 0.9) is None
    one = worse._replace(labels=datasets.Labels())
    assert better_controller(one, policy(0.1), 0.9) is None


def test_an_older_controller_of_other_lengths_or_another_class_is_left_alone():
    """Longer episodes lose or earn more by themselves; a bent mean is not what the log shows."""
    rng = np.random.default_rng(1)
    gains, steps = (0.1,) * 40 + (0.6,) * 40, (2,) * 40 + (4,) * 40  # the shorter lose less
    log = from_episodes([episode(*both) for both in zip(gains, [rng] * 80, steps, strict=True)])
    data = dataset(gains=(0.6, 0.1))
    assert better_controller(data._replace(trajectories=log), policy(0.6), 0.9) is None
    bent = SoftClipped.of(policy(0.1), -0.3, 0.3)
    assert better_controller(data, bent, 0.9) is None


def test_episodes_that_end_by_themselves_may_be_of_any_length():
    """A poor controller ends early; that says nothing about how long its episodes may be."""
    rng = np.random.default_rng(2)
    steps = [*rng.integers(6, 12, 40), *rng.integers(2, 5, 40)]  # the newest falls soon
    each = [
        episode(gain, rng, n)._replace(rewards=np.ones(n), terminated=True)
        for gain, n in zip((0.6,) * 40 + (0.1,) * 40, steps, strict=True)
    ]
    data = dataset(gains=(0.6, 0.1))._replace(trajectories=from_episodes(each))
    found = better_controller(data, policy(0.1), 1.0)
    np.testing.assert_allclose(found.weights, policy(0.6).weights, atol=1e-3)


def test_a_newest_controller_without_an_episode_on_both_sides_is_refused():
    data = dataset(20)
    names = ("old",) * 39 + ("new",)
    data = data._replace(labels=data.labels._replace(controllers=names, groups=()))
    with pytest.raises(SettingError, match="no episode of new, the newest controller"):
        build(TrainSpec("in memory", iterations=1), data)


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


def test_groups_that_have_judged_do_not_judge_again():
    """Nor do logs with and without groups become one."""
    data = dataset()
    days = tuple(f"day {i % 20}" for i in range(80))
    grouped = data._replace(labels=data.labels._replace(groups=days, judged=10))
    learned, held_out = datasets.split_dataset(grouped, 0.5, seed=3)
    assert learned.trajectories.n_trajectories + held_out.trajectories.n_trajectories == 80
    assert not {f"day {i}" for i in range(10)} & set(held_out.labels.groups)
    assert len(set(held_out.labels.groups)) == 5
    again = data._replace(labels=data.labels._replace(groups=days, judged=40))
    with pytest.raises(DatasetError, match="have all been learned from"):
        datasets.split_dataset(again, 0.5, seed=3)
    alone = data._replace(labels=data.labels._replace(controllers=(), groups=(), newest=""))
    kept = datasets.pooled(alone, data._replace(labels=data.labels._replace(controllers=())), "b")
    assert len(set(kept.labels.groups)) == 80 + 20
    estimated = alone._replace(densities="estimated")
    assert datasets.pooled(estimated, alone, "b").densities == "estimated"
    assert datasets.pooled(alone, estimated, "b").densities == "estimated"
    with pytest.raises(DatasetError, match=r"discount: 0\.5 in the new log, 0\.9 in the old"):
        datasets.pooled(alone, alone._replace(discount=0.5), "b")
    for join in (
        lambda: datasets.pooled(data, alone, "b"),
        lambda: together({"a": data, "b": alone}),
    ):
        with pytest.raises(DatasetError, match="groups"):
            join()


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


def test_intervals_of_ratios_by_groups_cover():
    """Ratios that a day of any size shares: at most 6 % of 2,000 lower bounds are too high."""
    rng = np.random.default_rng(1)
    wrong = np.zeros(2)
    for _ in range(2_000):
        days = np.repeat(np.arange(60), rng.integers(1, 8, size=60))
        below = np.exp(0.3 * rng.normal(size=len(days)))
        above = below * (rng.normal(size=60)[days] + 0.5 * rng.normal(size=len(days)))
        terms = evaluation.Terms.of(above[:, None], below[:, None])
        for k, groups in enumerate((None, days)):
            found = evaluation.student(evaluation.terms_by_group(terms, groups), confidence=0.95)
            wrong[k] += found.low > 0
    assert wrong[1] / 2_000 < 0.06
    assert wrong[0] / 2_000 > 0.15


def test_a_reward_is_told_by_the_action_as_it_was_drawn():
    """The cost of an action beyond the actuators' limits is in the log, and is not forgotten."""
    limits = (np.array([-0.3]), np.array([0.3]))
    rng = np.random.default_rng(3)
    each = [episode(1.0, rng) for _ in range(150)]
    each = [one._replace(rewards=-(one.actions[:, 0] ** 2)) for one in each]
    data = datasets.Dataset(from_episodes(each), policy(1.0), 0.9, None, limits=limits)
    training = build(TrainSpec("in memory", iterations=1), data)
    costs = [float(training.task.reward(jnp.zeros(1), jnp.array([a]), jnp.zeros(1)))
             for a in (0.3, 1.0)]  # fmt: skip
    assert costs[1] < costs[0] - 0.6  # in truth -.09 and -1
    kind = training.classes["network"].make(jax.random.key(0), training.trajectories)
    inside, beyond = (kind.features(jnp.zeros(1), jnp.array([a])) for a in (0.3, 1.0))
    np.testing.assert_array_equal(inside, beyond)


def test_limits_of_logs_that_are_joined():
    """They are kept if they agree, and a log without any does not forget those of the old one."""
    small, large = ((np.array([-1.0]), np.array([x])) for x in (1.0, 2.0))
    one, other = (dataset()._replace(labels=datasets.Labels(), limits=x) for x in (small, large))
    assert together({"a": one, "b": one}).limits == small
    assert together({"a": one, "b": other}).limits is None
    assert together({"a": one, "b": one._replace(limits=None)}).limits is None
    assert datasets.pooled(one, one._replace(limits=None), "next").limits == small
    assert datasets.pooled(one, other, "next").limits is None
    with pytest.raises(SettingError, match="limits"):
        features_of("", one.trajectories, (np.zeros(2), np.ones(2)))


def test_padding_is_not_an_end():
    """Declared bounds hold for episodes of one length, however long the log's arrays are."""
    data = dataset(60)
    log = jax.tree.map(lambda x: x[np.asarray(datasets.newest(data))], data.trajectories)
    learned, held_out = (jax.tree.map(lambda x, k=k: x[k::2], log) for k in (0, 1))
    task = Task(lambda s, a, n: -((a[0] - s[0]) ** 2), 0.9, returns=(-60.0, 0.0))
    found = [
        evaluation.evaluate(
            policy(0.7), learned, part, task, behaviour=policy(0.6), details=False
        ).verdict.improvement.low
        for part in (held_out, padded(held_out, 9))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_a_model_that_imagines_from_some_episodes_knows_their_groups(monkeypatch):
    """Also where they are fewer groups than an interval needs."""
    monkeypatch.setattr(sys.modules["gamps.evaluation.estimates"], "IMAGINED", 12 * 4 * 4)
    rng = np.random.default_rng(4)
    log = from_episodes([episode(0.6, rng) for _ in range(60)])
    learned, held_out = (jax.tree.map(lambda x, k=k: x[k::2], log) for k in (0, 1))
    model = LinearGaussianModel(jnp.zeros((2, 1)), jnp.ones((2, 1)))
    task = Task(lambda s, a, n: -((a[0] - s[0]) ** 2), 0.9)
    named = []
    for groups in (np.arange(30), np.repeat([0, 1, 2], 10), np.repeat([0, 1], 15)):
        found = evaluation.evaluate(
            policy(0.7), learned, held_out, task, behaviour=policy(0.6), model=model, groups=groups
        )
        named.append(found.estimates)
    assert any("model's Q" in name for name in named[0])
    assert named[1].keys() == named[0].keys()
    assert not named[2]


def test_a_verdict_by_groups_is_wider():
    data = dataset(60)
    rows = np.asarray(datasets.newest(data))
    log = jax.tree.map(lambda x: x[rows], data.trajectories)
    learned, held_out = (jax.tree.map(lambda x, k=k: x[k::2], log) for k in (0, 1))
    better = policy(0.7)
    task = Task(lambda s, a, n: -((a[0] - s[0]) ** 2), 0.9)
    lows, beside = [], []
    for groups in (None, np.repeat(["a", "b", "c"], 10), np.arange(30)):
        found = evaluation.evaluate(
            better, learned, held_out, task, behaviour=policy(0.6), groups=groups
        )
        lows.append(found.verdict.improvement)
        beside.append({name: each.improvement for name, each in found.estimates.items()})
    assert lows[0].low == lows[2].low  # each its own
    np.testing.assert_allclose(lows[0].estimate, lows[1].estimate)
    assert lows[1].low != lows[0].low
    for name, each in beside[0].items():
        np.testing.assert_allclose(beside[2][name], each)
        np.testing.assert_allclose(beside[1][name].estimate, each.estimate)
        assert beside[1][name].low != each.low


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
