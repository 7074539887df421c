"""Trainings in a run folder: the same end with and without a break, and every refusal named."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets
from gamps.cli import main
from gamps.deployment.load import UnjudgedWarning, load_policy
from gamps.envs import TwoTanks, collect, tanks
from gamps.envs.two_areas import two_areas
from gamps.errors import CheckpointError, OutputError, RunError, SettingError
from gamps.learner import Learner, RunState, Settings
from gamps.runs import SearchTraining, TrainSpec, checkpoints, folder, loop, start
from gamps.runs.build import build, build_streamed, classes
from gamps.runs.evaluate_run import evaluate_run
from gamps.runs.state import arrays_of, from_json, to_json
from gamps.search import logged_climb, recipes
from gamps.search.values import advantages
from gamps.trajectories import Episode, split

KEY = jax.random.key(2)
LOG = collect(TwoTanks(), tanks.policy(), KEY, n=20, steps=12)
SMALL = Settings(iterations=6, states=10, actions=4, roll=2, horizon=4, members=2)


def learner():
    kinds = classes(tanks.clipped, "quadratic")
    return Learner(KEY, LOG, tanks.task(), tanks.policy(), kinds, settings=SMALL)


def searching(iterations=6, **rest):
    search = recipes.pgt(LOG, tanks.task(), learning_rate=0.02)
    return SearchTraining(
        KEY, search, tanks.policy(), None, iterations=iterations, held_out=LOG, **rest
    )


class Stopped(Exception):
    """In place of a kill."""


def interrupted(make, out, after, every=1):
    def callback(iteration, metrics, progress):
        if iteration == after:
            raise Stopped

    with pytest.raises(Stopped):
        loop.train(make(), out, callback=callback, every=every)


def same(one, other):
    a, b = arrays_of(one), arrays_of(other)
    assert json.dumps(to_json(one.run)) == json.dumps(to_json(other.run))
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.fixture(autouse=True)
def _short_climb(monkeypatch):
    """On the log: these tests are about what is kept, not about how far it leads."""
    monkeypatch.setattr(logged_climb, "TIMES", 2)
    monkeypatch.setattr(advantages, "UPDATES", 100)
    monkeypatch.setattr(advantages, "REFIT_UPDATES", 20)


@pytest.mark.parametrize("make", [learner, searching])
def test_a_break_changes_nothing(tmp_path, make):
    whole = loop.train(make(), tmp_path / "whole")
    lines = folder.metrics(tmp_path / "whole")
    assert [line["iteration"] for line in lines] == [1, 2, 3, 4, 5, 6]
    for after in range(1, 6):
        out = tmp_path / f"after{after}"
        interrupted(make, out, after)
        again = loop.go_on(make(), out)
        assert same(whole, again)
        for mine, theirs in zip(folder.metrics(out), lines, strict=True):
            assert {k: v for k, v in mine.items() if k != "seconds"} == {
                k: v for k, v in theirs.items() if k != "seconds"
            }
    assert json.loads((tmp_path / "whole" / "best.json").read_text())["class"] == "LinearGaussian"


def test_iterations_after_the_last_checkpoint_are_done_and_reported_once(tmp_path):
    whole = loop.train(searching(), tmp_path / "whole")
    interrupted(searching, tmp_path / "run", 5, every=3)
    assert [line["iteration"] for line in folder.metrics(tmp_path / "run")] == [1, 2, 3, 4, 5]
    assert same(whole, loop.go_on(searching(), tmp_path / "run"))
    lines = [line["iteration"] for line in folder.metrics(tmp_path / "run")]
    assert lines == [1, 2, 3, 4, 5, 6]


def test_decisions_come_back_from_json():
    for state in (RunState(), RunState(1, 2.5, "by itself", "quadratic", 1.0, 3.0, 2.5)):
        assert from_json(json.loads(json.dumps(to_json(state)))) == state


def test_decisions_of_version_0_1_are_understood():
    evidence = {"network, β = 0": -1.5, "quadratic, β = 0.5": -1.25}
    made = {"model_class": "quadratic", "exponent": 0.5, "evidence": evidence, "weights_ess": 80.0,
            "estimate": 3.0, "lower": 2.5}  # fmt: skip
    content = {"rounds": [made], "evidence": evidence, "choice": ["network", 0.0]}
    content |= {"weights_ess": 60.0, "best": 1, "best_lower": 2.5}
    found = from_json(content)
    assert found.model_class == "network"
    assert (found.best, found.best_promise, found.stopped) == (1, 2.5, "")
    assert from_json({"best": 4, "best_lower": -2.0}) == RunState(4, -2.0)


def test_a_damaged_checkpoint_costs_iterations_and_not_the_run(tmp_path):
    whole = loop.train(searching(), tmp_path / "whole")
    interrupted(searching, tmp_path / "run", 4)
    last = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    (last / "plain.json").write_text("{}")
    refused = []
    again = loop.go_on(searching(), tmp_path / "run", refused=refused.append)
    assert same(whole, again)
    assert len(refused) == 1
    assert "plain.json" in str(refused[0])


def test_another_policy_does_not_fit(tmp_path):
    interrupted(searching, tmp_path / "run", 2)

    def wider():
        search = recipes.pgt(LOG, tanks.task(), learning_rate=0.02)
        policy = tanks.policy()
        policy = type(policy)(
            jnp.zeros((4, 1)), lambda s: jnp.ones(4), log_std=policy.log_std, learn_std=False
        )
        return SearchTraining(KEY, search, policy, None, iterations=6, held_out=LOG)

    with pytest.raises(CheckpointError, match="weights"):
        loop.go_on(wider(), tmp_path / "run")


def test_a_collapse_stops_by_itself_and_says_so(tmp_path):
    progress = loop.train(searching(iterations=50, least_ess=19.9), tmp_path / "run")
    assert "effective trajectories" in progress.run.stopped
    assert len(folder.metrics(tmp_path / "run")) < 50
    again = loop.go_on(searching(iterations=50, least_ess=19.9), tmp_path / "run")
    assert same(progress, again)


class Falling(SearchTraining):
    """Every policy is thought to be worse than the one before."""

    def _judge(self, policy):
        self.asked = getattr(self, "asked", 0) + 1
        lower = np.nan if self.asked == 3 else -float(self.asked)
        return {"estimate": lower, "promise": lower, "held_out_ess": 5.0}


def test_nothing_worse_than_the_first_policy_is_handed_out(tmp_path):
    search = recipes.pgt(LOG, tanks.task(), learning_rate=0.02)
    made = Falling(KEY, search, tanks.policy(), None, iterations=4, held_out=LOG)
    progress = loop.train(made, tmp_path / "run")
    assert progress.run.best == 0
    assert jnp.array_equal(progress.best.weights, tanks.policy().weights)
    assert not jnp.array_equal(progress.state.policy.weights, tanks.policy().weights)


def same_tree(one, other):
    return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))


def test_what_is_held_out_is_not_seen():
    """Held-out episodes replaced by others: the same steps, judged the same."""
    order = np.asarray(jax.random.permutation(jax.random.key(0), 20))[:4]
    other = dataclasses.replace(
        LOG,
        actions=LOG.actions.at[order].multiply(3.0),
        rewards=LOG.rewards.at[order].set(-9.0),
        observations=LOG.observations.at[order].set(0.3),
    )
    for recipe in ("default", "pgt"):
        changes = {"recipe": recipe, "policy": "affine", "iterations": 2}
        changes |= {"model": "linear"} if recipe == "default" else {}
        spec = dataclasses.replace(SPEC, **changes)
        found = []
        for log in (LOG, other):
            made = build(spec, datasets.Dataset(log, None, 0.98, None))
            progress = made.start()
            for _ in range(2):
                progress, metrics = made.step(progress)
            arrays = eqx.filter((progress.state, progress.best), eqx.is_array)
            found.append((arrays, progress.run, metrics))
        assert same_tree(found[0][0], found[1][0])
        assert found[0][1:] == found[1][1:]


def numbers_of(part):
    """Which episodes of `LOG` a part of it holds, by where they begin in single precision."""
    starts, found = (np.asarray(x.observations[:, 0], np.float32).tolist() for x in (LOG, part))
    return [starts.index(start) for start in found]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("recipe", ["pgt", "default"])
def test_every_episode_has_one_purpose(recipe, seed):
    """Learning, choosing among policies, and the verdict: no episode serves two of them."""
    model = {"model": "linear"} if recipe == "default" else {}
    spec = dataclasses.replace(SPEC, recipe=recipe, seed=seed, policy="affine", **model)
    made = build(spec, datasets.Dataset(LOG, None, 0.98, None))
    parts = [split(LOG, spec.held_out, seed=spec.seed)[1]]
    if recipe == "default":  # its model chooses, by parts of what it learns from
        assert numbers_of(made.search.trajectories) == numbers_of(made.trajectories)
        parts += [made.trajectories]
    else:
        parts += [made.search.trajectories, made.held_out]
    assert [part.n_trajectories for part in parts] == ([10, 10] if model else [10, 7, 3])
    assert sorted(i for part in parts for i in numbers_of(part)) == list(range(20))


def richer(log, rows):
    """The same episodes, some of which earned something else."""
    return dataclasses.replace(log, rewards=log.rewards.at[np.asarray(rows)].add(5.0))


def test_a_policy_is_chosen_by_episodes_it_did_not_learn_from():
    """What was learned from has no say in the choice, and what chooses none in the learning."""
    spec = dataclasses.replace(SPEC, recipe="pgt", policy="affine", iterations=2)

    def begun(log):
        made = build(spec, datasets.Dataset(log, None, 0.98, None))
        return made, *made.step(made.start())

    made, first, said = begun(LOG)
    _, other, choosing = begun(richer(LOG, numbers_of(made.held_out)))
    assert same_tree(first.state.policy, other.state.policy)
    assert choosing["estimate"] > said["estimate"] + 1
    changed, other, _ = begun(richer(LOG, numbers_of(made.search.trajectories)))
    assert not same_tree(first.state.policy, other.state.policy)
    assert changed._judge(first.state.policy) == made._judge(first.state.policy)


def test_a_policy_of_a_log_on_disk_is_chosen_by_episodes_it_did_not_learn_from(tmp_path):
    spec = dataclasses.replace(SPEC, recipe="pgt", policy="affine", iterations=2, stream=True)
    judged = numbers_of(build(spec, datasets.Dataset(LOG, None, 0.98, None)).held_out)
    found = []
    for i, log in enumerate((LOG, richer(LOG, judged))):
        arrays = [np.asarray(x) for x in
                  (log.observations, log.actions, log.rewards, log.behaviour_log_prob)]  # fmt: skip
        episodes = [Episode(*parts) for parts in zip(*arrays, strict=True)]
        shards = datasets.write_shards(episodes, tmp_path / f"{i}", steps=60)
        sample = datasets.Dataset(shards.sample(60), None, 0.98, None)
        made = build_streamed(spec, shards, sample)
        assert sorted(numbers_of(made.held_out)) == sorted(judged)
        found.append(made.step(made.start()))
    (first, said), (other, choosing) = found
    assert same_tree(first.state.policy, other.state.policy)
    assert choosing["estimate"] > said["estimate"] + 1


def test_changed_settings_are_refused(tmp_path):
    interrupted(searching, tmp_path / "run", 2)
    content = json.loads((tmp_path / "run" / "run.json").read_text())
    content["settings"]["seed"] = 1
    (tmp_path / "run" / "run.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match="was changed since"):
        loop.go_on(searching(), tmp_path / "run")


def test_folders_in_use_or_unfit_are_refused(tmp_path):
    loop.train(searching(2), tmp_path / "run")
    with pytest.raises(OutputError, match="gamps resume"):
        loop.train(searching(2), tmp_path / "run")
    with folder.locked(tmp_path / "run"), pytest.raises(RunError, match="another process"):
        loop.go_on(searching(2), tmp_path / "run")
    with pytest.raises(RunError, match="no run"):
        folder.header(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "best.json").write_text("mine")
    with pytest.raises(OutputError, match="in the way"):
        loop.train(searching(2), tmp_path / "other")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="Choose another"):
        loop.train(searching(2), tmp_path / "file" / "run")


def test_a_full_disk_is_named_and_the_run_goes_on_later(tmp_path, monkeypatch):
    whole = loop.train(searching(), tmp_path / "whole")
    interrupted(searching, tmp_path / "run", 3)
    real = Path.open

    def full(self, mode="r", **rest):
        if "w" in mode and "checkpoints" in self.parts:
            raise OSError(28, "No space left on device")
        return real(self, mode, **rest)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OutputError, match="No space left"):
        loop.go_on(searching(), tmp_path / "run")
    monkeypatch.undo()
    assert checkpoints.latest(tmp_path / "run" / "checkpoints")[0].number == 3
    assert same(whole, loop.go_on(searching(), tmp_path / "run"))


SPEC = TrainSpec("log", "gamps.envs.tanks:task")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": "sarsa"}, "recipe: 'sarsa'"),
        ({"model": "cubic"}, "model: 'cubic'"),
        ({"policy": "tree"}, "policy: 'tree'"),
        ({"task": "nowhere:task"}, "task: nowhere:task: ModuleNotFoundError"),
        ({"task": "gamps.envs.tanks:nothing"}, "task: .* AttributeError"),
        ({"task": "gamps.envs.tanks"}, "task: 'gamps.envs.tanks'"),
        ({"task": "gamps.envs.tanks:HORIZON"}, "task: .* is a int"),
        ({"task": "gamps.envs.tanks:clipped"}, r"task: .* failed: TypeError"),
        ({"features": "gamps.envs.tanks:HORIZON"}, "features: .* is not a function"),
        ({"policy": "gamps.envs.tanks:HORIZON"}, "policy: .* is a int"),
        ({"model": "gamps.envs.tanks:clipped"}, "model: .* is a function"),
        ({"features": "gamps.envs.tanks:reward"}, "features: .* failed: TypeError"),
        ({"features": "gamps.envs.tanks:task"}, "features: .* failed: TypeError"),
        ({"policy": "gamps.envs.tanks:clipped"}, "policy: .* failed: TypeError"),
        ({"recipe": "pgt", "model": "linear"}, "model: 'linear', but pgt has no model"),
        ({"recipe": "pgt", "features": "x:y"}, "features: 'x:y', but pgt has no model"),
        ({"seed": 2**64}, "seed: 18446744073709551616"),
        ({"seed": -1}, "seed: -1"),
        ({"iterations": 0}, "iterations: 0"),
        ({"learning_rate": float("nan")}, "learning_rate: nan"),
        ({"learning_rate": -1.0}, "learning_rate: -1"),
        ({"held_out": 0.0}, "held_out: 0"),
        ({"held_out": 0.9}, "log: 20 episodes, of which 18"),
    ],
)
def test_settings_that_mean_nothing_are_named(change, message):
    data = datasets.Dataset(LOG, tanks.policy(), 0.98, None)
    spec = dataclasses.replace(SPEC, **change)
    with pytest.raises(SettingError, match=message):
        build(spec, data)


@pytest.mark.parametrize("recipe", ["gamps", "gamps_paper", "ml", "pgt", "reinforce", "default"])
def test_every_recipe_takes_a_step(recipe):
    data = datasets.Dataset(LOG, tanks.policy(), 0.98, None)
    model = "auto" if recipe in ("pgt", "reinforce") else "linear"
    spec = dataclasses.replace(SPEC, **{"recipe": recipe, "model": model})
    made = build(spec, data)
    progress, metrics = made.step(made.start())
    assert np.isfinite(metrics["gradient_norm"])
    assert int(progress.state.iteration) == 1


def test_numbered_states_in_vectors_need_a_recipe_without_a_model():
    env = two_areas("plain")
    policy = env.behaviour(KEY)
    log = collect(env, policy, KEY, n=20, steps=10)
    data = datasets.Dataset(log, policy, 0.99, None)
    for recipe in ("default", "gamps", "ml"):
        spec = dataclasses.replace(SPEC, **{"recipe": recipe})
        with pytest.raises(SettingError, match="pgt or reinforce"):
            build(spec, data)


@pytest.fixture
def log_name(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    datasets.save("tanks/day-v0", LOG, tanks.policy(), discount=0.98)
    return "tanks/day-v0"


ARGUMENTS = ["--task", "gamps.envs.tanks:task", "--recipe", "pgt", "--iterations", "4"]


def test_the_commands_from_training_to_playing(tmp_path, log_name, capsys):
    out = tmp_path / "run"
    main(["train", log_name, *ARGUMENTS, "--out", str(out)])
    shown = capsys.readouterr().out
    assert "inspecting it" in shown
    assert "4/4 gradient_norm" in shown
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    main(["resume", str(out)])  # finished: nothing is left to do
    main(["export", str(out), "--which", "learned", "--mean-action"])
    shown = capsys.readouterr().out
    assert "nobody has judged the learned policy" in shown
    policy = load_policy(out / "policy")
    assert policy.certificate is None
    best = json.loads((out / "best.json").read_text())["fields"]["weights"]["array"]
    expected = np.asarray([0.3, 0.4, 1.0]) @ np.asarray(best)
    with pytest.warns(UnjudgedWarning, match="nobody has judged it"):
        assert policy.mean_action([0.3, 0.4]) == pytest.approx(expected, abs=1e-6)
    main(["play", str(out), "--env", "gamps/TwoTanks-v0", "--episodes", "2"])
    shown = capsys.readouterr().out
    assert "return" in shown
    assert "nobody has judged this policy" in shown
    assert (out / "play.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit) as caught:
        main(["export", str(out)])
    assert caught.value.code == 2
    assert "exists already" in capsys.readouterr().err
    words = ["--env", "gamps/TwoTanks-v0", "--episodes", "1", "--mean-action"]
    main(["play", str(out / "policy"), *words])
    load_policy(out / "policy")  # still sealed
    for wrong in (["--episodes", "0"], ["--seed", "-1"], ["--env", "CartPole-v1"], ["--env", "no"]):
        with pytest.raises(SystemExit) as caught:
            main(["play", str(out), "--env", "gamps/TwoTanks-v0", *wrong])
        assert caught.value.code == 2


def test_a_verdict_by_command(tmp_path, log_name, capsys):
    out = tmp_path / "run"
    main(["train", log_name, *ARGUMENTS, "--out", str(out)])
    more = collect(TwoTanks(), tanks.policy(), jax.random.key(8), n=300, steps=12)
    datasets.save("tanks/more-v0", more, tanks.policy(), discount=0.98)
    words = ["evaluate", str(out), "--log", "tanks/more-v0"]
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main([*words, "--json", "--details"])
    found = json.loads(capsys.readouterr().out)
    assert (
        caught.value.code == {"deploy": 0, "not shown to be better": 3, "worse": 4}[found["word"]]
    )
    assert found["improvement"]["low"] <= found["improvement"]["estimate"]
    without = {"per-decision", "self-normalised", "doubly robust", "weighted doubly robust"}
    assert set(found["estimates"]) == without | {"fitted Q"}
    with pytest.raises(SystemExit):
        main(words)
    assert found["word"] in capsys.readouterr().out
    for wrong in (["--confidence", "2"], ["--log", log_name]):
        with pytest.raises(SystemExit) as caught:
            main([*words, *wrong])
        assert caught.value.code == 2


def test_a_verdict_with_a_model(tmp_path, log_name, capsys):
    out = tmp_path / "run"
    words = ["--task", "gamps.envs.tanks:task", "--recipe", "ml", "--iterations", "2"]
    main(["train", log_name, *words, "--out", str(out)])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["evaluate", str(out), "--details"])
    shown = capsys.readouterr().out
    assert "The verdict rests on doubly robust" in shown
    assert all(name in shown for name in ("doubly robust, model's Q", "direct", "fitted Q"))


def test_q_is_fitted_to_episodes_that_it_does_not_judge(tmp_path, log_name):
    """Episodes to judge by that earned something else: another verdict, by the same Q."""
    spec = dataclasses.replace(SPEC, log=log_name, recipe="pgt", iterations=1)
    out = tmp_path / "run"
    start(spec, out).train()
    more = collect(TwoTanks(), tanks.policy(), jax.random.key(8), n=20, steps=12)
    found = []
    for name, log in (("more", more), ("rich", richer(more, range(20)))):
        datasets.save(f"tanks/{name}-v0", log, tanks.policy(), discount=0.98)
        judged = evaluate_run(out, log=f"tanks/{name}-v0", details=True).evaluation
        given = judged.cases["doubly robust"].evidence
        discounted = np.asarray(log.rewards) * 0.98 ** np.arange(12)
        np.testing.assert_allclose(given.rewards, discounted, rtol=1e-5)
        found.append(given)
    np.testing.assert_array_equal(found[0].q_values, found[1].q_values)
    np.testing.assert_array_equal(found[0].state_values, found[1].state_values)
    own = evaluate_run(out, details=True)
    expected = split(LOG, own.run.spec.held_out, seed=own.run.spec.seed)[1]
    assert numbers_of(own.run.held_out) == numbers_of(expected)
    assert not set(numbers_of(own.run.learned)) & set(numbers_of(expected))
    kept = own.evaluation.cases["doubly robust"].evidence
    np.testing.assert_allclose(kept.rewards, expected.rewards * 0.98 ** np.arange(12), rtol=1e-5)


def test_a_changed_log_is_refused(tmp_path, log_name, capsys):
    out = tmp_path / "run"
    main(["train", log_name, *ARGUMENTS, "--out", str(out)])
    other = collect(TwoTanks(), tanks.policy(), jax.random.key(9), n=20, steps=12)
    datasets.save(log_name, other, tanks.policy(), discount=0.98, overwrite=True)
    with pytest.raises(SystemExit):
        main(["resume", str(out)])
    assert "has changed since" in capsys.readouterr().err


def test_settings_from_a_file(tmp_path, log_name, capsys):
    path = tmp_path / "settings.toml"
    path.write_text(
        f'log = "{log_name}"\ntask = "gamps.envs.tanks:task"\nrecipe = "pgt"\niterations = 9\n'
        f'out = "{tmp_path / "run"}"\n'
    )
    main(["train", "--config", str(path), "--iterations", "2"])
    assert folder.header(tmp_path / "run")["settings"]["iterations"] == 2
    for line, said in (
        ("iteration = 3", "iteration is not a setting"),
        ("out = 5", "out is 5. Write it as a str"),
        ('tensorboard = "false"', "tensorboard is 'false'. Write it as a bool"),
    ):
        path.write_text(f"{line}\n")
        with pytest.raises(SystemExit) as caught:
            main(["train", "--config", str(path)])
        assert caught.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.full
def test_kill_nine_at_random_moments():
    """Twenty-five kills; `python -m benchmarks.kills` does a hundred."""
    script = Path(__file__).parent.parent / "benchmarks" / "kills.py"
    size = ["25", "300"]
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, str(script), "--kills", size[0], "--iterations", size[1]],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all bit-equal" in done.stdout
    assert re.search(r"at most [01] iteration lost", done.stdout)
