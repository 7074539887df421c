"""Run the code of a Markdown page, from its top to its end, in a fresh folder.

    python tests/pages.py docs/tutorials/own-log.md [--folder DIR] [--python PYTHON] [--verbose]

A block of `python` is run, all of them in one session; one of `bash` in a shell of its own; one
with a title is written to that file. One of `text` is what the block before it has printed: each
of its lines must be there, numbers aside, and none may be a command. What is none of these is
refused, so that no code on a page goes unseen. Only the standard library is used, since PYTHON may
be that of another environment.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

RUN, WRITTEN, SHOWN = ("python", "bash"), ("python", "bash", "toml"), "text"
FENCE = re.compile(r"^[ \t]*(`{3,}) *([\w-]*)(?: +title=\"([^\"]*)\")? *$")
MISSED = re.compile(r"```|--8<--|^[\s>*+.\d-]*~~~")  # quoted, included, or by another fence
COMMAND = re.compile(r"\s*(?:gamps|pip|python|\$) ")
INDENTED = re.compile(r"(?: {4}|\t)\s*(?:gamps|pip|python|\$) ")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?|[-+]?\b(?:inf|nan)\b|∞")
INSTALL = "python -m venv"
# The shell says which line of the page failed; code is padded so that both count alike.
TRAP = """trap 'echo "$0:$LINENO: status $?: $BASH_COMMAND" >&2' ERR"""


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


class PageError(Exception):
    """A page that cannot be run, or whose code failed; `ran` are the blocks before that."""

    def __init__(self, message: str, ran: Sequence[Ran] = ()) -> None:
        super().__init__(message)
        self.ran = ran


def blocks(page: Path) -> list[Block]:
    """All code blocks of a page, in their order; what cannot be one is refused."""
    found, lines = list[Block](), iter(enumerate(page.read_text("utf-8").splitlines(), start=1))
    for number, line in lines:
        fence = FENCE.match(line)
        if fence is None:
            if MISSED.search(line):
                mend = "Fence it by ``` and a language, with a title at most"
                raise PageError(f"{page}:{number}: code that is not seen: {line.strip()}. {mend}")
            if INDENTED.match(line):
                raise PageError(f"{page}:{number}: a command without a fence. Fence it as bash")
            continue
        code, closing = list[str](), re.compile(rf"\s*{fence[1]}`*\s*")
        for _, inside in lines:
            if closing.fullmatch(inside):
                break
            code.append(inside)
        else:
            inside = ""
        if not closing.fullmatch(inside) or any(FENCE.match(line) for line in code):
            raise PageError(f"{page}:{number}: a block without an end")
        text = textwrap.dedent("\n".join(code)) + "\n"
        found.append(_checked(page, Block(fence[2], fence[3] or "", number + 1, text)))
    return found


def _checked(page: Path, block: Block) -> Block:
    place, title = f"{page}:{block.line - 1}", Path(block.title)
    if block.language not in (*WRITTEN, SHOWN):
        known = ", ".join((*WRITTEN, SHOWN))
        raise PageError(f"{place}: language {block.language!r}. Take one of {known}")
    if title.is_absolute() or ".." in title.parts:
        raise PageError(f"{place}: {block.title} is out of the page's folder")
    if block.title and block.language == SHOWN:
        raise PageError(f"{place}: text is not written to a file. Leave the title out")
    if block.language not in (*RUN, SHOWN) and not block.title:
        raise PageError(f"{place}: {block.language} without a title. Say the file it belongs into")
    for i, line in enumerate(block.code.splitlines()):
        if block.language == SHOWN and COMMAND.match(line):
            raise PageError(f"{page}:{block.line + i}: a command in text. Fence it as bash")
    return block


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
      settings: more of the environment; what is empty is taken out of it.

    Returns:
      The blocks that were run.

    Raises:
      PageError: naming the page, the line and the command that failed, with its output.
    """
    # Not resolved: the interpreter of an environment is a link, and is what it is by its place.
    python = os.path.abspath(python)  # noqa: PTH100
    page, folder, todo = page.resolve(), folder.resolve(), blocks(page)
    if not any(block.executed for block in todo):
        raise PageError(f"{page}: no code is executed on it")
    if skip_install:
        todo = [block for block in todo if not _installs(block)]
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise PageError(f"{folder}: is not empty. A page starts from nothing")
    given = environment(folder, python) | (settings or {})
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "blocks.json").write_text(json.dumps([str(page), todo]), encoding="utf-8")
        # A group of its own: what a block has left running ends with it.
        session = subprocess.Popen(
            [python, str(Path(__file__).resolve()), "--session", name],
            cwd=folder, env={k: v for k, v in given.items() if v}, start_new_session=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            why = f"ended the session, status {session.wait(timeout)}"
        except subprocess.TimeoutExpired:
            why = f"was ended, {timeout:g} seconds after the page began"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session.pid, signal.SIGKILL)
            session.wait()
        return _results(page, todo, Path(name), why)


def _installs(block: Block) -> bool:
    """Whether a block installs and does nothing else."""
    lines = [part.strip() for line in block.code.splitlines() for part in line.split("&&")]
    return (
        block.language == "bash"
        and lines[0].startswith(INSTALL)
        and all(
            line.startswith((INSTALL, ". .venv/bin/activate", "pip install ")) for line in lines
        )
    )


def _results(page: Path, todo: Sequence[Block], kept: Path, why: str) -> list[Ran]:
    ran, shown = list[Ran](), list[tuple[Block, str]]()
    for i, block in enumerate(todo):
        if block.language == SHOWN and ran:
            shown.append((block, ran[-1].output))
        if not block.executed:
            continue
        output, done = kept / f"{i}.txt", kept / f"{i}.json"
        text = output.read_text("utf-8", errors="replace") if output.exists() else ""
        found = json.loads(done.read_text()) if done.exists() else {"failed": why, "seconds": 0}
        if found["failed"]:
            place = f"{page}:{block.line}: {block.language} block {found['failed']}"
            raise PageError(f"{place}\n{block.code}--- output\n{text}", ran)
        ran.append(Ran(block, text, found["seconds"]))
    missing = [f"{page}:{line}" for both in shown for line in _unprinted(*both)]
    if missing:
        raise PageError("\n".join(missing), ran)
    return ran


def _unprinted(block: Block, output: str) -> Iterator[str]:
    """Lines that the block before has not printed; "..." stands for anything."""

    def plain(line: str) -> str:
        return " ".join(NUMBER.sub("#", line).split())

    printed = [plain(line) for line in output.splitlines()]
    for i, line in enumerate(block.code.splitlines()):
        wanted = [part.strip() for part in plain(line).split("...")]
        if not any(all(part in found for part in wanted) for found in printed):
            yield f"{block.line + i}: was not printed: {line}"


def _session(kept: Path) -> int:
    """In the process that runs a page: block after block, each with an output of its own."""
    page, todo = json.loads((kept / "blocks.json").read_text("utf-8"))
    sys.path[0], sys.argv = str(Path.cwd()), [page]
    namespace: dict[str, object] = {"__name__": "__main__"}
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
        done = {"failed": "" if passed else "failed", "seconds": time.perf_counter() - began}
        (kept / f"{i}.json").write_text(json.dumps(done), encoding="utf-8")
        if not passed:
            return 1
    return 0


def _python(page: str, block: Block, namespace: dict[str, object]) -> bool:
    padded = "\n" * (block.line - 1) + block.code
    try:
        exec(compile(padded, page, "exec", dont_inherit=True), namespace)
    except BaseException as error:
        own = error.__traceback__  # begins in this file, which is not where to look
        error.__traceback__ = own.tb_next if own else None
        sys.excepthook(type(error), error, error.__traceback__)
        return False
    return True


def _bash(page: str, block: Block) -> bool:
    script = TRAP + "\n" * (block.line - 1) + block.code
    return subprocess.run(["bash", "-Eeuo", "pipefail", "-c", script, page]).returncode == 0


def main() -> int:
    """Run the page that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", type=Path, nargs="?", default=Path("README.md"))
    parser.add_argument("--folder", type=Path, help="where to run it; it stays. By default it goes")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to run it by")
    parser.add_argument("--skip-install", action="store_true", help=f"leave out {INSTALL}")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for the page")
    parser.add_argument("--verbose", action="store_true", help="show every block's output and time")
    parser.add_argument("--session", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.session:
        return _session(given.session)
    failure = ""
    with tempfile.TemporaryDirectory() as fresh:
        rest = {name: getattr(given, name) for name in ("python", "skip_install", "timeout")}
        try:
            ran: Sequence[Ran] = run(given.page, given.folder or Path(fresh), **rest)
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
