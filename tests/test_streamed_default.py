"""The default on a log that is read from disk: the same policy, the same verdict."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets, evaluation
from gamps.cli import main
from gamps.envs import Minigolf
from gamps.errors import SettingError
from gamps.evaluation.episode_numbers import numbers_of, numbers_over
from gamps.evaluation.estimates import FittedEvidence
from gamps.evaluation.ladder_cases import fit_keys
from gamps.learner import learner as default
from gamps.policies import Boltzmann, OneHot
from gamps.runs import TrainSpec, rounds, start
from gamps.runs.evaluate_run import evaluate_run
from gamps.runs.open_run import open_run
from gamps.trajectories import Episode, from_episodes, padded

GOLF = Minigolf()
TASK = "gamps.envs.minigolf:task"
S, A = 5, 3
LOGITS = np.random.default_rng(1).normal(size=(S, A))


def ragged(n, seed):
    """Episodes of one to forty steps; half of them were cut off and not ended."""
    rng = np.random.default_rng(seed)
    pi = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    episodes = []
    for number in range(n):
        steps = int(rng.integers(1, 41)) if number else 40
        states = rng.integers(0, S, steps + 1)
        actions = np.array([rng.choice(A, p=pi[s]) for s in states[:-1]])
        rewards = rng.normal(size=steps) + actions
        density = np.log(pi[states[:-1], actions])
        episodes.append(Episode(states, actions, rewards, density, bool(number % 2)))
    return episodes


pytestmark = pytest.mark.usefixtures("short_climbs")


@pytest.fixture(autouse=True)
def minari(monkeypatch, tmp_path):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def policy(temperature=1.0, shift=0.0):
    return Boltzmann(jnp.asarray(LOGITS * temperature + shift * np.arange(A)), OneHot(S))


@pytest.mark.parametrize("known", [True, False])
def test_numbers_of_pieces_are_those_of_the_whole_log(tmp_path, known):
    """By another route: sums that are kept step by step, against the whole table of terms."""
    episodes, learned = ragged(90, 0), from_episodes(ragged(60, 1), length=40)
    whole = from_episodes(episodes, length=40)
    policies = [policy(shift=0.3), policy(0.5)]
    behaviour = policy() if known else None
    cases = evaluation.ladder_cases(policies, learned, whole, 0.9, behaviour=behaviour)
    shards = datasets.write_shards(episodes, tmp_path / "shards", steps=150)
    assert len(shards) > 5
    assert len({steps for _, steps in shards.shapes.values()}) > 2
    fitted = FittedEvidence(fit_keys(0), learned, 0.9, whole.n_steps)
    found = numbers_over(fitted, policies, shards, behaviour)
    order = np.argsort(np.concatenate([shards.numbers(i) for i in range(len(shards))]))
    for one, case in zip(found, cases, strict=True):
        expected = numbers_of(case)
        for name in ("gains", "worths", "logged", "log_ratios", "ratios", "returns"):
            close = np.asarray(getattr(one, name))[order]
            assert close == pytest.approx(np.asarray(getattr(expected, name)), rel=2e-5, abs=2e-5)
        assert (one.cut_off, one.assume) == (expected.cut_off, "nothing")
        assert one.away == pytest.approx(expected.away, rel=1e-5)
    in_memory, streamed = (
        evaluation.evaluate(
            policies, learned, held_out, GOLF.task(), behaviour=behaviour, details=False
        )
        for held_out in (whole, shards)
    )
    assert streamed.verdict.word == in_memory.verdict.word
    assert streamed.verdict.improvement == pytest.approx(in_memory.verdict.improvement, rel=1e-3)


def test_a_sample_of_a_sorted_log_is_drawn_from_all_of_it(tmp_path):
    """Within a shard too: 200 samples of a tenth, whose mean place is the middle, at 4 s.e."""
    episodes = [Episode([0] * 4, [0] * 3, [float(k)] * 3, [0.0] * 3, True) for k in range(100)]
    shards = datasets.write_shards(episodes, tmp_path / "shards", steps=3_000)
    assert len(shards) == 1
    places = [np.asarray(shards.sample(30, seed).rewards)[:, 0] for seed in range(200)]
    assert {len(one) for one in places} == {10}
    assert np.concatenate(places).mean() == pytest.approx(49.5, abs=4 * 28.9 / np.sqrt(2000))
    assert {len(np.unique(one)) for one in places} == {10}


def test_a_streamed_run_learns_and_is_judged_as_one_in_memory(tmp_path, capsys):
    """The log fits into the sample: the same policy and bounds, in single precision."""
    log = datasets.collect(GOLF, GOLF.policy(), jax.random.key(0), n=120, steps=20)
    datasets.save("golf/log-v0", log, GOLF.policy(), discount=0.99)
    found = []
    for stream in (False, True):
        run = tmp_path / f"{stream}"
        start(TrainSpec("golf/log-v0", task=TASK, iterations=2, stream=stream), run).train()
        found.append(evaluate_run(run))
    one, other = found
    for a, b in zip(*(jax.tree.leaves(x.run.ends.learned) for x in found), strict=True):
        close = pytest.approx(np.asarray(a), abs=0.02)  # shards are in single precision
        assert np.asarray(b) == close
    again = evaluation.evaluate(
        other.rungs, one.run.learned, one.run.held_out, GOLF.task(),
        behaviour=GOLF.policy(), details=False,
    )  # fmt: skip
    for a, b in zip(again.judged, other.evaluation.judged, strict=True):
        half = a.improvement.high - a.improvement.estimate
        assert b.improvement.estimate == pytest.approx(a.improvement.estimate, abs=0.1 * half)
        assert b.improvement.low == pytest.approx(a.improvement.low, abs=0.1 * half)
        assert b.support.ess == pytest.approx(a.support.ess, rel=1e-3)
    assert isinstance(other.run.held_out, datasets.Shards)
    run = tmp_path / "True"
    again = evaluate_run(run)
    assert again.number == 1
    main(["report", str(run)])
    assert (run / "report.html").exists()
    main(["export", str(run), "--which", "learned"])
    assert (run / "policy").exists()
    with pytest.raises(SettingError, match="in memory"):
        rounds.next_round(run, "golf/log-v0", tmp_path / "next", "golf/all-v0")
    capsys.readouterr()
    with pytest.raises(SettingError, match="episodes are new to the run"):
        evaluate_run(run, log=_copied())


def _copied():
    """The same episodes under another name and a further one."""
    data = datasets.load("golf/log-v0")
    more = datasets.collect(GOLF, GOLF.policy(), jax.random.key(9), n=1, steps=20)
    parts = (padded(data.trajectories, 20), padded(more, 20))
    both = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    datasets.save("golf/copy-v0", both, GOLF.policy(), discount=0.99)
    return "golf/copy-v0"


@pytest.mark.parametrize(
    "labels",
    [
        datasets.Labels(groups=("a", "b") * 10),
        datasets.Labels(controllers=("old",) * 10 + ("new",) * 10, newest="new"),
        datasets.Labels(judged=5),
    ],
    ids=["groups", "controllers", "judged"],
)
def test_a_log_whose_labels_decide_the_split_is_not_streamed(tmp_path, labels):
    """Episodes that have judged before would judge again."""
    log = datasets.collect(GOLF, GOLF.policy(), jax.random.key(0), n=20, steps=20)
    datasets.save("golf/labelled-v0", log, GOLF.policy(), discount=0.99, labels=labels)
    with pytest.raises(SettingError, match="has labels"):
        start(TrainSpec("golf/labelled-v0", task=TASK, stream=True), tmp_path / "run")


def test_the_default_learns_from_a_sample_of_a_longer_log(tmp_path, monkeypatch):
    log = datasets.collect(GOLF, GOLF.policy(), jax.random.key(0), n=120, steps=20)
    datasets.save("golf/log-v0", log, GOLF.policy(), discount=0.99)
    monkeypatch.setattr("gamps.runs.build.LEARNED", 300)
    monkeypatch.setattr("gamps.runs.build.STARTS", 100)
    run = start(TrainSpec("golf/log-v0", task=TASK, iterations=1, stream=True), tmp_path / "run")
    assert isinstance(run.training, default.Learner)
    seen = int(np.asarray(run.training.trajectories.mask).sum())
    assert 250 < seen < 400
    looked_at = int(np.asarray(run.training.search.trajectories.mask).sum())
    assert 60 < looked_at < 180
    held_out = open_run(tmp_path / "run").held_out
    assert held_out.n_trajectories == 60
