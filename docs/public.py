"""What is public and not documented; the build of the site fails if there is anything.

Public is what has no leading underscore: every module, function, class and method, and whatever a
package lists in `__all__`, constants included. A module is in the reference if a page of docs/api
has a line `::: module`. Every room must be, except those of the commands; files inside a room are
part of it, but an open room hands out its modules, except those whose names it lists itself.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMANDS = {"cli", "paper", "report"}  # these explain themselves by --help
OPEN = {"deployment", "exact", "search"}  # `from gamps.search import values`
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def undocumented(
    package: Path = ROOT / "src" / "gamps", pages: Path = ROOT / "docs" / "api"
) -> list[str]:
    """Names without a docstring, and modules that are on no page of the reference."""
    texts = [path.read_text(encoding="utf-8").splitlines() for path in pages.glob("*.md")]
    shown = {line.removeprefix("::: ").strip() for text in texts for line in text}
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        if any(part.startswith("_") for part in module.split(".")):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if ast.get_docstring(tree) is None:
            found.append(module)
        found += [f"{module}.{name}" for name in _bare(tree)]
        listed = _listed(tree) if path.stem == "__init__" else []
        found += [f"{module}.{name}" for name in listed if not _said(package, tree, name)]
        if _wanted(package, module) and module not in shown:
            found.append(f"{module} (on no page of {pages.name})")
    return found


def _wanted(package: Path, module: str) -> bool:
    """Whether a module must be on a page of its own name."""
    _, *inside = module.split(".")
    if len(inside) < 2:
        return not set(inside) & COMMANDS
    room = ast.parse((package / inside[0] / "__init__.py").read_text(encoding="utf-8"))
    listed = {node.module for node in room.body if isinstance(node, ast.ImportFrom)}
    return len(inside) == 2 and inside[0] in OPEN and module not in listed


def _bare(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Definitions without a docstring, methods of classes included."""
    for node in tree.body:
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _bare(ast.Module([*ast.iter_child_nodes(node)], []))  # type: ignore[list-item]
        if isinstance(node, Definition) and not node.name.startswith("_"):
            if ast.get_docstring(node) is None:
                yield node.name
            if isinstance(node, ast.ClassDef):
                yield from (f"{node.name}.{name}" for name in _bare(node))


def _listed(tree: ast.Module) -> list[str]:
    """The names of `__all__`."""
    values = [n.value for n in tree.body if isinstance(n, ast.Assign) and "__all__" in _names(n)]
    return [str(name) for value in values for name in ast.literal_eval(value)]


def _names(node: ast.stmt) -> set[str]:
    """What an assignment assigns to."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {name.id for target in targets if target for name in ast.walk(target)
            if isinstance(name, ast.Name)}  # fmt: skip


def _said(package: Path, tree: ast.Module, name: str) -> bool:
    """Whether a listed name is a definition, or a constant with a docstring, here or elsewhere."""
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.If) and _said(package, ast.Module(node.body, []), name):
            return True  # imported for readers of the source alone
        if isinstance(node, Definition) and node.name == name:
            return True  # looked at by itself
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _names(node):
            value = following.value if isinstance(following, ast.Expr) else None
            return isinstance(value, ast.Constant) and isinstance(value.value, str)
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            place = package.parent.joinpath(*str(node.module).split("."))
            if (place / name).is_dir() or (place / f"{name}.py").is_file():
                return True  # a module, looked at by itself
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            return _said(package, ast.parse(file.read_text(encoding="utf-8")), name)
    return False
