"""`gamps train` and `gamps resume`: from a log to a policy, in one run folder."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

from gamps import datasets, runs
from gamps._utils import console
from gamps.cli import progress
from gamps.cli.strangers import say_imports
from gamps.cluster.joining import Devices, mesh_of
from gamps.errors import MissingExtraError
from gamps.runs import TrainSpec, folder
from gamps.runs.spec import spec_in
from gamps.runs.start import refuse_early


def train(
    *,
    spec: Annotated[TrainSpec, tyro.conf.arg(name="")],
    out: Path,
    config: Path | None = None,
    tensorboard: bool = False,
    devices: Annotated[Devices, tyro.conf.arg(name="")] = Devices(),  # noqa: B008
) -> None:
    """Learn a better policy from a log, without running an experiment.

    Everything is written to the folder OUT: settings and versions (run.json), one line per
    iteration (metrics.jsonl), checkpoints, a figure, and two policies: last.json, and best.json,
    the one to evaluate next. Training never looks at the part of the log that is held out for
    gamps evaluate. The default recipe judges policies by episodes that its models imagine, the
    paper's recipes by importance sampling on a further held-out part; the true environment is
    never used. If the process dies, `gamps resume OUT` continues to the same result.

    Settings can be in a TOML file: gamps train LOG --config settings.toml, with lines like
    task = "tanks_task:task"; the command line overrides the file.

    To learn from the logs of several controllers that were in charge one after the other, give
    them all, the newest last: gamps train LOG1 LOG2. Improvement is then over the newest.

    Example: gamps train tanks/day-v0 --task gamps.envs.tanks:task --out runs/tanks

    Args:
      spec: the training's settings.
      out: the run folder; it must not already hold a run.
      config: TOML file with settings.
      tensorboard: also write TensorBoard event files; needs pip install "gamps[tensorboard]".
      devices: devices to split the log over.
    """
    del config  # `configured` has made its settings the defaults
    over = mesh_of(devices)
    first = _only_first_speaks()
    if tensorboard:
        _tensorboard_package()
    if first:
        refuse_early(spec, out)
    with _cutting(spec) as advance:
        run = runs.start(
            spec, out, over=over, tensorboard=tensorboard, say=console.say, advance=advance
        )
    _train(run, tensorboard=tensorboard and first)


def resume(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    devices: Annotated[Devices, tyro.conf.arg(name="")] = Devices(),  # noqa: B008
) -> None:
    """Continue an interrupted training, to the same result as without the interruption.

    It continues from the last intact checkpoint; damaged ones are named and skipped. The log must
    be the same, byte for byte.

    Example: gamps resume runs/tanks

    Args:
      run: run folder that gamps train wrote.
      devices: devices to split the log over.
    """
    over = mesh_of(devices)
    first = _only_first_speaks()
    if first:
        say_imports(run)
    header = folder.header(run)
    before = header["versions"]
    differ = {k: v for k, v in folder.versions().items() if before.get(k) != v}
    if differ:
        versions = ", ".join(f"{k} {before.get(k)}, now {v}" for k, v in differ.items())
        console.say(f"versions have changed: {versions}. The last bits may differ", "yellow")
    with _cutting(spec_in(run)) as advance:
        opened = runs.resume(run, over=over, advance=advance)
    _train(opened, tensorboard=bool(header["settings"].get("tensorboard")) and first)


@contextlib.contextmanager
def _cutting(spec: TrainSpec) -> Iterator[Callable[[str], None]]:
    """Show a bar if the log is cut into shards first."""
    if not spec.stream:
        yield console.silent
        return
    episodes = datasets.stream(spec.log).n_trajectories
    with console.bar("cutting into shards", episodes) as advance:
        yield advance


def _only_first_speaks() -> bool:
    """Silence all processes but the first; return whether this is the first."""
    first = jax.process_index() == 0
    console.terminal.quiet = console.terminal.quiet or not first
    return first


def _train(run: runs.Run, *, tensorboard: bool) -> None:
    """Train to the end, and show how it goes."""
    console.say_estimated(run.data.densities)
    writer = None
    if tensorboard:
        writer = _tensorboard_package().SummaryWriter(str(run.folder / "tensorboard"))
    with progress.shown(run.training.total) as show:

        def callback(iteration: int, metrics: dict[str, Any], _: Any) -> None:
            show(iteration, metrics)
            if writer is not None:
                for name, value in metrics.items():
                    writer.add_scalar(name, value, iteration)
            if iteration == run.training.total:
                show.doing("choosing the policies of the ladder")

        def refused(error: Exception) -> None:
            console.say(f"skipped a checkpoint: {error}", "yellow")

        state = run.train(callback=callback, refused=refused, say=show.doing).run
    if writer is not None:
        writer.close()
    if state.stopped:
        console.say(f"stopped: {state.stopped}", "yellow")
    if jax.process_index() == 0:
        progress.figure(run.folder)
    if state.best == 0:
        if state.logged is None:
            console.say("found no policy that seems better than the first one", "yellow")
        else:
            console.say("learned from the log alone: the models are not trusted", "yellow")
        if state.promise is not None and state.start is not None:
            console.say(
                f"the models promise {state.promise:.4g} for the last policy and say "
                f"{state.start:.4g} for the policy that training started from; the log says "
                f"{state.best_promise:.4g} for the learned policy", "yellow"
            )  # fmt: skip
    elif state.best_promise is not None:
        console.say(f"promised for the learned policy, but not judged: {state.best_promise:.4g}")
    console.say(f"written: {run.folder}")
    console.say(f"next: gamps evaluate {run.folder}, gamps export {run.folder}")


def _tensorboard_package() -> Any:
    try:
        import tensorboardX
    except ImportError as error:
        raise MissingExtraError(
            'tensorboardX is not installed. Run pip install "gamps[tensorboard]"'
        ) from error
    return tensorboardX
