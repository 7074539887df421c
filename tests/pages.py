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
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from page_blocks import SHOWN, Block, PageError, blocks

NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?|[-+]?\b(?:inf|nan)\b|∞")
INSTALL = "python -m venv"
# The shell says which line of the page failed; code is padded so that both count alike.
TRAP = """trap 'echo "$0:$LINENO: status $?: $BASH_COMMAND" >&2' ERR"""


class Ran(NamedTuple):
    """A block that was run, with what it printed and how long it took."""

    block: Block
    output: str
    seconds: float


class FailedError(PageError):
    """A page whose code failed, or printed something else; `ran` are the blocks before that."""

    def __init__(self, message: str, ran: Sequence[Ran]) -> None:
        super().__init__(message)
        self.ran = ran


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
) -> list[Ran]:
    """Run a page.

    Args:
      page: a Markdown file.
      folder: where its code runs; it must be empty, or not there.
      python: the interpreter.
      skip_install: leave out shell blocks that begin by making a virtual environment.
      timeout: seconds for all of it.

    Returns:
      The blocks that were run.

    Raises:
      PageError: naming the page, the line and the command that failed, with its output.
    """
    (ran,) = run_several([page], folder.parent, [folder.name], python, skip_install, timeout)
    return ran


def run_several(
    pages: Sequence[Path],
    parent: Path,
    names: Sequence[str],
    python: str = sys.executable,
    skip_install: bool = True,
    timeout: float = 900.0,
) -> list[list[Ran]]:
    """Run pages one after the other in one process, each in a folder of its own below `parent`.

    Modules that a page has written are forgotten when it ends; those of packages stay imported.
    """
    # Not resolved: the interpreter of an environment is a link, and is what it is by its place.
    python = os.path.abspath(python)  # noqa: PTH100
    plan = []
    for page, name in zip(pages, names, strict=True):
        folder, todo = (parent / name).resolve(), blocks(page)
        if not any(block.executed for block in todo):
            raise PageError(f"{page.resolve()}: no code is executed on it")
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise PageError(f"{folder}: is not empty. A page starts from nothing")
        wanted = [block for block in todo if not (skip_install and _installs(block))]
        plan.append((page.resolve(), wanted, folder))
    with tempfile.TemporaryDirectory() as name:
        kept, text = Path(name), json.dumps([[str(p), todo, str(f)] for p, todo, f in plan])
        (kept / "plan.json").write_text(text, encoding="utf-8")
        # A group of its own: what a block has left running ends with it.
        first = plan[0][2]
        session = subprocess.Popen(
            [python, str(Path(__file__).resolve()), "--session", name],
            cwd=first, env=environment(first, python), start_new_session=True,
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
        return [_results(p, todo, kept / str(i), why) for i, (p, todo, _) in enumerate(plan)]


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
            raise FailedError(f"{place}\n{block.code}--- output\n{text}", ran)
        ran.append(Ran(block, text, found["seconds"]))
    missing = [f"{page}:{line}" for both in shown for line in _unprinted(*both)]
    if missing:
        raise FailedError("\n".join(missing), ran)
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
    """In the process that runs pages: block after block, each with an output of its own."""
    for number, (page, todo, folder) in enumerate(
        json.loads((kept / "plan.json").read_text("utf-8"))
    ):
        outputs = kept / str(number)
        outputs.mkdir()
        os.chdir(folder)
        os.environ["MINARI_DATASETS_PATH"] = str(Path(folder) / "data")
        sys.path[0], sys.argv = folder, [page]
        if not _page(page, [Block(*parts) for parts in todo], outputs):
            return 1
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(folder):
                del sys.modules[name]
    return 0


def _page(page: str, todo: Sequence[Block], outputs: Path) -> bool:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for i, block in enumerate(todo):
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.code, encoding="utf-8")
        if not block.executed:
            continue
        with (outputs / f"{i}.txt").open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        began = time.perf_counter()
        passed = (
            _python(page, block, namespace) if block.language == "python" else _bash(page, block)
        )
        sys.stdout.flush()
        sys.stderr.flush()
        done = {"failed": "" if passed else "failed", "seconds": time.perf_counter() - began}
        (outputs / f"{i}.json").write_text(json.dumps(done), encoding="utf-8")
        if not passed:
            return False
    return True


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
            failure, ran = str(error), getattr(error, "ran", ())
    for block, output, seconds in ran if given.verbose else ():
        print(f"== {given.page}:{block.line}: {block.language}, {seconds:.1f} s\n{output}", end="")
    print(f"{given.page}: {len(ran)} blocks, {sum(one.seconds for one in ran):.0f} s")
    if failure:
        print(failure, file=sys.stderr)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
