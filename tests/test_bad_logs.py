"""Bad logs through `inspect` and `train`: typed errors, field and place, before any training."""

import dataclasses
import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gamps import datasets
from gamps.cli import main
from gamps.envs import TwoTanks, collect, tanks
from gamps.errors import GampsError
from gamps.runs import TrainSpec, findings, inspection, loop
from gamps.runs.build import build
from gamps.tasks import Task
from gamps.trajectories import Episode, Trajectories, from_episodes
from test_datasets import DAMAGE, swimmer_log, written  # noqa: F401 - fixtures
from test_tables import DAMAGES as TABLES
from test_tables import HEAD, rows, write

LOG = collect(TwoTanks(), tanks.policy(), jax.random.key(1), n=12, steps=6)
FULL = os.environ.get("GAMPS_FULL") == "1"


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """A command that must end with status 2 or 1, before training, without a traceback."""

    def never(*arguments, **rest):
        raise AssertionError("training was started")

    monkeypatch.setattr(loop, "go_on", never)

    def run(*arguments, status=2):
        with pytest.raises(SystemExit) as caught:
            main(list(map(str, arguments)))
        assert caught.value.code == status
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err + shown.out
        assert not (tmp_path / "run").exists()
        return shown.err if status == 2 else shown.out

    return run


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_datasets(kind, written, tmp_path, refused):  # noqa: F811
    damage, field, _ = DAMAGE[kind]
    folder = tmp_path / "copy"
    shutil.copytree(written, folder)
    damage(folder)
    task = ["--task", "gamps.envs.swimmer:task"]
    for words in (["inspect"], ["train", "--out", tmp_path / "run"]):
        assert field in refused(words[0], folder, *task, *words[1:])


@pytest.mark.parametrize("kind", TABLES)
def test_damaged_tables(kind, tmp_path, refused, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    table, head = rows(), list(HEAD)
    damage, _ = TABLES[kind]
    damage(table, head)
    path = write(tmp_path / "log.csv", table, head)
    said = refused(
        "import", path, "--episode", "run", "--observations", "x", "y", "--actions", "u",
        "--reward", "r", "--log-prob", "logp", "--next-observations", "nx", "ny",
        "--terminated", "end", "--time", "t", "--dataset", "bad/log-v0",
    )  # fmt: skip
    assert said.startswith("gamps: ")


def changed(**fields):
    return dataclasses.replace(LOG, **fields)


def raising(observation, action, next_observation):
    raise RuntimeError("out of order")


def with_reward(reward, terminal=None):
    return Task(reward, 0.98, *([] if terminal is None else [terminal]))


FIRST = jax.tree.map(lambda x: x[:6], LOG)
FATAL = {
    "six episodes": (FIRST, tanks.task(), "episodes"),
    "an action without noise": (changed(actions=jnp.zeros_like(LOG.actions)), None, "actions[0]"),
    "one density for all": (
        changed(behaviour_log_prob=jnp.full_like(LOG.behaviour_log_prob, -1.0)), None,
        "log-densities",
    ),
    "a reward of other units": (LOG, with_reward(lambda s, a, n: 1e3 * tanks.reward(s, a, n)),
                                "reward"),
    "a reward of the other sign": (LOG, with_reward(lambda s, a, n: -tanks.reward(s, a, n)),
                                   "reward"),
    "a reward that is constant": (LOG, with_reward(lambda s, a, n: jnp.zeros(())), "reward"),
    "a reward that is no number": (LOG, with_reward(lambda s, a, n: jnp.log(-1.0 - s[0])),
                                   "reward"),
    "a reward that is infinite": (LOG, with_reward(lambda s, a, n: 1 / (0 * s[0])), "reward"),
    "a reward that raises": (LOG, with_reward(raising), "task"),
    "a reward of a larger state": (LOG, with_reward(lambda s, a, n: s[jnp.arange(3)] @ jnp.ones(2)),
                                   "task"),
    "a reward in Python": (LOG, with_reward(lambda s, a, n: float(s[0])), "task"),
    "a reward of the wrong shape": (LOG, with_reward(lambda s, a, n: s), "task"),
    "an end that is not logged": (
        LOG, with_reward(tanks.reward, lambda s, a, n: jnp.asarray(True)), "termination",
    ),
    "a logged end that is not known": (
        changed(terminated=jnp.ones_like(LOG.terminated)), tanks.task(), "termination",
    ),
    "an end that raises": (LOG, with_reward(tanks.reward, raising), "task"),
    "a policy of another size": (LOG, None, "policy"),
    "a policy without support": (LOG, None, "policy"),
    "a choice more likely than sure": (
        changed(actions=jnp.zeros(LOG.mask.shape, int),
                behaviour_log_prob=jnp.full_like(LOG.behaviour_log_prob, 0.5)),
        None, "log-densities",
    ),
    "a reward that was never logged": (changed(rewards=jnp.zeros_like(LOG.rewards)), tanks.task(),
                                       "reward"),
}  # fmt: skip


class Elsewhere(type(tanks.policy())):
    """Gives every logged action no density."""

    def log_prob(self, observation, action):
        return -jnp.inf * jnp.ones(())


def policy_for(kind):
    if kind == "a policy of another size":
        return type(tanks.policy())(jnp.zeros((7, 1)), log_std=jnp.zeros(1))
    if kind == "a policy without support":
        return Elsewhere(jnp.zeros((3, 1)), log_std=jnp.zeros(1))
    return None


@pytest.mark.parametrize("kind", FATAL)
def test_fatal_findings(kind):
    log, task, what = FATAL[kind]
    found = inspection.inspect(log, task, policy_for(kind))
    assert found[0].grade == findings.FATAL
    assert what in [f.what for f in found if f.grade == findings.FATAL]
    assert all(f.fix for f in found if f.grade != findings.NOTE)
    with pytest.raises(GampsError, match=r".+: .+\. .+"):
        inspection.refuse_unfit(found)


def test_there_are_eighty_bad_logs():
    assert len(DAMAGE) + len(TABLES) + len(FATAL) >= 80


def test_a_sound_log_has_nothing_but_notes():
    found = inspection.inspect(LOG, tanks.task(), tanks.policy())
    assert {f.grade for f in found} == {findings.NOTE}


def test_warnings():
    twice = jax.tree.map(lambda x: jnp.concatenate([x, x[:1]]), LOG)
    column = jnp.concatenate([LOG.observations, jnp.ones_like(LOG.observations[..., :1])], axis=-1)
    wide = jnp.asarray([1.0, 1e6]) * LOG.observations
    for log, what in (
        (twice, "duplicates"),
        (changed(observations=column), "observations[2]"),
        (changed(observations=wide), "observations"),
        (jax.tree.map(lambda x: x[:8], LOG), "episodes"),
    ):
        grades = {f.what: f.grade for f in inspection.inspect(log, None, None)}
        assert grades[what] == findings.WARNING
    lengths = jnp.arange(6) < 1 + jnp.arange(12)[:, None] % 6
    grades = {f.what: f.grade for f in inspection.inspect(changed(mask=lengths), None, None)}
    assert grades["ends"] == findings.WARNING  # nobody said whether they ended or were cut off
    estimated = inspection.inspect(LOG, None, None, densities="estimated")
    assert estimated[0].what == "densities"


def test_a_task_is_not_compared_where_nobody_saw_what_followed():
    """Without a row after the last step; reward and end depend on where it led."""
    rng = np.random.default_rng(0)
    steps = [rng.uniform(0, 1, size=(5, 1)).cumsum(axis=0) for _ in range(12)]
    task = Task(
        lambda s, a, after: after[0] + 100 * (after[0] > 2.5), 0.9, lambda s, a, after: after[0] > 2
    )

    def episode(x, *, closing):
        rewards = np.array([task.reward(x[0], x[0], after) for after in x[1:]], np.float64)
        seen = x if closing else np.concatenate([x[:-1], x[-2:-1]])
        zeros = np.zeros(len(rewards))
        return Episode(seen, zeros[:, None], rewards, zeros, terminated=bool(x[-1] > 2))

    cut = [x[: 2 + int((x > 2).argmax()) - 1] if (x > 2).any() else x for x in steps]
    for closing in (True, False):
        log = from_episodes([episode(x, closing=closing) for x in cut])
        found = inspection.inspect(log, task, None)
        assert findings.FATAL not in {f.grade for f in found if f.what in ("reward", "termination")}
    assert "not compared in 12 last steps" in " ".join(f.found for f in found)


def test_inspect_as_a_command(tmp_path, monkeypatch, capsys, refused):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    datasets.save("tanks/day-v0", LOG, tanks.policy(), discount=0.98)
    main(["inspect", "tanks/day-v0", "--task", "gamps.envs.tanks:task"])
    assert "count as evidence about it" in " ".join(capsys.readouterr().out.split())
    main(["inspect", "tanks/day-v0", "--json"])
    assert '"grade": "note"' in capsys.readouterr().out
    datasets.save("tanks/few-v0", FIRST, tanks.policy(), discount=0.98)
    assert "fatal" in refused("inspect", "tanks/few-v0", status=1)
    out = ["--task", "gamps.envs.tanks:task", "--out", tmp_path / "run"]
    assert "episodes: only 6" in refused("train", "tanks/few-v0", *out)


NUMBERS = st.one_of(
    st.floats(-2, 2),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45, 0.0, -0.0, 3.0]),
)
SPEC = TrainSpec("log", "gamps.envs.tanks:task", recipe="pgt")


@st.composite
def episodes(draw):
    """Episodes like the sound ones, with numbers, lengths, shapes and types gone wrong."""
    made = []
    for i in range(draw(st.integers(0, 9))):
        names = [name for name in Trajectories.__annotations__ if name != "before"]
        whole = {name: np.asarray(getattr(LOG, name)[i]) for name in names}
        episode = Episode(whole["observations"], whole["actions"], whole["rewards"],
                          whole["behaviour_log_prob"], bool(whole["terminated"]))  # fmt: skip
        for _ in range(draw(st.integers(0, 2))):
            field = draw(st.sampled_from(episode._fields[:4]))
            values = np.array(getattr(episode, field))
            if values.dtype.kind != "f":
                continue  # spoilt already
            fault = draw(st.sampled_from(["value", "short", "long", "flat", "type", "none", "all"]))
            if fault == "value" and values.size:
                values.ravel()[draw(st.integers(0, values.size - 1))] = draw(NUMBERS)
            elif fault == "short":
                values = values[: draw(st.integers(0, len(values)))] if values.ndim else values
            elif fault == "long" and values.ndim:
                values = np.concatenate([values, values])
            elif fault == "flat":
                values = values.ravel()
            elif fault == "type":
                values = values.astype(draw(st.sampled_from(["U", "O", "c8", "i4", "f2", "?"])))
            elif fault == "all" and values.size:
                values = np.full_like(values, draw(NUMBERS), dtype=float)
            episode = episode._replace(**{field: None if fault == "none" else values})
        made.append(episode)
    return made


@pytest.mark.slow
@settings(
    max_examples=1_500 if FULL else 100,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(episodes())
@pytest.mark.filterwarnings("ignore")
def test_generated_logs(made):
    """Fifteen hundred with GAMPS_FULL=1: a typed error, or a training that is ready to start."""
    try:
        log = from_episodes(made, length=12)
        task, policy = tanks.task(), tanks.policy()
        inspection.refuse_unfit(inspection.inspect(log, task, policy))
        build(SPEC, datasets.Dataset(log, policy, 0.98, None))
    except GampsError:
        pass  # any other error fails the test
