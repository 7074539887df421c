"""What comes from a user or a file is shown as it is, and no text is taken for a colour."""

import ast
import io
import re
import shutil
from pathlib import Path

import jax
import pytest
from rich.text import Text

import gamps
from gamps import datasets
from gamps._utils import console as output
from gamps.cli import main
from gamps.envs import TwoTanks, collect, tanks
from gamps.runs import findings, inspection

SOURCE = Path(gamps.__file__).parent
ODD = "a[/b] [red]c[/red] :key: {d}"
MARKUP = re.compile(r"\[/?[a-z#@][a-z0-9_.#@ ]*\]|\[/\]")
SHOWING = {
    "print", "say", "add_row", "add_column", "rich_table", "update", "add_task", "bar", "status",
    "log", "rule", "Panel", "TextColumn", "from_markup", "render_str", "advance",
}  # fmt: skip


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 100 columns, and what it shows."""
    shown = io.StringIO()
    console = output.plain_console(file=shown, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr(output, "terminal", console)
    return shown


def test_a_line_a_table_and_a_bar_show_odd_text_as_it_is(terminal):
    output.say(ODD, "yellow")
    output.say(Text.assemble(("bold", "bold"), f": {ODD}"))
    table = output.rich_table(ODD, ["first", ODD], caption=ODD)
    table.add_row(Text(ODD, "red"), ODD)
    output.terminal.print(table)
    lines = terminal.getvalue().splitlines()
    assert lines[:2] == [ODD, f"bold: {ODD}"]
    assert sum(line.count(ODD) for line in lines[2:]) == 5
    with output.bar(ODD, 2) as advance:
        advance(ODD)
    assert f"{ODD}: {ODD}" in terminal.getvalue()


def test_a_style_is_a_style(monkeypatch):
    shown = io.StringIO()
    settings = {"file": shown, "force_terminal": True, "color_system": "standard"}
    monkeypatch.setattr(output, "terminal", output.plain_console(highlight=False, **settings))
    output.say("[red]", "yellow")
    assert shown.getvalue() == "\x1b[33m[red]\x1b[0m\n"


def test_commands_show_odd_names_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    log = collect(TwoTanks(), tanks.policy(), jax.random.key(2), n=20, steps=6)
    kept = datasets.save("tanks/day-v0", log, tanks.policy(), discount=0.98)
    shutil.copytree(kept, tmp_path / "[red]log")
    odd = findings.Finding("note", ODD, ODD, ODD)
    monkeypatch.setattr(inspection, "inspect", lambda *_, **__: [odd])  # which would compile
    main(["inspect", "[red]log"])
    shown = capsys.readouterr().out
    assert "[red]log " in shown
    assert shown.count(ODD) == 3
    words = ["--task", "gamps.envs.tanks:task", "--recipe", "pgt", "--iterations", "1"]
    main(["train", "[red]log", *words, "--out", "a[/b]"])
    shown = capsys.readouterr().out
    assert "reading [red]log …" in shown
    assert "written: a[/b]\n" in shown
    assert "next: gamps evaluate a[/b], gamps export a[/b]\n" in shown
    plain = next((tmp_path / "a[" / "b]" / "checkpoints").iterdir()) / "plain.json"
    plain.write_text("{}")
    main(["export", "a[/b]", "--out", "[bold]p", "--which", "learned"])
    shown = capsys.readouterr().out
    assert "skipped a checkpoint: a[/b]/checkpoints/" in shown
    assert "written: [bold]p\n" in shown


def test_odd_columns_are_named_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    (tmp_path / "log.csv").write_text("run,x,u,r\n0,0,0,0\n0,1,1,1\n")
    words = ["import", str(tmp_path / "log.csv"), "--dataset", "tanks/odd-v0", "--episode", "run"]
    words += ["--actions", "u", "--reward", "r", "--observations"]
    for column in ("a[/b]", "[red]x"):
        with pytest.raises(SystemExit) as caught:
            main([*words, column])
        assert caught.value.code == 2
        assert column in capsys.readouterr().err


def as_written(node: ast.AST) -> str:
    """A string of the source, with a word for what is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(as_written(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "word"


def marked_up(source: str) -> list[str]:
    """Strings with markup that are handed to what shows them, and consoles that would heed it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        given = {word.arg: word.value for word in node.keywords}
        if name == "Console" and getattr(given.get("markup"), "value", True):
            found.append("Console without markup=False")
        if name not in SHOWING:
            continue
        for argument in (*node.args, *given.values()):
            inside = ast.walk(argument)
            texts = [n for n in inside if isinstance(n, ast.JoinedStr | ast.Constant)]
            found += [text for text in map(as_written, texts) if MARKUP.search(text)]
    return found


def test_no_text_of_the_package_holds_markup():
    for path in sorted(SOURCE.rglob("*.py")):
        assert marked_up(path.read_text(encoding="utf-8")) == [], path


@pytest.mark.parametrize(
    "source",
    [
        'console.print(f"[yellow]stopped: {why}")',
        'output.terminal.print("[bold red]stopped[/]")',
        'table.add_row(f"[{COLOURS[grade]}]{grade}", what)',
        'say(f"[bold {colour}]{word}[/]: {why}", soft_wrap=True)',
        'refused(lambda error: say(f"[yellow]skipped: {error}"))',
        "Console(width=120)",
        "Console(markup=True)",
    ],
)
def test_markup_is_seen(source):
    assert marked_up(source)
    assert not marked_up('say(f"written: {out}", "yellow")')
    assert not marked_up("Console(markup=False)")
