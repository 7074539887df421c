"""The commands as a user runs them, at their smallest size."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import command_line, engine, studies
from benchmarks.studies.exploration import CHOSEN, TRIALS
from gamps import __version__, paper
from gamps.cli import COMMANDS, PAPER, main

ROOT = Path(__file__).parent.parent
NUMBER = {"mean", "std", "low", "high", "n"}


def numbers(tree):
    """Every leaf of a result tree is a number with its interval."""
    if isinstance(tree, list):
        tree = dict(enumerate(tree))
    tree = {k: v for k, v in tree.items() if k not in ("changes", "chosen", "finalists")}
    if set(tree) in (NUMBER, {"mean", "standard_error"}):
        yield tree
    else:
        for branch in tree.values():
            yield from numbers(branch)


def command(name, *arguments):
    """A table or figure of the paper, or a study."""
    if name in PAPER:
        main(["reproduce", name, *arguments])
    else:
        command_line.main(studies, [name.replace("_", "-"), *arguments])


def written(name, out, *arguments):
    command(name, "--quick", "--out", str(out), *arguments)
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((out / f"{name}.json").read_text())
    assert set(content) == {"settings", "results", "paper"}
    found = {p.name for p in out.iterdir()} - {"cells"}
    assert found == {f"{name}.json", f"{name}.png"}
    return content


def reproduce(name, out, *arguments):
    content = written(name, out, *arguments)
    assert list(numbers(content["results"]))
    return content


@pytest.mark.full
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


@pytest.mark.full
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
    content = reproduce("bounds", tmp_path / "b")
    found = content["results"]
    for model in ("ml", "mixed", "uniform"):
        assert found[model]["error"]["mean"] <= found[model]["gradient_aware"]["mean"]
    assert found["gamps"]["error"]["mean"] < 1e-12
    assert found["gamps"]["gradient_aware"]["mean"] < 1e-6
    assert found["gamps"]["gradient_unaware"]["mean"] is None  # infinite
    breaking = content["paper"]["counterexample"]
    names = ("discount", "error", "gradient_aware_printed", "gradient_aware")
    for discount, error, printed, corrected in zip(*map(breaking.get, names), strict=True):
        assert error <= corrected
        assert corrected == pytest.approx(printed / (1 - discount))
        assert (error > printed) == (discount > 0.61)


@pytest.mark.full
def test_minigolf(tmp_path, capsys):
    treatments = ("none", "per_time", "per_time_ess")
    content = reproduce("minigolf", tmp_path / "m", "--treatments", *treatments)
    for treatment in treatments:
        (found,) = content["results"][treatment].values()
        assert set(found) == {"gamps", "ml", "pgt", "reinforce", "paired"}
        for name in ("gamps", "ml", "pgt", "reinforce"):
            assert {"final", "best", "holes", "overshoots"} <= set(found[name])
            assert 0 <= found[name]["holes"]["mean"] + found[name]["overshoots"]["mean"] <= 1
        difference = found["gamps"]["final"]["mean"] - found["ml"]["final"]["mean"]
        assert found["paired"]["ml"]["mean"] == pytest.approx(difference, abs=1e-4)
    assert content["settings"]["optimum"] == pytest.approx(-3.09, abs=0.02)
    assert "optimum" in capsys.readouterr().out


@pytest.mark.full
def test_swimmer(tmp_path, capsys):
    """Real MuJoCo; a cell that is kept is not run again."""
    options = ["--seeds", "1", "--iterations", "1", "--workers", "1"]
    content = reproduce("swimmer", tmp_path / "s", *options)
    for treatment in ("literal", "stabilised"):
        found = content["results"][treatment]
        assert set(found) == {"gamps", "ml", "pgt", "reinforce", "paired"}
        difference = found["gamps"]["final"]["mean"] - found["pgt"]["final"]["mean"]
        assert found["paired"]["pgt"]["mean"] == pytest.approx(difference, abs=1e-6)
    cells = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "s" / "cells").glob("*.json")}
    assert len(cells) == 8
    (tmp_path / "s" / "swimmer.json").unlink()
    (tmp_path / "s" / "cells" / "literal-pgt-0.json").unlink()
    again = reproduce("swimmer", tmp_path / "s", *options)
    assert again["results"] == content["results"]
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "s" / "cells").glob("*.json")}
    assert [name for name in cells if kept[name] != cells[name]] == ["literal-pgt-0.json"]
    assert "Swimmer, 1 runs" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.parametrize("name", ["ablation", "exploration"])
def test_research_on_swimmer(name, tmp_path, capsys):
    content = reproduce(name, tmp_path / name)
    assert content["results"]
    assert "mean ± std" in capsys.readouterr().out


def test_what_the_exploration_chose_is_what_is_reported():
    path = ROOT / "docs" / "results" / "exploration.json"
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert {recipe: found["chosen"] for recipe, found in results.items()} == CHOSEN
    for recipe, found in results.items():
        assert [row["changes"] for row in found["trials"]] == [
            trial.changes() for trial in TRIALS[recipe]
        ]
    assert len({len(trials) for trials in TRIALS.values()}) == 1  # as many for each


@pytest.mark.full
def test_bench_rollouts(capsys):
    """Measured by the command itself, compiled as a user's; a loaded machine is granted much."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    size = ["--trajectories", "20", "--repeats", "6", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine", "rollouts", *size], cwd=ROOT,
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    content = json.loads(done.stdout)
    ratio = {name: row["ratio_to_bare"] for name, row in content["results"].items()}
    assert ratio["bare"] == 1.0
    assert ratio["library"] < 2.5
    assert ratio["naive"] / ratio["library"] > 1.2
    assert content["settings"]["peak_gflops"] > 1
    command_line.main(engine, ["rollouts", "--trajectories", "1", "--repeats", "1"])
    assert "ratio to bare" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "field"), [(["--rollouts", "30"], "rollouts"), (["--steps", "7"], "steps")]
)
def test_bench_rollouts_names_an_impossible_size(arguments, field, capsys):
    with pytest.raises(SystemExit) as caught:
        command_line.main(engine, ["rollouts", "--trajectories", "1", *arguments])
    assert caught.value.code == 2
    assert f"gamps: {field}" in capsys.readouterr().err


@pytest.mark.full
def test_bench_rollouts_names_a_python_without_torch(capsys):
    words = ["rollouts", "--trajectories", "1", "--repeats", "1", "--torch-python"]
    with pytest.raises(SystemExit) as caught:
        command_line.main(engine, [*words, sys.executable])
    assert caught.value.code == 2
    assert "No module named 'torch'" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ([], [*COMMANDS, "reproduce"]),
        (["--help"], [*COMMANDS, "reproduce"]),
        (["reproduce", "--help"], PAPER),
        (["reproduce"], PAPER),
    ],
)
def test_help(words, known, capsys):
    main(words)
    out = capsys.readouterr().out
    assert [name for name in known if f"\n  {name} " not in out] == []


@pytest.mark.parametrize("package", [engine, studies])
def test_help_of_what_is_measured(package, capsys):
    command_line.main(package, ["--help"])
    out = capsys.readouterr().out
    names = [name.replace("_", "-") for name in package.__all__]
    assert [name for name in names if f"\n  {name} " not in out] == []


@pytest.mark.parametrize("words", [["trian"], ["reproduce", "table2"]])
def test_an_unknown_command_names_the_known_ones(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert f"no command '{words[-1]}'" in error
    assert ("table1" if "reproduce" in words else "train") in error


def test_help_needs_no_jax():
    program = (
        "import sys\nfrom gamps.cli import main\nmain(['--help'])\nsys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)


def test_the_commands_of_the_paper_are_those_of_its_package():
    assert sorted(PAPER) == paper.__all__


@pytest.mark.parametrize("name", [*PAPER, *studies.__all__])
def test_every_experiment_teaches(name, capsys):
    with pytest.raises(SystemExit):
        command(name, "--help")
    out = capsys.readouterr().out
    counted = {
        "coverage": "--replications",
        "certificate": "--logs",
        "false_deploys": "--trials",
        "null_campaigns": "--campaigns",
        "safe_improvement": "--logs",
        "two_controllers": "--logs",
    }
    for option in (counted.get(name, "--seeds"), "--out", "--quick", "--overwrite"):
        assert option in out


@pytest.mark.full
def test_coverage(tmp_path):
    """Forty logs of two policies: what a doubly robust interval misses is at most 1e-4 likely."""
    arguments = ("--problems", "gridworld", "--replications", "40", "--workers", "1")
    found = written("coverage", tmp_path / "c", *arguments)["results"]
    assert set(found["cells"]) == {"gridworld-2", "gridworld-4"}
    for cell in found["cells"].values():
        assert cell["misses"]["guaranteed"]["count"] == 0
        assert cell["misses"]["doubly robust, student"]["count"] <= 9
        assert cell["ess"][0] <= 200 * cell["effective"] * 2
    assert found["summary"]["doubly robust, student"]["adequate"][0] >= 0.75


@pytest.mark.full
@pytest.mark.parametrize(
    "null", ["equal", "a hair worse", "hidden state", "rare failure, declared"]
)
def test_false_deploys(null):
    """At a true rate of 5 % more than two of ten are wrong in 1.2 % of the draws."""
    study = importlib.import_module("benchmarks.studies.false_deploys")
    found = study.cell(dict(null=null, episodes=50, trials=10, confidence=0.95))
    assert found["gain"] <= 0
    assert found["deploys"] <= 2
