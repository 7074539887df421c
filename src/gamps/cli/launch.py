"""`gamps launch` and `gamps sweep`: trainings that survive process failures."""

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
from gamps.runs.spec import KINDS, spec_in
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

    The result and the run folder are those of gamps train. Ray (pip install "gamps[ray]") places
    the processes: one per node of a cluster, or several on this machine. If one is lost, all
    restart from the last checkpoint. If its node does not come back within PATIENCE seconds, they
    continue with one process fewer, down to a single one. An error in the training itself ends
    it. RUN/workers.json lists the processes at work.

    On a cluster, every node needs gamps installed, and must see the log, OUT and your own modules
    under the same names, as on a shared file system.

    To continue an existing run, repeat the command, or give RUN in place of LOG.

    Example: gamps launch tanks/day-v0 --task gamps.envs.tanks:task --out runs/tanks --processes 2

    Example: gamps launch runs/tanks --processes 4 --address auto

    Args:
      spec: the training's settings; in place of LOG, a run folder to continue.
      out: the run folder; not needed to continue a run.
      processes: number of processes; 0 uses one per cluster node, or one per core of this machine.
      patience: seconds to wait for room for all processes before continuing with one fewer.
      address: host:port of a Ray cluster, or auto for the one this machine belongs to; by default
        a private Ray is started on this machine.
    """
    require_ray()  # before the log is read, which may take a while
    run = Path(spec.log)
    if (run / folder.HEADER).exists():
        unset = TrainSpec(spec.log)
        given = [name for name in KINDS if getattr(spec, name) != getattr(unset, name)]
        if out or given:
            problem = f"{run} is a run folder and already has one"
            raise SettingError(given[0] if given else "out", problem, "Leave it out")
        say_imports(run)
    elif out is None:
        raise SettingError("out", f"missing, and {run} is not a run folder", "Add --out FOLDER")
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
    """Train with every combination of some settings, each separately; lost ones are run again.

    The file holds the settings of gamps train; to vary a setting, give it a list of values:

        log = "tanks/day-v0"
        task = "gamps.envs.tanks:task"
        recipe = ["gamps", "pgt"]
        seed = [0, 1, 2]

    Each combination, such as recipe=pgt,seed=2, has its run folder OUT/runs/NAME and ends with one
    file OUT/results/NAME.json: settings, last metrics and the policy. The bytes are the same
    whoever computes it and however often it is interrupted. Existing results are kept, so repeat
    the command to continue a sweep or to retry what failed. If one fails by itself, the others go
    on; it is named at the end, and OUT/failed/NAME.json says why. Modules that cannot be imported
    and objects of the wrong kind are refused before any log is read.

    Several workers need Ray (pip install "gamps[ray]"); --workers 1 does not.

    Example: gamps sweep recipes.toml --out sweeps/recipes --workers 4

    Args:
      file: TOML file of settings and lists of settings.
      out: folder for everything; on a cluster, one that all nodes see under the same name.
      workers: trainings at once; 0 uses one per core. 1 runs them in this process, without Ray.
      address: host:port of a Ray cluster, or auto; by default a private Ray is started on this
        machine.
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
        raise WorkerError(f"{len(failed)} of {len(outcomes)} failed. The first: {first}")


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
    """Show how far the processes are, and what was lost."""
    with console.live() as display:

        def show(status: cluster.Status) -> None:
            if status.news:
                again = f"starting again from iteration {status.done}"
                console.say(f"{status.news}: {again}", "yellow")
            many = "1 process" if status.processes == 1 else f"{status.processes} processes"
            line = f"{status.done}/{total} iterations, {many}, {status.restarts} restarts"
            display(line, line)

        yield show
