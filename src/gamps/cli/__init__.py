"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tyro
from tyro.extras import SubcommandApp

from gamps import bench, experiments
from gamps._version import __version__
from gamps.cli.collect import collect
from gamps.compilation import keep_compiled
from gamps.errors import GampsError

DESCRIPTION = """Batch policy search with gradient-aware models.

Start with a reproduction of the paper's gridworld table, in seconds, or log a policy of your own:

    gamps reproduce table1 --quick
    gamps collect Swimmer-v5 --steps 200 --dataset swimmer/random-v0
"""

REPRODUCE = """The paper's tables and figures, one command each.

Each prints a table that puts our numbers beside the paper's and writes NAME.json and NAME.png to
--out; --quick gives a small version in seconds."""


BENCH = """Speed on this machine, as ratios within one run.

An absolute time means little on a shared machine; the ratio to the engine run bare does."""


def application() -> SubcommandApp:
    """All commands."""
    app = SubcommandApp()
    for group, module, text in (
        ("reproduce", experiments, REPRODUCE),
        ("bench", bench, BENCH),
    ):
        commands = SubcommandApp()
        for name in module.__all__:
            commands.command(name=name)(getattr(module, name))
        app.command(commands, name=group, help=text)
    app.command(name="collect")(collect)
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
        keep_compiled()
    except GampsError as error:
        print(f"gamps: compiled programs are not kept. {error}", file=sys.stderr)
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
