"""`gamps launch` and `gamps sweep`: trainings that outlive the processes they run in."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import tyro

from gamps import cluster, runs
from gamps._utils import console
from gamps.cli import progress
from gamps.cli.strangers import say_imports
from gamps.cluster.cluster import require_ray
from gamps.cluster.sweeps import SweepResult
from gamps.errors import SettingError, WorkerError
from gamps.runs import TrainSpec, checkpoints, folder
from gamps.runs.spec import spec_in
from gamps.runs.state import from_json


def launch(
    *,
    spec: Annotated[TrainSpec, tyro.conf.arg(name="")],
    out: Path | None = None,
    processes: int = 0,
    patience: float = 60.0,
    address: str = "",
) -> None:
    """Train in several processes that split the log, and survive process failures.

    The result is that of gamps train, and so is the run folder. Ray (pip install "gamps[ray]")
    places the processes: one a node of a cluster, or several on this machine. If one is lost, all
    start again from the last checkpoint; if its node does not come back within PATIENCE seconds,
    they go on with one process fewer, down to a single one. An error of the training itself ends
    it. RUN/workers.json says which processes are at work.

    On a cluster all nodes must see the log, OUT and modules of yours under the same names, as on a
    shared file system, and have gamps installed.

    The same command again, or with RUN in place of LOG, goes on with a run that is there.

    Example: gamps launch tanks/day-v0 --task gamps.envs.tanks:task --out runs/tanks --processes 2

    Example: gamps launch runs/tanks --processes 4 --address auto

    Args:
      spec: of the training; in place of LOG a run folder, to go on with it.
      out: the run folder; not needed to go on with a run.
      processes: how many; 0 takes one a node of the cluster, or one a core of this machine.
      patience: seconds to wait for a place for all processes, before going on with one fewer.
      address: of a Ray cluster, host:port, or auto for the one this machine belongs to; by default
        a Ray of its own is started on this machine, for you alone.
    """
    require_ray()  # before the log is read, which may take a while
    run = Path(spec.log)
    if (run / folder.HEADER).exists():
        if spec.task or out:
            name = "task" if spec.task else "out"
            raise SettingError(name, f"{run} is a run, and has one", "Leave it out")
        say_imports(run)
    elif out is None:
        raise SettingError("out", f"is needed, since {run} is no run", "Say --out")
    else:
        run = out
        runs.start(spec, run, again=True, say=console.say)
    total = spec_in(run).iterations
    console.say("starting Ray …")
    with _display(total) as tell:
        status = cluster.job(
            run, processes=processes, patience=patience, address=address, tell=tell
        )
    progress.figure(run)
    last, _ = checkpoints.latest(folder.checkpoint_folder(run))
    if last is not None and (stopped := from_json(last.plain["progress"]).stopped):
        console.say(f"stopped: {stopped}", "yellow")
    console.say(
        f"{status.done} iterations, {status.restarts} restarts, {status.processes} processes at "
        "the end"
    )
    console.say(f"written: {run}")
    console.say(f"next: gamps evaluate {run}, gamps export {run}")


def sweep(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SWEEP.toml")],
    /,
    *,
    out: Path,
    workers: int = 0,
    address: str = "",
) -> None:
    """Train with every combination of some settings, each on its own; what is lost is run again.

    The file holds the settings of gamps train; one that is to vary has a list of values:

        log = "tanks/day-v0"
        task = "gamps.envs.tanks:task"
        recipe = ["gamps", "pgt"]
        seed = [0, 1, 2]

    Each combination, such as recipe=pgt,seed=2, has its run folder OUT/runs/NAME and ends with one
    file OUT/results/NAME.json: settings, last metrics and the policy, the same bytes whoever
    computes it, however often it was interrupted. Results that are there are kept, so the same
    command again goes on with a sweep, or repeats what failed. A task that fails by itself is named
    at the end, with OUT/failed/NAME.json, and stops no other; a module that cannot be imported, or
    an object of the wrong kind, is refused before any log is read.

    Several workers need Ray (pip install "gamps[ray]"); --workers 1 does not.

    Example: gamps sweep recipes.toml --out sweeps/recipes --workers 4

    Args:
      file: TOML, settings and lists of settings.
      out: folder for everything; on a cluster, one that all nodes see under the same name.
      workers: tasks at once; 0 takes one a core. With 1 they are run in this process, without Ray.
      address: of a Ray cluster, host:port, or auto; by default a Ray of its own is started on this
        machine, for you alone.
    """
    values = cluster.read_sweep(file)
    cluster.refuse_early(values, out)
    tasks = cluster.planned(values)
    count = 0

    with console.bar("sweep", len(tasks)) as advance:

        def tell(outcome: SweepResult) -> None:
            nonlocal count
            count += 1
            word = "failed" if outcome.message else "kept" if outcome.kept else "done"
            advance(f"{outcome.task.name} {word}")
            if not console.terminal.is_terminal:
                print(f"{count}/{len(tasks)} {outcome.task.name}: {word}", flush=True)

        outcomes = cluster.sweep(tasks, out, workers=workers, address=address, tell=tell)
    _table(file, outcomes)
    console.say(f"written: {out / 'results'}")
    failed = [outcome for outcome in outcomes if outcome.message]
    if failed:
        first = f"{failed[0].task.name}: {failed[0].message}"
        raise WorkerError(f"{len(failed)} of {len(outcomes)} failed, the first, {first}")


def _table(file: Path, outcomes: Sequence[SweepResult]) -> None:
    table = console.rich_table(
        f"{file.name}: {len(outcomes)} tasks", ["task", "iterations", "estimate", "promise", "best"]
    )
    for outcome in outcomes:
        if outcome.result is None:
            table.add_row(outcome.task.name, "failed", "", "", "")
            continue
        metrics, decided = outcome.result["metrics"], outcome.result["decided"]
        numbers = [metrics.get("estimate"), metrics.get("promise"), decided.get("best_promise")]
        shown = ["too thin" if number is None else f"{number:.4g}" for number in numbers]
        table.add_row(outcome.task.name, str(metrics["iteration"]), *shown)
    console.say(table)


@contextmanager
def _display(total: int) -> Iterator[Callable[[cluster.Status], None]]:
    """How far the processes are, and what was lost."""
    with console.live() as display:

        def show(status: cluster.Status) -> None:
            if status.news:
                again = f"starting again from iteration {status.done}"
                console.say(f"{status.news}: {again}", "yellow")
            many = "1 process" if status.processes == 1 else f"{status.processes} processes"
            line = f"{status.done}/{total} iterations, {many}, {status.restarts} restarts"
            display(line, line)

        yield show
