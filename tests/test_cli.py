"""The commands as a user runs them, at their smallest size."""

import json
import re

import pytest

from gamps import __version__, experiments
from gamps.cli import main

NUMBER = {"mean", "std", "low", "high", "n"}


def numbers(tree):
    """Every leaf of a result tree is a number with its interval."""
    if set(tree) >= NUMBER:
        assert set(tree) == NUMBER
        yield tree
    else:
        for branch in tree.values():
            yield from numbers(branch)


def reproduce(name, out, *arguments):
    main(["reproduce", name, "--quick", "--out", str(out), *arguments])
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((out / f"{name}.json").read_text())
    assert set(content) == {"settings", "results", "paper"}
    assert list(numbers(content["results"]))
    assert sorted(p.name for p in out.iterdir()) == [f"{name}.json", f"{name}.png"]
    return content


def test_table1(tmp_path, capsys):
    for fit in ("adam", "closed"):
        found = reproduce("table1", tmp_path / fit, "--fit", fit)["results"]
        ml, gamps = found["ml"], found["gamps"]
        assert gamps["gradient_cosine"]["mean"] > 0.95
        assert ml["gradient_cosine"]["mean"] < 0.7
        assert ml["accuracy"]["mean"] > gamps["accuracy"]["mean"]
        assert ml["q_mse"]["mean"] < gamps["q_mse"]["mean"]
    assert "0.449 ± 0.041" in capsys.readouterr().out


def test_weights(tmp_path):
    found = reproduce("weights", tmp_path / "w")["results"]
    assert found["gamps"]["lower"]["mean"] == 0
    assert found["ml"]["lower"]["mean"] > 0.5
    assert found["gamps"]["distance_to_eta"]["mean"] < 0.2


def test_gridworld(tmp_path, capsys):
    content = reproduce(
        "gridworld", tmp_path / "g", "--layout", "A", "--baselines", "none", "per_time"
    )
    for treatment in ("none", "per_time"):
        recipes = content["results"][treatment]["25"]
        assert set(recipes) == {"gamps", "ml", "pgt", "reinforce"}
        assert all(set(r) == {"final", "best"} for r in recipes.values())
    out = capsys.readouterr().out
    assert "GAMPS is" in out
    assert re.search(r"first|tied|behind", out)


def test_qnorm(tmp_path):
    found = reproduce("qnorm", tmp_path / "q")["results"]
    assert found["1"]["final"]["mean"] == pytest.approx(found["inf"]["final"]["mean"], rel=1e-6)


def test_bounds(tmp_path):
    found = reproduce("bounds", tmp_path / "b")["results"]
    for model in ("ml", "mixed", "uniform"):
        assert found[model]["error"]["mean"] <= found[model]["gradient_aware"]["mean"]
    assert found["gamps"]["error"]["mean"] < 1e-12
    assert found["gamps"]["gradient_aware"]["mean"] < 1e-6
    assert found["gamps"]["gradient_unaware"]["mean"] is None  # infinite


def test_nothing_is_overwritten_silently(tmp_path, capsys):
    (tmp_path / "qnorm.json").write_text("mine")
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", "qnorm", "--quick", "--out", str(tmp_path)])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "--overwrite" in error
    assert "Traceback" not in error
    assert (tmp_path / "qnorm.json").read_text() == "mine"


def test_version(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"gamps {__version__}\n"


@pytest.mark.parametrize("command", [[], ["--help"], ["reproduce", "--help"]])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main(command)
    assert caught.value.code == 0
    assert "reproduce" in capsys.readouterr().out


@pytest.mark.parametrize("name", experiments.__all__)
def test_every_experiment_teaches(name, capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", name, "--help"])
    out = capsys.readouterr().out
    for option in ("--seeds", "--out", "--quick", "--layout", "--overwrite"):
        assert option in out
