"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tyro
from tyro.extras import SubcommandApp

from gamps import experiments
from gamps._version import __version__
from gamps.errors import GampsError

DESCRIPTION = """Batch policy search with gradient-aware models.

Start with a reproduction of the paper's gridworld table, in seconds:

    gamps reproduce table1 --quick
"""

REPRODUCE = """The paper's tables and figures, one command each.

Each prints a table that puts our numbers beside the paper's and writes NAME.json and NAME.png to
--out; --quick gives a small version in seconds."""


def application() -> SubcommandApp:
    """All commands."""
    reproduce = SubcommandApp()
    for name in experiments.__all__:
        reproduce.command(name=name)(getattr(experiments, name))
    app = SubcommandApp()
    app.command(reproduce, name="reproduce", help=REPRODUCE)
    app.command(name="version")(version)
    return app


def version() -> None:
    """Print the version."""
    print(f"gamps {__version__}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `gamps`; an error that the user can mend is shown without a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments) in (["--version"], ["-V"]):
        version()
        return
    try:
        application().cli(
            args=list(arguments) or ["--help"],
            prog="gamps",
            description=DESCRIPTION,
            config=(tyro.conf.CascadeSubcommandArgs,),
        )
    except GampsError as error:
        print(f"gamps: {error}", file=sys.stderr)
        sys.exit(2)
