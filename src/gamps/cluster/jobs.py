"""Train in several processes, restarting from the last checkpoint as often as needed.

`jax.distributed` ends with the first lost process, so work is done in attempts. In each attempt, as
many processes as there is room for join each other and continue from the last checkpoint, until the
training is done or one of them is gone. Then the others are ended and the next attempt begins.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from gamps._utils.console import silent
from gamps._utils.worker_pool import cores
from gamps.cluster.attempt import Lost, attempt
from gamps.cluster.cluster import TRIES, connected
from gamps.cluster.member import Failure
from gamps.errors import SettingError, WorkerError
from gamps.runs import checkpoints, folder
from gamps.runs.start import until_free


class Status(NamedTuple):
    """The progress of a job.

    Attributes:
      done: number of iterations saved in checkpoints.
      processes: number of processes at work now.
      restarts: number of restarts so far.
      news: right after a restart, its reason; otherwise empty.
    """

    done: int
    processes: int
    restarts: int
    news: str = ""


def job(
    run: Path,
    *,
    processes: int = 0,
    patience: float = 60.0,
    address: str = "",
    tell: Callable[[Status], None] = silent,
) -> Status:
    """Continue a run to its end in several processes, whichever of them are lost on the way.

    Args:
      run: its folder; all nodes of the cluster must see it, and its log, under the same name.
      processes: number of processes; 0 uses one per node of a cluster, or one per local core.
      patience: seconds to wait until there is room for the processes; then it tries one fewer.
      address: address of a Ray cluster; empty starts a Ray on this machine.
      tell: called with every change of the status.

    Returns:
      The status at the end.

    Raises:
      WorkerError: if the training itself fails, loses processes again and again without an
        iteration in between, or finds no place to run.
    """
    if processes < 0:
        raise SettingError("processes", f"{processes}", "Choose at least 1, or 0 for the default")
    if patience <= 0:
        raise SettingError("patience", f"{patience}", "Choose a positive number of seconds")
    run = run.resolve()
    with connected(address, processes or cores()) as ray:
        nodes = sum(node["Alive"] for node in ray.nodes())
        processes = processes or (nodes if address else cores())
        # One process per node if there are enough nodes: losing a node must not go unnoticed.
        strategy = "STRICT_SPREAD" if nodes >= processes else "SPREAD"
        size, restarts, lost, before = processes, 0, 0, None
        while True:
            kept = reached(run)
            with _placed(ray, processes, size, patience, strategy) as (group, size):
                now = Status(kept, size, restarts)
                tell(now)

                def look(now: Status = now) -> None:
                    tell(now._replace(done=reached(run)))

                until_free(run)  # nobody else may write while the processes read the checkpoint
                found = attempt(ray, run, group, size, restarts + 1, look)
            if found is None:
                return Status(reached(run), size, restarts)
            lost = 0 if reached(run) > kept else lost + 1
            before = _judged(run, found, None if lost == 0 else before, lost)
            restarts += 1
            tell(Status(reached(run), size, restarts, _news(found)))


def reached(run: Path) -> int:
    """The iteration of the last checkpoint."""
    every = checkpoints.numbered(folder.checkpoint_folder(run))
    return int(every[-1].name) if every else 0


def _judged(run: Path, found: Failure | Lost, before: Failure | None, lost: int) -> Failure | None:
    """The failure to remember, if another attempt may help.

    Raises:
      WorkerError: if it would not help.
    """
    goes_on = f"The work so far is saved; continue with gamps launch {run}"
    if lost >= TRIES:
        raise WorkerError(
            f"{run}: {lost} attempts in a row ended without an iteration; the last because: "
            f"{_news(found)}. {goes_on}"
        )
    if isinstance(found, Lost) or found.peer:
        return None
    if found.ours:
        raise WorkerError(found.message)
    if found.like(before):
        raise WorkerError(
            f"{run}: failed twice in the same way, {found.kind}: {found.message}. {goes_on}"
        )
    return found


def _news(found: Failure | Lost) -> str:
    if isinstance(found, Lost):
        return f"process {found.process} was lost ({found.reason})"
    return f"{found.kind}: {found.message.splitlines()[0][:200]}"


@contextmanager
def _placed(
    ray: Any, processes: int, size: int, patience: float, strategy: str
) -> Iterator[tuple[Any, int]]:
    """Reserve a place for each process, or for fewer if there is no room; released at the end.

    More places than the last attempt had are used only if they are free at once.
    """
    for wanted in range(processes, 0, -1):
        bundles = [{"CPU": 1}] * wanted
        group = ray.util.placement_group(bundles, strategy=strategy)
        try:
            if group.wait(patience if wanted <= size else 1.0):
                yield group, wanted
                return
        finally:
            with suppress(Exception):  # the cluster may be gone
                ray.util.remove_placement_group(group)
    raise WorkerError(
        f"no room for a process within {patience:g} s. Is there still a node with a free core?"
    )
