"""Run the code of a Markdown page, from its top to its end, in a fresh folder.

    python tests/pages.py docs/tutorials/own-log.md [--folder DIR] [--python PYTHON] [--verbose]

A block of `python` is run, all of them in one session; one of `bash` in a shell of its own; one
with a title is written to that file; one of `text` is shown only, and may hold no command. What is
none of these is refused, so that no code on a page goes unseen. Only the standard library is used,
and Python blocks run by PYTHON, which may be that of another environment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

RUN, WRITTEN, SHOWN = ("python", "bash"), ("python", "bash", "toml"), "text"
FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,})(?P<info>[^`]*)$")
MISSED = re.compile(r"```|--8<--|^\s*(?:[-*>+]\s+|\d+\.\s+)*~~~")  # quoted, included, tilde
OPTIONS = re.compile(r'(\w+)="([^"]*)"')
COMMAND = re.compile(r"\s*(?:gamps|pip|python|\$) ")
INDENTED = re.compile(r"(?: {4}|\t)\s*(?:gamps|pip|python|\$) ")
INSTALL = "python -m venv"
# The shell says which line of the page failed; code is padded so that both count alike.
TRAP = """trap 'echo "$0:$LINENO: status $?: $BASH_COMMAND" >&2' ERR"""


class PageError(Exception):
    """A page that cannot be run, or whose code failed; `ran` are the blocks before that."""

    def __init__(self, message: str, ran: Sequence[Ran] = ()) -> None:
        super().__init__(message)
        self.ran = ran


class Block(NamedTuple):
    """Code of a page; its first line has the number `line`."""

    language: str
    title: str
    line: int
    code: str

    @property
    def executed(self) -> bool:
        """Whether it is run, and not written to a file or shown."""
        return self.language in RUN and not self.title


class Ran(NamedTuple):
    """A block that was run, with what it printed and how long it took."""

    block: Block
    output: str
    seconds: float


def blocks(page: Path) -> list[Block]:
    """All code blocks of a page, in their order; what cannot be one is refused."""
    found, lines = list[Block](), page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        fence = FENCE.match(lines[number])
        number += 1
        if fence is None:
            if MISSED.search(lines[number - 1]):
                raise PageError(f"{page}:{number}: code that is not seen. Fence it by ``` alone")
            if INDENTED.match(lines[number - 1]):
                raise PageError(f"{page}:{number}: a command without a fence. Fence it as bash")
            continue
        first, closing = number, re.compile(rf"\s*{fence['ticks']}`*\s*")
        while number < len(lines) and not closing.fullmatch(lines[number]):
            number += 1
        if number == len(lines):
            raise PageError(f"{page}:{first}: a block without an end")
        code = textwrap.dedent("\n".join(lines[first:number])) + "\n"
        found.append(_block(page, fence["info"], first + 1, code))
        number += 1
    return found


def _block(page: Path, info: str, line: int, code: str) -> Block:
    place, language = f"{page}:{line - 1}", info.split()[0] if info.split() else ""
    options = dict(OPTIONS.findall(info))
    title = options.pop("title", "")
    if language not in (*WRITTEN, SHOWN):
        raise PageError(f"{place}: language {language!r}. Take one of {', '.join(WRITTEN)}, text")
    if options or OPTIONS.sub("", info).split() != [language]:
        raise PageError(f"{place}: {info.strip()!r}. Say a language, and a title at most")
    if language == SHOWN and title:
        raise PageError(f"{place}: text is not written to a file. Leave the title out")
    if language not in (*RUN, SHOWN) and not title:
        raise PageError(f"{place}: {language} without a title. Say the file it belongs into")
    if Path(title).is_absolute() or ".." in Path(title).parts:
        raise PageError(f"{place}: {title} is out of the page's folder")
    if language == SHOWN:
        for i, shown in enumerate(code.splitlines()):
            if COMMAND.match(shown):
                raise PageError(f"{page}:{line + i}: a command in text. Fence it as bash")
    return Block(language, title, line, code)


def environment(folder: Path, python: str) -> dict[str, str]:
    """What the code of a page sees: the interpreter's own programs first, logs in its folder."""
    dropped = ("XLA_FLAGS", "PYTHONPATH", "VIRTUAL_ENV")
    clean = {k: v for k, v in os.environ.items() if k not in dropped}
    clean["PATH"] = f"{Path(python).parent}{os.pathsep}{clean['PATH']}"
    return clean | {"MINARI_DATASETS_PATH": str(folder / "data")}


def run(
    page: Path,
    folder: Path,
    *,
    python: str = sys.executable,
    skip_install: bool = False,
    timeout: float = 900.0,
    settings: dict[str, str] | None = None,
) -> list[Ran]:
    """Run a page.

    Args:
      page: a Markdown file.
      folder: where its code runs; it must be empty, or not there.
      python: the interpreter.
      skip_install: leave out shell blocks that begin by making a virtual environment.
      timeout: seconds for all of it.
      settings: more of the environment; an empty one is left out of it.

    Returns:
      The blocks that were run.

    Raises:
      PageError: naming the page, the line and the command that failed, with its output.
    """
    page, folder, python = page.resolve(), folder.resolve(), os.path.abspath(python)  # noqa: PTH100
    todo = blocks(page)
    if not any(block.executed for block in todo):
        raise PageError(f"{page}: no code is executed on it")
    if skip_install:
        todo = [block for block in todo if not _installs(block)]
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise PageError(f"{folder}: is not empty. A page starts from nothing")
    around = environment(folder, python) | (settings or {})
    around = {
        name: value for name, value in around.items() if value or name not in (settings or {})
    }
    with tempfile.TemporaryDirectory() as name:
        kept = Path(name)
        (kept / "blocks.json").write_text(json.dumps([str(page), todo]), encoding="utf-8")
        # A group of its own: what a block has left running ends with it.
        session = subprocess.Popen(
            [python, str(Path(__file__).resolve()), "--session", name],
            cwd=folder, env=around, start_new_session=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            status = session.wait(timeout)
            why = f"ended the session, status {status}"
        except subprocess.TimeoutExpired:
            why = f"was ended, {timeout:g} seconds after the page began"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session.pid, signal.SIGKILL)
            session.wait()
        return _results(page, todo, kept, why)


def _installs(block: Block) -> bool:
    return block.executed and block.language == "bash" and block.code.startswith(INSTALL)


def _results(page: Path, todo: Sequence[Block], kept: Path, why: str) -> list[Ran]:
    ran = []
    for i, block in enumerate(todo):
        if not block.executed:
            continue
        output, done = kept / f"{i}.txt", kept / f"{i}.json"
        text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        found = json.loads(done.read_text()) if done.exists() else {"failed": why, "seconds": 0}
        if found["failed"]:
            place = f"{page}:{block.line}: {block.language} block {found['failed']}"
            raise PageError(f"{place}\n{block.code}--- output\n{text}", ran)
        ran.append(Ran(block, text, found["seconds"]))
    return ran


def _session(kept: Path) -> int:
    """In the process that runs a page: block after block, each with an output of its own."""
    page, todo = json.loads((kept / "blocks.json").read_text(encoding="utf-8"))
    sys.path[0], sys.argv = str(Path.cwd()), [page]
    namespace = {"__name__": "__main__"}
    for i, parts in enumerate(todo):
        block = Block(*parts)
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.code, encoding="utf-8")
        if not block.executed:
            continue
        with (kept / f"{i}.txt").open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        began = time.perf_counter()
        passed = (
            _python(page, block, namespace) if block.language == "python" else _bash(page, block)
        )
        sys.stdout.flush()
        sys.stderr.flush()
        seconds = time.perf_counter() - began
        done = {"failed": "" if passed else "failed", "seconds": seconds}
        (kept / f"{i}.json").write_text(json.dumps(done), encoding="utf-8")
        if not passed:
            return 1
    return 0


def _python(page: str, block: Block, namespace: dict[str, object]) -> bool:
    padded = "\n" * (block.line - 1) + block.code
    try:
        exec(compile(padded, page, "exec", dont_inherit=True), namespace)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return False
    return True


def _bash(page: str, block: Block) -> bool:
    script = TRAP + "\n" * (block.line - 1) + block.code
    return subprocess.run(["bash", "-Eeuo", "pipefail", "-c", script, page]).returncode == 0


def main() -> int:
    """Run the page that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("--folder", type=Path, help="where to run it; it stays. By default it goes")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to run it by")
    parser.add_argument("--skip-install", action="store_true", help=f"leave out {INSTALL}")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for the page")
    parser.add_argument("--verbose", action="store_true", help="show every block's output and time")
    parser.add_argument("--session", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.session:
        return _session(given.session)
    if given.page is None:
        parser.error("name a page")
    failure = ""
    with tempfile.TemporaryDirectory() as fresh:
        try:
            ran: Sequence[Ran] = run(
                given.page, given.folder or Path(fresh), python=given.python,
                skip_install=given.skip_install, timeout=given.timeout,
            )  # fmt: skip
        except PageError as error:
            failure, ran = str(error), error.ran
    for block, output, seconds in ran if given.verbose else ():
        print(f"== {given.page}:{block.line}: {block.language}, {seconds:.1f} s\n{output}", end="")
    print(f"{given.page}: {len(ran)} blocks, {sum(one.seconds for one in ran):.0f} s")
    if failure:
        print(failure, file=sys.stderr)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
