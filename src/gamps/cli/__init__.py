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
    """A subcommand of `gamps`.

    Attributes:
      target: `module:function`; the function's arguments are the command's.
      summary: its line in the list of commands.
    """

    target: str
    summary: str

    def load(self) -> Callable[..., Any]:
        """Import the function and return it."""
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
    "next": Command("gamps.cli.rounds:next_", "continue after a deployment, with the new log"),
    "play": Command("gamps.cli.play:play", "run an exported policy in a Gymnasium environment"),
}
MORE = {
    "resume": Command("gamps.cli.train:resume", "continue an interrupted training"),
    "compare": Command("gamps.cli.compare:compare", "compare several runs"),
    "fit-behaviour": Command(
        "gamps.cli.importing:fit_behaviour", "estimate the logging policy if it is unknown"
    ),
    "collect": Command("gamps.cli.collect:collect", "log episodes of a known policy"),
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

Each prints our numbers next to the paper's and writes NAME.json and NAME.png to --out.
--quick runs a small version in seconds. gamps reproduce NAME --help explains one.
"""


def listed(commands: Commands) -> str:
    """Return one line per command."""
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
    _set_up_engines()
    run(words, COMMANDS, prog="gamps", description=text)


def _set_up_engines() -> None:
    """Lower XLA's optimisation level, and give NumPy one thread, unless the user has set them.

    A command spends more time compiling than running, and its programs run as fast: most of their
    time goes into matrix products, which are not compiled. NumPy decomposes thousands of small
    matrices, and several threads on each take longer than one.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_optimization_level" not in flags and "jax" not in sys.modules:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=1".strip()


def run(words: Sequence[str], commands: Commands, *, prog: str, description: str) -> None:
    """Call the command that the first word names, with the other words as its arguments.

    An error that the user can fix is shown without a traceback; the exit status is then 2.
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
    except OSError as error:  # a full disk, a read-only folder
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
    """Join the words before the first option into one, with `+` between them.

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
    """Return the command with the settings in --config's TOML file, if any, as its defaults."""
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
    others = {"out": str, "tensorboard": bool}
    for name in settings:
        if name not in KINDS | others:
            fix = f"Choose from {', '.join([*KINDS, *others])}"
            raise SettingError("config", f"{path}: {name} is not a setting", fix)
        if name in others and type(settings[name]) is not others[name]:
            problem = f"{path}: {name} is {settings[name]!r}"
            raise SettingError("config", problem, f"Write it as a {others[name].__name__}")
    kinds = {"out": Path, "tensorboard": bool}
    rest = {name: kind(settings[name]) for name, kind in kinds.items() if name in settings}
    spec = {name: typed(name, settings[name]) for name in KINDS if name in settings}
    return functools.partial(function, spec=TrainSpec(**({"log": MISSING} | spec)), **rest)


def _several() -> bool:
    """Whether this is one of several processes that work together."""
    jax = sys.modules.get("jax")
    return jax is not None and jax.process_count() > 1


def _leave(code: int) -> NoReturn:
    """Exit; if there are several processes, at once, or the others would wait minutes."""
    if _several():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
