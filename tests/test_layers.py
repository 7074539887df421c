"""Imports go down only: between rooms, and between the stages of the paper's algorithm."""

import ast
from pathlib import Path

import pytest

import gamps
from layers import ROOMS, STAGES

SOURCE = Path(gamps.__file__).parent
ORDER = {name: level for level, name in enumerate(ROOMS)}
STAGE = {name: level for level, names in enumerate(STAGES) for name in names}


def imports(text: str) -> set[tuple[str, ...]]:
    """The gamps modules that a source imports, anywhere in it, as parts of their names."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import hides its room"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {tuple(name.split(".")[1:]) for name in names if name.startswith("gamps.")}
    return found


def violations(place: tuple[str, ...], text: str) -> list[str]:
    """What a module at that place must not import."""
    found = []
    for other in imports(text):
        if other[0] not in ORDER:
            continue  # a name of the package itself
        above = ORDER[other[0]] > ORDER[place[0]]
        if place[0] == other[0] == "search" and len(place) > 1 and len(other) > 1:
            mine, theirs = STAGE.get(place[1]), STAGE.get(other[1])
            above = None not in (mine, theirs) and place[1] != other[1] and theirs >= mine
        if above:
            found.append(f"{'.'.join(place)} imports {'.'.join(other)}")
    return found


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).with_suffix("").parts
        if place != ("__init__",):  # the front door opens on every room
            yield tuple(part for part in place if part != "__init__"), path.read_text("utf-8")


def test_every_room_and_stage_is_in_the_order():
    assert {place[0] for place, _ in modules()} == set(ORDER)
    stages = {place[1] for place, _ in modules() if place[0] == "search" and len(place) > 1}
    assert stages == set(STAGE)


def test_imports_go_down():
    assert [v for place, text in modules() for v in violations(place, text)] == []


def test_nothing_in_the_wheel_imports_the_benchmarks():
    for place, text in modules():
        for node in ast.walk(ast.parse(text)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "benchmarks" for name in names), place


@pytest.mark.parametrize("room", list(ROOMS)[:-1])
@pytest.mark.parametrize(
    "form", ["from gamps import {}", "from gamps.{} import x", "import gamps.{}.x"]
)
def test_an_import_upwards_is_seen_in_every_room(room, form):
    higher = list(ROOMS)[ORDER[room] + 1]
    indented = f"def late():\n    {form.format(higher)}\n"
    assert violations((room, "seeded"), indented), f"{room} may import {higher}"


@pytest.mark.parametrize("stage", sorted(STAGE))
def test_an_import_upwards_is_seen_in_every_stage(stage):
    if stage in STAGES[-1]:
        pytest.skip("nothing stands above")
    for other in STAGES[STAGE[stage] + 1] | STAGES[STAGE[stage]] - {stage}:
        assert violations(("search", stage), f"from gamps.search import {other}\n")
