"""One training over several processes, started again from its last checkpoint as often as needed.

`jax.distributed` ends with the first process that is lost. So the unit is the attempt: as many
processes as there is room for join each other and go on from the last checkpoint, until the
training is done or one of them is gone; then the others are ended and the next attempt begins.
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
    """How far a job is.

    Attributes:
      done: iterations that are kept.
      processes: at work now.
      restarts: so far.
      news: why it was started again, once; otherwise empty.
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
    """Go on with a run to its end, in several processes, whatever is lost on the way.

    Args:
      run: its folder, which all nodes of the cluster see under the same name, as they do its log.
      processes: how many; 0 takes one a node of a cluster, or one a core of this machine.
      patience: seconds to wait for a place for so many processes; then there is one fewer.
      address: of a Ray cluster; empty starts a Ray on this machine.
      tell: called with every change.

    Returns:
      The status at the end.

    Raises:
      WorkerError: if the training fails by itself, is lost again and again without an iteration in
        between, or has no place to run.
    """
    if processes < 0:
        raise SettingError("processes", f"{processes}", "Choose at least one")
    if patience <= 0:
        raise SettingError("patience", f"{patience}", "Choose a positive number of seconds")
    run = run.resolve()
    with connected(address, processes or cores()) as ray:
        nodes = sum(node["Alive"] for node in ray.nodes())
        processes = processes or (nodes if address else cores())
        # One process a node, where there were so many: a node that is lost is to be missed.
        strategy = "STRICT_SPREAD" if nodes >= processes else "SPREAD"
        size, restarts, lost, before = processes, 0, 0, None
        while True:
            kept = reached(run)
            with _placed(ray, processes, size, patience, strategy) as (group, size):
                now = Status(kept, size, restarts)
                tell(now)

                def look(now: Status = now) -> None:
                    tell(now._replace(done=reached(run)))

                until_free(run)  # nobody else writes while the processes read where to go on
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
    """What to remember of a failure, where another attempt may help.

    Raises:
      WorkerError: where it would not.
    """
    goes_on = f"What was done is kept; go on by gamps launch {run}"
    if lost >= TRIES:
        raise WorkerError(
            f"{run}: {lost} attempts in a row ended without an iteration, the last by: "
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
    """A place for each process, given back at the end; for fewer, if they are not to be had.

    More than the last attempt had are taken if they are there at once.
    """
    for wanted in range(processes, 0, -1):
        bundles = [{"CPU": 1}] * wanted
        group = ray.util.placement_group(bundles, strategy=strategy)
        try:
            if group.wait(patience if wanted <= size else 1.0):
                yield group, wanted
                return
        finally:
            with suppress(Exception):  # a cluster that is gone has no place to give back to
                ray.util.remove_placement_group(group)
    raise WorkerError(
        f"no place for a process within {patience:g} s. Is a node left, with a core that is free?"
    )
