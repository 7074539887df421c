"""The command line: parse, call, print."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import jax
import tyro
from tyro.extras import SubcommandApp

from gamps import paper
from gamps._utils.compile_cache import keep_compiled
from gamps._version import __version__
from gamps.cli.collect import collect
from gamps.cli.compare import compare
from gamps.cli.evaluate import evaluate
from gamps.cli.export import export
from gamps.cli.importing import fit_behaviour, import_
from gamps.cli.inspect import inspect
from gamps.cli.launch import launch, sweep
from gamps.cli.play import play
from gamps.cli.report import report
from gamps.cli.settings_file import with_settings
from gamps.cli.train import resume, train
from gamps.errors import GampsError

DESCRIPTION = """Batch policy search with gradient-aware models.

From a log of your own controller to a policy:

    gamps import log.csv --episode run --observations h1 h2 --actions pump --reward reward
        --log-prob logp --dataset tanks/day-v0
    gamps inspect tanks/day-v0 --task mytask:task
    gamps train tanks/day-v0 --task mytask:task --out runs/tanks
    gamps evaluate runs/tanks
    gamps report runs/tanks
    gamps export runs/tanks

The paper's tables and figures: gamps reproduce table1 --quick
"""

REPRODUCE = """The paper's tables and figures, one command each.

Each prints a table that puts our numbers beside the paper's and writes NAME.json and NAME.png to
--out; --quick gives a small version in seconds."""


COMMANDS: dict[str, Callable[..., None]] = {
    "import": import_,
    "collect": collect,
    "fit-behaviour": fit_behaviour,
    "inspect": inspect,
    "train": train,
    "resume": resume,
    "launch": launch,
    "sweep": sweep,
    "evaluate": evaluate,
    "report": report,
    "compare": compare,
    "export": export,
    "play": play,
}


def application() -> SubcommandApp:
    """All commands."""
    app = SubcommandApp()
    commands = SubcommandApp()
    for name in paper.__all__:
        commands.command(name=name)(getattr(paper, name))
    app.command(commands, name="reproduce", help=REPRODUCE)
    for name, command in COMMANDS.items():
        app.command(name=name)(command)
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
            args=with_settings(arguments) or ["--help"],
            prog="gamps",
            description=DESCRIPTION,
            config=(tyro.conf.CascadeSubcommandArgs,),
        )
    except GampsError as error:
        print(f"gamps: {error}", file=sys.stderr)
        _leave(2)
    except OSError as error:  # a disk that is full, a folder that cannot be written
        print(f"gamps: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        _leave(2)
    except KeyboardInterrupt:
        print("gamps: interrupted", file=sys.stderr)
        _leave(130)
    except Exception:
        if jax.process_count() == 1:
            raise
        traceback.print_exc()
        _leave(1)


def _leave(code: int) -> NoReturn:
    """End; of several processes at once, or the others would wait minutes for this one."""
    if jax.process_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
