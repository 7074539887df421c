"""Imports go down only, and the parts of the third layer do not know each other."""

import ast
from pathlib import Path

import gamps
from layers import LAYERS, LEVEL, WITHIN

SOURCE = Path(gamps.__file__).parent


def imports(path: Path) -> set[str]:
    """The gamps modules that a file imports, by their first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "gamps":
            names = [f"gamps.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative imports hide their layer"
            names = [node.module or ""]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("gamps.")}
    return found


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if name != "__init__":
            yield path, name


def violations(files) -> list[str]:
    found = []
    for path, name in files:
        for other in imports(path) - {name}:
            down = LEVEL[other] < LEVEL[name]
            beside = LEVEL[other] == LEVEL[name] and LEVEL[name] in WITHIN
            if not (down or beside):
                found.append(f"{path.name} imports {other}")
    return found


def test_every_module_has_a_layer():
    assert {name for _, name in modules()} == set(LEVEL)
    assert sum(len(names) for _, names in LAYERS) == len(LEVEL)


def test_imports_go_down():
    assert violations(modules()) == []


def test_an_upward_import_is_seen(tmp_path):
    copy = tmp_path / "weights.py"
    copy.write_text(
        "from gamps import search\nfrom gamps.search.fitting import Keep\n", encoding="utf-8"
    )
    found = violations([(copy, "weights")])
    assert sorted(found) == ["weights.py imports fitting", "weights.py imports search"]
