"""The functions of a package as commands: `python -m benchmarks.engine NAME`."""

import inspect
import sys
from collections.abc import Sequence
from types import ModuleType

from gamps.cli import Command, listed, run


def main(package: ModuleType, words: Sequence[str] | None = None) -> None:
    """Call one of the functions that a package offers, with the words of a shell."""
    commands = {}
    for name in package.__all__:
        summary = (inspect.getdoc(getattr(package, name)) or "").partition("\n")[0]
        commands[name.replace("_", "-")] = Command(f"{package.__name__}:{name}", summary)
    prog = f"python -m {package.__name__}"
    text = f"{package.__doc__}\n\n{listed(commands)}\n\n{prog} NAME --help explains one.\n"
    run(sys.argv[1:] if words is None else words, commands, prog=prog, description=text)
