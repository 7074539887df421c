"""Runs of others: name the modules that opening one imports, before it imports them."""

import sys
from pathlib import Path

from gamps.runs import folder
from gamps.runs.spec import modules_of_others


def say_imports(run: Path) -> None:
    """Print on stderr the modules that a run's settings name, except gamps's own.

    Importing a module runs it, so this has to come before anything that imports.

    Raises:
      RunError: if there is no run.
    """
    found = modules_of_others(folder.header(run)["settings"])
    if found:
        named = (f"{target.partition(':')[0]} ({name} {target})" for name, target in found.items())
        text = f"gamps: {run}: this run imports {', '.join(named)}"
        print(_printable(text), file=sys.stderr, flush=True)


def _printable(text: str) -> str:
    """Escape the characters that a terminal would obey instead of showing."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
