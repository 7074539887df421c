"""`gamps train` and `gamps resume`: from a log to a policy, in one run folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro
from rich.live import Live

from gamps import datasets
from gamps._utils import console, figures
from gamps.cli.strangers import say_imports
from gamps.cluster import joining
from gamps.errors import MissingExtraError
from gamps.learner import Progress
from gamps.runs import Words, folder, inspection, loop
from gamps.runs.prepared import prepared
from gamps.runs.resolve import check_named, policy_of, task_of
from gamps.runs.spec import check, hash_of, words_in
from gamps.search import placement

SHOWN = ("gradient_norm", "model_loss", "ess", "pareto_k", "estimate", "lower")


def train(
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")],
    /,
    *,
    task: str,
    out: Path,
    policy: str = "behaviour",
    model: str = "auto",
    recipe: str = "default",
    features: str = "",
    iterations: int = 160,
    learning_rate: float = 0.0,
    held_out: float = 0.2,
    seed: int = 0,
    stream: bool = False,
    some: int = 0,
    tensorboard: bool = False,
    devices: str = "1",
    coordinator: str = "",
    processes: int = 0,
    process: int = -1,
) -> None:
    """Learn a better policy from a log, without running an experiment.

    Everything lands in the folder OUT: settings and versions (run.json), one line an iteration
    (metrics.jsonl), checkpoints, a figure, and two policies: last.json, and best.json, the one to
    evaluate next. A part of the log is held out for gamps evaluate and not looked at. The default
    judges policies by episodes that its models imagine, the paper's recipes by importance sampling
    on a further part that they hold out; the true environment is never asked. If the
    process dies, `gamps resume OUT` goes on to the same end.

    Settings may stand in a TOML file: gamps train LOG --config settings.toml, with lines like
    task = "tanks_task:task"; what the command line says counts more.

    Example: gamps train tanks/day-v0 --task gamps.envs.tanks:task --out runs/tanks

    Args:
      log: name of a dataset (gamps import, gamps collect), or its folder.
      task: module:object, a gamps.Task (reward, discount, terminal) or a function that makes one.
      out: the run folder; it must not hold a run already.
      policy: behaviour (the log's own, or affine fitted to it), affine, network, module:object;
        if actuators clip, a gamps.policies.Bent of it is safer.
      model: auto (chosen by held-out evidence; quadratic for the paper's recipes), linear,
        quadratic, network, or module:object, a gamps.learner.ModelClass.
      recipe: default, or the paper's: gamps, gamps_paper, ml, pgt, reinforce.
      features: module:function of (observation, action), the model's input; here belongs what you
        know of the actuators, such as their limits. By default both as they are.
      iterations: policy steps.
      learning_rate: of the policy; 0 takes one that served before.
      held_out: share of the episodes that training never sees.
      seed: of everything random.
      stream: for a log larger than memory: cut it into shards beside it, once, and read these from
        disk, the next while one is worked on. For the paper's recipes.
      some: with stream, shards that an iteration takes, drawn anew; 0 takes all. An iteration then
        costs the same however long the log.
      tensorboard: write its event files too; needs pip install "gamps[tensorboard]".
      devices: share the log out among so many, or all; the result is the same.
      coordinator: host:port of process 0, for one training of several processes, each started
        with this; auto asks GAMPS_COORDINATOR and its like, Slurm or MPI. All share OUT.
      processes: how many there are.
      process: the number of this one, from 0.
    """
    over = joining.chosen(devices, coordinator, processes, process)
    first = _only_first_speaks()
    words = Words(
        log, task, policy, model, recipe, features, iterations, learning_rate, held_out, seed,
        stream, some,
    )  # fmt: skip
    check(words)
    if first:  # the others may see what it has made
        folder.refuse_taken(out)
    check_named(words)
    if tensorboard:
        _tensorboard_package()
    console.say(f"reading {log} …")
    data, built = _prepared(words, over)
    console.say("inspecting it: compiling …")
    known, start = task_of(task), policy_of(policy, data, seed)
    inspection.refuse_unfit(
        inspection.inspect(data.trajectories, known, start, densities=data.densities)
    )
    training = built()
    settings = asdict(words) | {
        "log_sha256": hash_of(log),
        "densities": data.densities,
        "tensorboard": tensorboard,
    }
    if first:
        folder.create(out, settings)
    placement.wait("created")
    _run(training, out, data.densities, tensorboard=tensorboard and first)


def resume(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    devices: str = "1",
    coordinator: str = "",
    processes: int = 0,
    process: int = -1,
) -> None:
    """Go on with a training that was interrupted, to the same end as if it had not been.

    The last checkpoint that is whole is taken; a damaged one is named and passed over. The log
    must be the same, byte for byte.

    Example: gamps resume runs/tanks

    Args:
      run: the folder that gamps train wrote.
      devices: share the log out among so many, or all.
      coordinator: host:port of process 0, for one training of several processes; or auto.
      processes: how many there are.
      process: the number of this one, from 0.
    """
    over = joining.chosen(devices, coordinator, processes, process)
    first = _only_first_speaks()
    if first:
        say_imports(run)
    words = words_in(run)
    header = folder.header(run)
    differ = {k: v for k, v in folder.versions().items() if header["versions"].get(k) != v}
    if differ:
        made = ", ".join(f"{k} {header['versions'].get(k)}, now {v}" for k, v in differ.items())
        console.say(f"other versions: {made}. The last bits may differ", "yellow")
    data, built = _prepared(words, over)
    tensorboard = bool(header["settings"].get("tensorboard")) and first
    _run(built(), run, data.densities, tensorboard=tensorboard)


def _prepared(words: Words, over: Any) -> Any:
    """With a bar, where the log is cut into shards first."""
    if not words.stream:
        return prepared(words, over)
    episodes = datasets.stream(words.log).n_trajectories
    with console.bar("cutting into shards", episodes) as advance:
        return prepared(words, over, advance)


def _only_first_speaks() -> bool:
    """Whether this is the first of all processes; the others work silently."""
    first = jax.process_index() == 0
    console.terminal.quiet = console.terminal.quiet or not first
    return first


def _run(training: Any, out: Path, densities: str, *, tensorboard: bool = False) -> None:
    say = console.say
    console.say_estimated(densities)
    writer = None
    if tensorboard:
        writer = _tensorboard_package().SummaryWriter(str(out / "tensorboard"))
    with _display(training.total) as show:

        def callback(iteration: int, metrics: dict[str, Any], _: Progress) -> None:
            show(iteration, metrics)
            if writer is not None:
                for name, value in metrics.items():
                    writer.add_scalar(name, value, iteration)

        progress = loop.resume(
            training,
            out,
            callback=callback,
            refused=lambda error: say(f"passed over: {error}", "yellow"),
        )
    if writer is not None:
        writer.close()
    if "stopped" in progress.plain:
        say(f"stopped: {progress.plain['stopped']}", "yellow")
    if jax.process_index() == 0:
        figure(out)
    if progress.plain.get("best") == 0:
        say("nothing was found that is thought better than the first policy", "yellow")
    elif "best_lower" in progress.plain:
        say(f"lower estimate of the best policy's return: {progress.plain['best_lower']:.4g}")
    say(f"written: {out}")
    say(f"next: gamps evaluate {out}, gamps export {out}")


@contextmanager
def _display(total: int) -> Iterator[Any]:
    """A live table on a terminal, plain lines elsewhere."""
    terminal, began = console.terminal, time.perf_counter()
    console.say("compiling …")
    first: list[int] = []

    def left(iteration: int) -> float:
        if not first:
            first.append(iteration - 1)
        passed = time.perf_counter() - began
        return passed / max(iteration - first[0], 1) * (total - iteration)

    if not terminal.is_terminal:

        def line(iteration: int, metrics: dict[str, Any]) -> None:
            numbers = [f"{k} {metrics[k]:.4g}" for k in SHOWN if k in metrics]
            text = f"{iteration}/{total} {' '.join(numbers)} left {left(iteration):.0f}s"
            if not terminal.quiet:
                print(text, flush=True)

        yield line
        return
    with Live(console=terminal, refresh_per_second=8) as live:

        def show(iteration: int, metrics: dict[str, Any]) -> None:
            table = console.rich_table(f"iteration {iteration} of {total}", ["", "now"])
            for name in SHOWN:
                if name in metrics:
                    shown = f"{metrics[name]:.4g}" if np.isfinite(metrics[name]) else "too thin"
                    table.add_row(name.replace("_", " "), shown)
            table.add_row("time left", f"{left(iteration):.0f} s")
            live.update(table)

        yield show


def _tensorboard_package() -> Any:
    try:
        import tensorboardX
    except ImportError as error:
        raise MissingExtraError(
            'tensorboardX is not installed. Do pip install "gamps[tensorboard]"'
        ) from error
    return tensorboardX


def figure(out: Path) -> None:
    """How it went, iteration by iteration."""
    lines = folder.metrics(out)
    if not lines:
        return
    names = [n for n in ("estimate", "ess", "gradient_norm", "model_loss") if n in lines[-1]]
    figure, axes = figures.panels(1, len(names))
    for axis, name in zip(axes[0], names, strict=True):
        values = [np.nan if line.get(name) is None else line[name] for line in lines]
        axis.plot(np.arange(1, len(values) + 1), values, color="#c1121f")
        if name == "estimate":
            lower = [np.nan if line.get("lower") is None else line["lower"] for line in lines]
            axis.fill_between(np.arange(1, len(values) + 1), lower, values, alpha=0.2,
                              color="#c1121f")  # fmt: skip
        axis.set_title(name.replace("_", " "), fontsize=9)
        axis.set_xlabel("iteration")
    with console.atomic(out / "training.png") as path:
        figure.savefig(path, dpi=150, bbox_inches="tight")
