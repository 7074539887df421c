"""Jobs and sweeps outlive the processes they run in; Ray is needed by those marked distributed."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from gamps import datasets
from gamps.cli import main
from gamps.cluster import attempt, cluster, jobs, planned, read_sweep, sweep
from gamps.cluster.attempt import Lost
from gamps.cluster.member import Failure, failure
from gamps.envs import TwoTanks, collect, tanks
from gamps.errors import OutputError, RunError, SettingError, WorkerError
from gamps.runs import SearchTraining, TrainSpec, folder, results, start
from gamps.runs.start import until_free

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "launch_kills.py"
# A node of its own takes minutes more: GAMPS_FULL=1, or `python -m benchmarks.launch_kills`.
PARTS = ["job", "sweep", *(["node"] if os.environ.get("GAMPS_FULL") else [])]
LOG, TASK = "tanks/launch-v0", "gamps.envs.tanks:task"


@pytest.fixture(scope="module", autouse=True)
def _log(tmp_path_factory):
    """A small log, where Minari finds it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("data")))
        log = collect(TwoTanks(), tanks.policy(), jax.random.key(2), n=20, steps=8)
        datasets.save(LOG, log, tanks.policy())
        yield


def written(tmp_path, **settings):
    """A sweep of two recipes and two seeds, or what is said of it, as TOML."""
    known = {"log": LOG, "task": TASK, "iterations": 3, "recipe": ["pgt", "reinforce"]}
    path = tmp_path / "sweep.toml"
    lines = [f"{k} = {json.dumps(v)}" for k, v in (known | {"seed": [0, 1]} | settings).items()]
    path.write_text("\n".join(lines))
    return path


def tasks_of(tmp_path, **settings):
    return planned(read_sweep(written(tmp_path, **settings)))


def files(out):
    return {path.name: path.read_bytes() for path in (out / "results").iterdir()}


# Sweeps, in this process.


def test_names_say_what_varies_in_one_order(tmp_path):
    names = [task.name for task in tasks_of(tmp_path)]
    assert names == [
        "recipe=pgt,seed=0",
        "recipe=pgt,seed=1",
        "recipe=reinforce,seed=0",
        "recipe=reinforce,seed=1",
    ]
    (task,) = tasks_of(tmp_path, recipe="pgt", seed=3, learning_rate=1)
    assert task.name == "run"
    assert task.spec == TrainSpec(LOG, TASK, recipe="pgt", iterations=3, seed=3, learning_rate=1.0)
    both = tasks_of(tmp_path, task=[TASK, "gamps.envs.tanks:task "], recipe="pgt", seed=0)
    assert both[0].name == "task=gamps.envs.tanks_task"


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"sed": 1}, "sed is not a setting"),
        ({"seed": []}, "seed is empty"),
        ({"seed": [1, 1]}, "a value twice"),
        ({"seed": [0.5]}, "float"),
        ({"seed": [True]}, "bool"),
        ({"recipe": ["pgt", "best"]}, "best"),
        ({"iterations": [0, 1]}, "iterations"),
        ({"task": ["a:b", "a;b"]}, "values apart"),
    ],
)
def test_what_is_no_sweep_is_refused_before_anything_runs(tmp_path, settings, match):
    with pytest.raises(SettingError, match=match):
        tasks_of(tmp_path, **settings)


def test_a_file_without_a_log_is_refused(tmp_path):
    (tmp_path / "empty.toml").write_text('task = "a:b"')
    with pytest.raises(SettingError, match="no log"):
        read_sweep(tmp_path / "empty.toml")
    with pytest.raises(SettingError, match="TOML"):
        read_sweep(tmp_path / "none.toml")


class Killed(BaseException):
    """In place of a kill."""


def test_a_task_that_was_interrupted_ends_with_the_same_bytes(tmp_path, monkeypatch):
    tasks = tasks_of(tmp_path, seed=0)
    whole = sweep(tasks, tmp_path / "whole", workers=1)
    assert [outcome.result["metrics"]["iteration"] for outcome in whole] == [3, 3]
    step = SearchTraining.step

    def killed(self, progress):
        if int(progress.state.iteration) == 2:
            raise Killed
        return step(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(SearchTraining, "step", killed)
        with pytest.raises(Killed):
            sweep(tasks, tmp_path / "broken", workers=1)
    assert not files(tmp_path / "broken")
    sweep(tasks, tmp_path / "broken", workers=1)
    assert files(tmp_path / "broken") == files(tmp_path / "whole")
    assert "seconds" not in (tmp_path / "whole" / "results" / "recipe=pgt.json").read_text()


def test_what_is_there_is_kept_and_what_is_damaged_is_made_again(tmp_path):
    tasks = tasks_of(tmp_path, seed=0)
    sweep(tasks, tmp_path / "out", workers=1)
    first, second = sorted((tmp_path / "out" / "results").iterdir())
    before, whole = second.stat().st_mtime_ns, files(tmp_path / "out")
    first.write_bytes(first.read_bytes().replace(b'"pgt"', b'"gpt"'))
    outcomes = sweep(tasks, tmp_path / "out", workers=1)
    assert [outcome.kept for outcome in outcomes] == [False, True]
    assert second.stat().st_mtime_ns == before
    assert files(tmp_path / "out") == whole
    for damaged in ("[]", "{}", '{"sha256": 1}', "{", ""):
        first.write_text(damaged)
        assert results.committed(tmp_path / "out", tasks[0]) is None
    with pytest.raises(RunError, match="another sweep"):
        sweep(tasks_of(tmp_path, seed=1), tmp_path / "out", workers=1)


def test_a_task_that_fails_stops_no_other(tmp_path, capsys):
    path = written(tmp_path, seed=0, recipe="pgt", held_out=[0.9, 0.2])
    with pytest.raises(SystemExit):
        main(["sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "1"])
    found = capsys.readouterr()
    assert "1 of 2 failed" in found.err
    assert "log: 20 episodes, of which 18 are held out" in found.err
    assert [*files(tmp_path / "out")] == ["held_out=0.2.json"]
    (failed,) = (tmp_path / "out" / "failed").iterdir()
    assert "20 episodes" in json.loads(failed.read_text())["message"]
    assert not list((tmp_path / "out" / "workers").iterdir())


# Runs, and what to make of a failure.


def test_a_run_is_begun_once(tmp_path):
    spec, out = TrainSpec(LOG, TASK, recipe="pgt", iterations=2), tmp_path / "run"
    assert start(spec, out, again=True).spec == spec
    before = folder.header(out)
    assert start(spec, out, again=True).spec == spec
    assert folder.header(out) == before
    with pytest.raises(OutputError, match="already holds a run"):
        start(spec, out)
    with pytest.raises(RunError, match="another seed, 0, not 1"):
        start(replace(spec, seed=1), out, again=True)
    with folder.locked(out), pytest.raises(RunError, match="another process"):
        until_free(out, seconds=0.2)
    until_free(out)


def test_only_what_another_attempt_may_mend_is_tried_again(tmp_path):
    lost, wrong = Lost(1, "ActorDiedError"), Failure("ValueError", "at port 4711")
    silent = failure(jax.errors.JaxRuntimeError("Gloo: Connection closed by peer [::1]:80"))
    assert jobs._judged(tmp_path, lost, wrong, 1) is None
    assert jobs._judged(tmp_path, silent, silent, 2) is None
    assert jobs._judged(tmp_path, wrong, None, 1) == wrong
    with pytest.raises(WorkerError, match="failed twice in the same way, ValueError: at port 42"):
        jobs._judged(tmp_path, wrong._replace(message="at port 42"), wrong, 2)
    assert jobs._judged(tmp_path, wrong, wrong._replace(message="elsewhere"), 2) == wrong
    with pytest.raises(WorkerError, match="no such run"):
        jobs._judged(tmp_path, failure(RunError("no such run")), None, 1)
    with pytest.raises(WorkerError, match="20 attempts in a row"):
        jobs._judged(tmp_path, lost, None, 20)
    assert failure(SettingError("coordinator", "not found", "Look")).peer
    assert not failure(SettingError("coordinates", "not found", "Look")).peer


class Answers:
    """A Ray whose references are their answers, ready after so many looks."""

    class exceptions:
        class RayError(Exception):
            pass

        class RayTaskError(RayError):
            pass

    def __init__(self):
        self.looks = 0

    def wait(self, refs, timeout):
        self.looks += 1
        return [ref for ref in refs if ref.after <= self.looks][:1], []

    def get(self, ref):
        if isinstance(ref.answer, Exception):
            raise ref.answer
        return ref.answer


def watched(*answers):
    refs = [SimpleNamespace(answer=answer, after=after) for answer, after in answers]
    return attempt._watched(Answers(), refs, lambda: None)


def test_a_loss_counts_before_a_failure_that_follows_from_it(monkeypatch):
    monkeypatch.setattr(attempt, "GRACE", 0.2)
    gone, wrong = Answers.exceptions.RayError("gone"), Failure("JaxRuntimeError", "no answer")
    assert watched((None, 3), (None, 5)) is None
    assert watched((None, 3), (gone, 9)) is None  # process 0 was done
    assert watched((wrong, 1), (gone, 2)) == Lost(1, "RayError")
    assert watched((gone, 1), (wrong, 2)) == Lost(0, "RayError")
    assert watched((wrong, 1), (None, 10**9)) == wrong


# Ray itself.


def test_the_extra_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    out = tmp_path / "run"
    with pytest.raises(SystemExit):
        main(["launch", LOG, "--task", TASK, "--out", str(out), "--recipe", "pgt"])
    assert 'pip install "gamps[ray]"' in capsys.readouterr().err
    assert not out.exists()
    with pytest.raises(SystemExit):
        main(["sweep", str(written(tmp_path)), "--out", str(tmp_path / "s"), "--workers", "2"])
    assert 'pip install "gamps[ray]"' in capsys.readouterr().err


def test_what_is_said_twice_or_not_at_all_is_refused(tmp_path, capsys):
    pytest.importorskip("ray")
    start(TrainSpec(LOG, TASK, recipe="pgt", iterations=1), tmp_path / "run")
    for words, match in (
        ([str(tmp_path / "run"), "--task", TASK], "is a run folder and already has one"),
        ([str(tmp_path / "run"), "--iterations", "300"], "iterations: "),
        ([LOG, "--task", TASK], "out: missing"),
        ([LOG], "out: missing"),
    ):
        with pytest.raises(SystemExit):
            main(["launch", *words])
        assert match in capsys.readouterr().err


def test_ray_is_imported_by_nothing_else():
    code = "import sys, gamps.cli, gamps.cluster; sys.exit('ray' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def shell(*words, **rest):
    """A command in a process of its own, with programs kept as a user has them."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=900,
        **rest,
    )


@pytest.mark.distributed
@pytest.mark.parametrize("part", PARTS)
def test_kills_change_nothing(part):
    """`benchmarks/launch_kills.py` with few of them."""
    pytest.importorskip("ray")
    few = ["--kills", "1", "--coordinator", "1", "--tasks", "4", "--sweep-kills", "3"]
    done = shell(BENCHMARK, *few, "--iterations", "40", "--parts", part)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.distributed
def test_an_error_of_the_training_itself_ends_the_job(tmp_path):
    """Settings that were changed after the first checkpoint."""
    pytest.importorskip("ray")
    gamps = ["-c", "from gamps.cli import main; main()"]
    run = tmp_path / "run"
    start(TrainSpec(LOG, TASK, recipe="pgt", iterations=2), run).train()
    header = json.loads((run / "run.json").read_text())
    header["settings"]["iterations"] = 3
    (run / "run.json").write_text(json.dumps(header))
    done = shell(*gamps, "launch", run, "--processes", "1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "run.json was changed since" in done.stderr
    assert "Traceback" not in done.stderr
