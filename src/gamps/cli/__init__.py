"""The command line: parse, call, print.

A command is imported when it is called, so that `gamps --help` answers at once.
"""

import argparse
import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from inspect import signature  # `inspect` itself is a command here
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from gamps._version import __version__
from gamps.errors import GampsError, SettingError


class Command(NamedTuple):
    """A command of the shell.

    Attributes:
      target: `module:function`, whose arguments are the command's.
      summary: one line of the list of commands.
    """

    target: str
    summary: str

    def load(self) -> Callable[..., Any]:
        """The function, imported now."""
        module, _, name = self.target.partition(":")
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return function


Commands = Mapping[str, Command]

USER = {
    "import": Command("gamps.cli.importing:import_", "turn a table of logged steps into a dataset"),
    "inspect": Command("gamps.cli.inspect:inspect", "check whether a log is fit to learn from"),
    "train": Command("gamps.cli.train:train", "learn a better policy from a log"),
    "evaluate": Command("gamps.cli.evaluate:evaluate", "say whether the policy may be deployed"),
    "report": Command("gamps.cli.report:report", "write one HTML page about a run"),
    "export": Command("gamps.cli.export:export", "write a policy that runs without gamps"),
    "next": Command("gamps.cli.rounds:next_", "go on after a deployment, with the new log"),
    "play": Command("gamps.cli.play:play", "run an exported policy in a Gymnasium environment"),
}
MORE = {
    "resume": Command("gamps.cli.train:resume", "go on with an interrupted training"),
    "compare": Command("gamps.cli.compare:compare", "put several runs side by side"),
    "fit-behaviour": Command(
        "gamps.cli.importing:fit_behaviour", "estimate the logging policy if it is unknown"
    ),
    "collect": Command("gamps.cli.collect:collect", "log a known policy in an environment"),
    "campaign": Command("gamps.cli.campaign:campaign", "log, learn and deploy, round by round"),
    "launch": Command("gamps.cli.launch:launch", "train in several processes, surviving failures"),
    "sweep": Command("gamps.cli.launch:sweep", "train with every combination of some settings"),
}
PAPER = {
    name: Command(f"gamps.paper.{name}:{name}", summary)
    for name, summary in {
        "table1": "model accuracy, Q error and gradient cosine",
        "weights": "where the weights lie on the gridworld",
        "gridworld": "learning curves on the gridworld",
        "minigolf": "learning curves on minigolf",
        "swimmer": "learning curves on Swimmer",
        "qnorm": "the norm of the score in the weights",
        "bounds": "the theorems' bounds against the true error",
    }.items()
}
COMMANDS: Commands = USER | MORE

HELP = """gamps {version}: a better policy from a log, and an honest answer on whether to deploy it.

From the log of your own controller to a policy:
{user}

More:
{more}

For research:
{research}

gamps COMMAND --help explains a command. First steps:
  gamps import log.csv --episode run --observations h1 h2 --actions pump --reward reward
    --log-prob logp --dataset tanks/day-v0
  gamps inspect tanks/day-v0 --task mytask:task
  gamps train tanks/day-v0 --task mytask:task --out runs/tanks
  gamps evaluate runs/tanks
"""

REPRODUCE = """The paper's tables and figures, one command each: gamps reproduce NAME.

{names}

Each prints our numbers beside the paper's and writes NAME.json and NAME.png to --out.
--quick runs a small version in seconds. gamps reproduce NAME --help explains one.
"""


def listed(commands: Commands) -> str:
    """A line for each command."""
    return "\n".join(f"  {name:<14} {command.summary}" for name, command in commands.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `gamps`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"], ["version"]):
        print(f"gamps {__version__}")
        return
    if words[:1] == ["reproduce"]:
        names = REPRODUCE.format(names=listed(PAPER))
        run(words[1:], PAPER, prog="gamps reproduce", description=names)
        return
    research = {"reproduce": Command("", "the paper's tables and figures, one command each")}
    groups = {"user": USER, "more": MORE, "research": research}
    text = HELP.format(version=__version__, **{k: listed(v) for k, v in groups.items()})
    _compile_quickly()
    run(words, COMMANDS, prog="gamps", description=text)


def _compile_quickly() -> None:
    """Let XLA optimise less, unless it was told how much.

    A command compiles for longer than its programs run, and these are as fast: what takes their
    time are matrix products, which are not compiled.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_optimization_level" not in flags and "jax" not in sys.modules:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=1".strip()


def run(words: Sequence[str], commands: Commands, *, prog: str, description: str) -> None:
    """Call one of some commands with the words of a shell.

    An error that the user can fix is shown without a traceback and ends with status 2.
    """
    if not words or words[0] in ("-h", "--help"):
        print(description, end="")
        return
    name, *rest = words
    rest = one_log(rest) if name == "train" else rest
    if name not in commands:
        known = ", ".join(commands)
        print(f"{prog}: no command {name!r}. Choose one of {known}", file=sys.stderr)
        sys.exit(2)
    try:
        _call(commands[name].load(), f"{prog} {name}", rest)
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
        if not _several():
            raise
        traceback.print_exc()
        _leave(1)


def one_log(words: Sequence[str]) -> list[str]:
    """The words of a command, those before the first option as one.

    Examples:
      >>> one_log(["may-v0", "june-v0", "--out", "run"])
      ['may-v0+june-v0', '--out', 'run']
    """
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return ["+".join(words[:count])] * (count > 0) + list(words[count:])


def _call(function: Callable[..., Any], prog: str, words: Sequence[str]) -> None:
    import tyro

    from gamps._utils.compile_cache import keep_compiled

    try:
        keep_compiled()
    except GampsError as error:
        print(f"gamps: compiled programs are not kept. {error}", file=sys.stderr)
    tyro.cli(configured(function, words), args=words, prog=prog)


def configured(function: Callable[..., Any], words: Sequence[str]) -> Callable[..., Any]:
    """A command whose defaults are the settings of the TOML file that --config names, if any."""
    if "config" not in signature(function).parameters:
        return function
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    path = parser.parse_known_args(list(words))[0].config
    if path is None:
        return function
    from tyro import MISSING

    from gamps.runs.spec import KINDS, TrainSpec, read_toml, typed

    settings = read_toml(path, "config")
    others = {"out": Path, "tensorboard": bool}
    for name in settings:
        if name not in KINDS | others:
            fix = f"Known are {', '.join([*KINDS, *others])}"
            raise SettingError("config", f"{path}: {name} is no setting", fix)
    rest = {name: kind(settings[name]) for name, kind in others.items() if name in settings}
    spec = {name: typed(name, settings[name]) for name in KINDS if name in settings}
    return functools.partial(function, spec=TrainSpec(**({"log": MISSING} | spec)), **rest)


def _several() -> bool:
    """Whether this process works together with others."""
    jax = sys.modules.get("jax")
    return jax is not None and jax.process_count() > 1


def _leave(code: int) -> NoReturn:
    """End; of several processes at once, or the others would wait minutes for this one."""
    if _several():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
