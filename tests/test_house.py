"""The house stays in order: old names are gone, nothing stands twice, the door opens quickly."""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import jax
import pytest

import gamps

ROOT = Path(__file__).parent.parent
SOURCE = Path(gamps.__file__).parent
MOVED = """
linear networks noise settings compilation processes sealed behaviour tabular theory importance
weights sampling fitting values gradients streaming recipes sharding learning exporting deployed
training checkpoints inspection launching experiments bench report.output report.numbers
report.figures evaluation.every evaluation.terms evaluation.fitted evaluation.comparison
datasets.replacing datasets.cutting datasets.shards datasets.cached datasets.buffers datasets.blocks
datasets.flat
"""
MODULES = {f"gamps.{name}" for name in MOVED.split()}
NAMES = {
    "Words", "LinearGaussian", "MLPGaussian", "Bent", "Drawn", "Climbing", "Finished", "Judged",
    "classes_of", "taken_up", "words_in", "hash_of", "mend", "finding",
}  # fmt: skip


def identifiers(tree):
    """Every name that a source defines, imports, assigns or asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[-1]


def modules(tree):
    """Every module that a source imports, or may import a name of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield str(node.module)


def gone(text):
    """Old names that a source still has."""
    tree = ast.parse(text)
    paths = [m for m in modules(tree) if m in MODULES or m.rpartition(".")[0] in MODULES]
    front_door = {"gamps.recipes", "gamps.inspect"}
    return {m for m in paths if m not in front_door} | (set(identifiers(tree)) & NAMES)


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "docs"])
def test_old_paths_and_names_are_gone(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        assert gone(path.read_text("utf-8")) == set(), path


@pytest.mark.parametrize(
    "text",
    ["from gamps import sharding", "import gamps.training.words", "from gamps.theory import bound",
     "x = Words()", "error.mend", "def taken_up(): ..."],
)  # fmt: skip
def test_an_old_name_is_seen(text):
    assert gone(text)


def test_algorithm_1_stands_in_one_file():
    steps = {"weigh", "gradient", "climb"}
    for path in sorted((SOURCE / "search").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        called = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        here = path.relative_to(SOURCE / "search").as_posix()
        assert (steps <= defined) == (here == "algorithm.py"), here
        assert ("off_policy" in called) == (here == "algorithm.py"), here
        if here == "streaming/shard.py":
            assert steps <= called


def code_lines(path):
    """Lines of code with their numbers: no blank line, comment, docstring, import or bracket."""
    text = path.read_text("utf-8")
    silent = set()
    for node in ast.walk(ast.parse(text)):
        text_alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if text_alone or isinstance(node, ast.Import | ast.ImportFrom):
            silent |= set(range(node.lineno, node.end_lineno + 1))
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if number not in silent and bare.strip("()[]{},:") and not bare.startswith("#"):
            yield number, bare


def test_no_ten_lines_stand_twice():
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        lines = list(code_lines(path))
        for i in range(len(lines) - 9):
            block = tuple(line for _, line in lines[i : i + 10])
            places[block].append(f"{path.relative_to(SOURCE)}:{lines[i][0]}")
    assert [where for where in places.values() if len(where) > 1] == []


def test_the_package_does_not_grow_unnoticed():
    files = [p for p in SOURCE.rglob("*") if p.suffix in (".py", ".typed")]
    assert sum(len(p.read_text("utf-8").splitlines()) for p in files) <= 24_050


def test_help_is_short_and_quick():
    program = (
        "import sys, time\n"
        "from gamps.cli import main\n"
        "main(['--help'])\n"
        "heavy = {'jax', 'numpy', 'matplotlib', 'tyro', 'gymnasium'} & sys.modules.keys()\n"
        "print(time.process_time(), *sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    path = ["import", "inspect", "train", "evaluate", "report", "export", "play", "reproduce"]
    shown = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in path]
    assert shown[:8] == path
    seconds, *heavy = done.stderr.split()
    assert heavy == []
    assert float(seconds) < 1.0


def test_the_front_door():
    expected = {
        "load", "split", "inspect", "learn", "evaluate", "export", "load_policy", "Task",
        "Trajectories", "Episode", "from_episodes", "recipes", "__version__",
    }  # fmt: skip
    assert set(gamps.__all__) == expected
    names = ", ".join(sorted(expected | {"policies", "envs"}))
    for first in ("recipes", "policies", "inspect"):  # in a process that has imported nothing yet
        program = f"from gamps import {first}\nfrom gamps import {names}"
        subprocess.run([sys.executable, "-c", program], check=True)
    assert expected <= set(dir(gamps))
    with pytest.raises(AttributeError, match="no attribute 'gamps_paper'"):
        _ = gamps.gamps_paper


def test_what_the_front_door_says_it_does(tmp_path):
    """The calls of the package's docstring, as they stand there."""
    env = gamps.envs.TwoTanks()
    policy = gamps.envs.tanks.policy()
    log = gamps.envs.collect(env, policy, jax.random.key(0), n=20, steps=6)
    task = gamps.envs.tanks.task()
    assert gamps.inspect(log, task)
    learned, held_out = gamps.split(log)
    verdict = gamps.evaluate(policy, learned, held_out, task).verdict
    assert verdict.why == "it is the logging policy itself"
    gamps.export(policy, learned, str(tmp_path / "policy"))
    assert gamps.load_policy(str(tmp_path / "policy")).certificate is None


def test_no_import_starts_a_device():
    """Or --devices and --coordinator would come too late."""
    program = (
        "import importlib, pkgutil, gamps, benchmarks.engine\n"
        "for found in pkgutil.walk_packages(gamps.__path__, 'gamps.'):\n"
        "    if '__main__' not in found.name:\n"
        "        importlib.import_module(found.name)\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
