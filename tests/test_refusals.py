"""What cannot be used is refused before the log is read, which may take minutes."""

import json
import sys

import pytest

from gamps import datasets
from gamps.cli import launch, main
from gamps.cluster import sweeps
from gamps.runs import spec

LOG, TASK = "no/such-v0", "gamps.envs.tanks:task"
# setting: what is said, what is wrong with it
NAMES = {
    "task not there": ("task", "nowhere:task", "task: nowhere:task: ModuleNotFoundError"),
    "task that fails": ("task", "broken_module:task", "task: broken_module:task: ValueError"),
    "task of another kind": ("task", "gamps.envs.tanks:HORIZON", "HORIZON is a int"),
    "no object": ("task", "gamps.envs.tanks", "task: 'gamps.envs.tanks'"),
    "policy not there": ("policy", "nowhere:policy", "policy: nowhere:policy: ModuleNotFound"),
    "policy of another kind": ("policy", "gamps.envs.tanks:HORIZON", "policy: gamps.envs.tanks:H"),
    "no policy": ("policy", "tree", "policy: 'tree'"),
}
MORE = {
    "features not there": ("features", "nowhere:features", "features: nowhere:features: Module"),
    "features of another kind": ("features", "gamps.envs.tanks:HORIZON", "is not a function"),
    "model of another kind": ("model", "gamps.envs.tanks:HORIZON", "model: gamps.envs.tanks:H"),
    "nothing held out": ("held_out", 0.0, "held_out: 0.0. Choose a share"),
}


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Run a command that is refused, and give what it says; nothing may read a log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(launch, "require_ray", lambda: None)
    (tmp_path / "broken_module.py").write_text("raise ValueError\n")
    read = []

    def reading(*given, **_):
        read.append(given)
        raise AssertionError("the log was read")

    for place, name in (
        (datasets, "load"), (datasets, "stream"), (datasets, "shards_of"),
        (sys.modules["gamps.runs.start"], "log_sha256"), (sweeps, "log_sha256"),
        (spec, "log_sha256"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, reading)

    def run(*words):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as caught:
            main(list(map(str, words)))
        assert caught.value.code == 2
        assert read == []
        left = [path for path in tmp_path.rglob("*") if path.suffix not in (".pyc", ".toml")]
        assert [path for path in sorted(left) if path.name != "__pycache__"] == [
            path for path in before if path.suffix != ".toml"
        ]
        shown = capsys.readouterr()
        assert "reading " not in shown.out
        return shown.err

    return run


def starting(command, tmp_path, out, **settings):
    """The words that start a training with such settings by any of three commands."""
    settings = {"task": TASK} | settings
    if command == "sweep":
        lines = [f"{k} = {json.dumps(v)}" for k, v in ({"log": LOG} | settings).items()]
        (tmp_path / "sweep.toml").write_text("\n".join(lines))
        return ["sweep", tmp_path / "sweep.toml", "--out", out, "--workers", "1"]
    flags = [part for k, v in settings.items() for part in (f"--{k.replace('_', '-')}", v)]
    return [command, LOG, "--out", out, *flags]


@pytest.mark.parametrize("command", ["train", "launch", "sweep"])
@pytest.mark.parametrize("wrong", NAMES | MORE)
def test_names_that_mean_nothing(refused, tmp_path, command, wrong):
    field, value, said = (NAMES | MORE)[wrong]
    assert said in refused(*starting(command, tmp_path, "run", **{field: value}))


@pytest.mark.parametrize("command", ["train", "launch", "sweep"])
def test_places_that_are_taken(refused, tmp_path, command):
    for name in ("run", "own"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "run.json").write_text('{"settings": {"log": "another"}}')
    (tmp_path / "own" / "best.json").write_text("mine")
    (tmp_path / "own" / "results").write_text("mine")
    (tmp_path / "file").write_text("mine")
    said = {
        "train": "already holds a run",
        "launch": "a run of another log",
        "sweep": "not a sweep",
    }
    for out, expected in (
        ("run", said[command]),
        ("own", "is a file" if command == "sweep" else "best.json: is in the way"),
        ("file", "file is a file"),
        ("file/below", "file is a file"),
    ):
        error = refused(*starting(command, tmp_path, out))
        assert expected in error
        assert "Choose another --out" in error


@pytest.mark.parametrize("wrong", NAMES)
def test_inspecting(refused, wrong):
    field, value, said = NAMES[wrong]
    assert said in refused("inspect", LOG, f"--{field}", value)


def test_exporting_to_what_is_there(refused, tmp_path):
    (tmp_path / "policy").mkdir()
    error = refused("export", "run", "--out", "policy")
    assert "policy: exists already. Choose another --out" in error


def test_a_missing_extra(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    words = starting("train", tmp_path, "run")
    assert 'pip install "gamps[tensorboard]"' in refused(*words, "--tensorboard")
