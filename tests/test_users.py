"""Logs as people have them, through all commands, and what their plants say of the result."""

import pytest

from benchmarks.users import logs
from benchmarks.users.logs import IMPORTS, PLANTS
from benchmarks.users.run import through
from gamps import datasets
from gamps.cli import main


@pytest.mark.parametrize("name", PLANTS)
def test_every_log_goes_in_by_one_command(tmp_path, monkeypatch, capsys, name):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    for size in ("OVENS", "STAYS", "SHIFTS"):
        monkeypatch.setattr(logs, size, 30)
    path = tmp_path / f"{name}.csv"
    logs.WRITERS[name](path, 0)
    main(["import", str(path), *IMPORTS[name], "--dataset", "users/log-v0"])
    rows = len(path.read_text(encoding="utf-8").splitlines()) - 1
    assert f"{rows} rows: " in capsys.readouterr().out
    data = datasets.load("users/log-v0")
    assert data.labels.observations == PLANTS[name].names
    assert data.trajectories.actions.dtype.kind == ("i" if name == "ward" else "f")
    assert data.labels.newest == ("new" if name == "pump" else "")


@pytest.mark.full
@pytest.mark.parametrize("name", PLANTS)
def test_from_a_table_to_a_policy_that_is_better(tmp_path, name):
    logs.WRITERS[name](tmp_path / f"{name}.csv", 0)
    found = through(name, tmp_path)
    assert found["verdict"] == "deploy"
    assert found["bound"] > 0
    assert found["true"] > 3 * found["error"]
