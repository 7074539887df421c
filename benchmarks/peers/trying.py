"""Run a command as a user would, and look at what it says and leaves."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


def lines_of(code: str) -> int:
    """Lines that are neither empty nor a comment."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in code.split("\n"))


def left_in(folder: Path, *given: str) -> dict[str, Any]:
    """Files and bytes that were not there before."""
    given = (*given, "__pycache__")
    files = [p for p in folder.rglob("*") if p.is_file() and not {p.name, p.parent.name} & {*given}]
    return {"files": len(files), "bytes": sum(p.stat().st_size for p in files)}


class Ended(NamedTuple):
    """What a command did: whether it worked, and its lines; a bar drawn over itself is one."""

    works: bool
    out: list[str]
    lines: list[str]

    @property
    def said(self) -> str:
        """Nothing, or how a failure names itself."""
        if self.works:
            return ""
        named = [line for line in self.lines if re.match(r"gamps: |\w+(Error|Exception)\b", line)]
        return (named or self.lines)[-1].rstrip(":")


def run(command: list[str], folder: Path, env: dict[str, str], *, must: bool = False) -> Ended:
    """To its end, whatever that is, unless it must work."""
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)  # noqa: S603 - ours
    out, errors = (
        [line for line in text.decode().split("\n") if line.strip()]
        for text in (ended.stdout, ended.stderr)
    )
    if must and ended.returncode:
        sys.exit("\n".join([f"{command} in {folder}:", *errors[-30:]]))
    return Ended(ended.returncode == 0, out, out + errors)


def killed(command: list[str], folder: Path, env: dict[str, str], far: Callable[[], bool]) -> None:
    """Start it and kill it once it has come far enough."""
    process = subprocess.Popen(  # noqa: S603 - the commands are ours
        command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not far() and process.poll() is None:
        time.sleep(0.02)
    if process.poll() is not None:
        sys.exit(f"{command} ended before it could be killed")
    process.send_signal(signal.SIGKILL)
    process.wait()
