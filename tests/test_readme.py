"""The README's commands and code work as they stand."""

import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from gamps import bench, experiments

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def environment() -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    clean["MINARI_DATASETS_PATH"] = tempfile.mkdtemp()
    return clean | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_python_blocks_run_and_the_first_ends_in_a_picture(tmp_path):
    for i, code in enumerate(blocks("python")):
        script = tmp_path / f"block{i}.py"  # a file, as a user would have it
        script.write_text(code, encoding="utf-8")
        subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=environment(), check=True)
    (picture,) = tmp_path.glob("*.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_quickstart_commands(tmp_path):
    commands = [
        line for block in blocks("bash") for line in block.splitlines() if "--quick" in line
    ]
    assert commands
    for command in commands:
        subprocess.run(shlex.split(command), cwd=tmp_path, env=environment(), check=True)
    assert list(tmp_path.rglob("*.png"))


def test_every_command_named_exists():
    assert set(re.findall(r"gamps reproduce (\w+)", README)) <= set(experiments.__all__)
    assert set(re.findall(r"gamps bench (\w+)", README)) <= set(bench.__all__)


def test_numbers_come_from_the_result_files(monkeypatch):
    root = Path(__file__).parent.parent
    page = (root / "docs" / "results.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(root / "docs" / "render.py"))["page"]() == page
    monkeypatch.syspath_prepend(root / "docs")
    scale = (root / "docs" / "scale.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(root / "docs" / "render_scale.py"))["page"]() == scale
    kinds = ("| ML", "| GAMPS", "| library", "| bare", "| torch")
    rows = [line for line in README.splitlines() if line.startswith(kinds)]
    assert rows
    assert set(rows) <= set(page.splitlines())
