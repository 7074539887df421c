"""A run of somebody else: what reading it runs is named before it is run, and the pages say so."""

import json
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import jax
import pytest

from gamps import cluster, datasets
from gamps.cli import launch, main
from gamps.envs import TwoTanks, collect, tanks
from gamps.runs import TrainSpec, folder
from gamps.runs.spec import log_sha256

ROOT = Path(__file__).parent.parent
LOG = "tanks/day-v0"
COMMANDS = ["resume", "evaluate", "report", "compare", "export"]  # and launch, with a run
EXECUTED = 'import sys\nprint("executed", file=sys.stderr)\nraise RuntimeError("was run")\n'


@pytest.fixture
def run_of(tmp_path, monkeypatch):
    """A run folder with such settings, and a module that says when it is executed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    log = collect(TwoTanks(), tanks.policy(), jax.random.key(2), n=12, steps=4)
    datasets.save(LOG, log, tanks.policy())
    (tmp_path / "strange_task.py").write_text(EXECUTED)

    def make(name, **words):
        settings = {"task": "gamps.envs.tanks:task", "recipe": "pgt", "iterations": 1} | words
        settings = asdict(TrainSpec(LOG, **settings)) | {"log_sha256": log_sha256(LOG)}
        return str(folder.create(Path(name), settings))

    return make


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("field", ["task", "policy"])
def test_modules_are_named_before_they_are_run(run_of, capsys, command, field):
    run = run_of("theirs", **{field: "strange_task:made"})
    words = [run, run_of("own")] if command == "compare" else [run]
    with pytest.raises(SystemExit) as caught:
        main([command, *words])
    assert caught.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [
        f"gamps: theirs: this run imports strange_task ({field} strange_task:made)",
        "executed",
    ]
    assert "was run" in lines[2]


def test_launching_a_run_names_its_modules_first(run_of, capsys, monkeypatch):
    def job(run, **_):
        print("at work", file=sys.stderr)
        return cluster.Status(1, 1, 0)

    monkeypatch.setattr(launch, "require_ray", lambda: None)
    monkeypatch.setattr(cluster, "job", job)
    named = {"features": "strange.features:own", "model": "strange_models:kind"}
    main(["launch", run_of("theirs", recipe="ml", **named)])
    assert capsys.readouterr().err.splitlines() == [
        "gamps: theirs: this run imports strange.features (features strange.features:own), "
        "strange_models (model strange_models:kind)",
        "at work",
    ]


def test_modules_of_gamps_are_not_named(run_of, capsys):
    run = run_of("own")
    shutil.rmtree(datasets.folder_of(LOG))
    with pytest.raises(SystemExit):
        main(["resume", run])
    (line,) = capsys.readouterr().err.splitlines()
    assert "has changed since" in line


def test_a_terminal_obeys_nothing_of_the_name(run_of, capsys):
    run = run_of("theirs")
    content = json.loads(Path(run, "run.json").read_text())
    content["settings"]["task"] = "hidden\x1b[2K\rfine:task"
    Path(run, "run.json").write_text(json.dumps(content))
    with pytest.raises(SystemExit):
        main(["evaluate", run])
    first = capsys.readouterr().err.splitlines()[0]
    assert "this run imports hidden\\x1b[2K\\rfine (task hidden" in first


def test_both_pages_say_which_commands_run_what_a_run_names():
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert '--8<-- "SECURITY.md:3"' in page  # the page holds all of the other
    running = {*COMMANDS, "launch"}
    for text in (policy, page):
        (said,) = re.findall(r"^`run\.json` (?:keeps|names).*?^$|^\*\*Runs of others\.\*\*.*?^$",
                             text, re.M | re.S)  # fmt: skip
        before, _, after = said.partition("import")
        assert set(re.findall(r"`gamps (\w+)(?: RUN)?`", before)) == running
        assert "`gamps play`" in after
