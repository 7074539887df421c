"""One attempt at a job: processes start, join each other and work until the first is gone."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gamps._utils import atomic_io
from gamps.cluster.cluster import surroundings
from gamps.cluster.member import Failure, Member, Place

WORKERS = "workers.json"
POLL = 0.25  # seconds between two checks of its progress
GRACE = 3.0  # seconds to wait, after one process has failed, for another to turn out lost
STARTING = 300.0  # seconds that a process may take to start


class Lost(NamedTuple):
    """A process that is gone.

    Attributes:
      process: its number.
      reason: what Ray reports about it.
    """

    process: int
    reason: str


def attempt(
    ray: Any, run: Path, group: Any, size: int, number: int, look: Callable[[], None]
) -> Failure | Lost | None:
    """Continue a run in several processes until it ends or one of them is lost or fails.

    Args:
      ray: the package, connected.
      run: folder of the run.
      group: a place for each process.
      size: number of processes.
      number: number of the attempt.
      look: called several times a second.

    Returns:
      What ended the attempt, or None at the end of the run.
    """
    placing = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    made = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Member)
    members = [
        made.options(scheduling_strategy=placing(group, i)).remote(surroundings())
        for i in range(size)
    ]
    working: list[Any] = []
    try:
        asked = [member.place.remote() for member in members]
        found = _gathered(ray, asked, STARTING)
        places = [place for place in found.values() if isinstance(place, Place)]
        if len(places) < size:
            return _first(found) or Lost(len(places), f"not started within {STARTING:g} s")
        places = [found[i] for i in range(size)]
        coordinator = f"{places[0].host}:{places[0].port}"
        _announce(run, number, places)
        working = [
            member.work.remote(str(run), coordinator, size, i, _beside(places, i))
            for i, member in enumerate(members)
        ]
        return _watched(ray, working, look)
    finally:
        for member in members:
            with suppress(Exception):  # gone already
                ray.kill(member)
        if working:  # they may write to the run folder until they are gone
            ray.wait(working, num_returns=len(working), timeout=STARTING)


def _watched(ray: Any, working: Sequence[Any], look: Callable[[], None]) -> Failure | Lost | None:
    """Wait until process 0 is done, or one is lost or fails."""
    found: dict[int, Any] = {}
    end = float("inf")
    while True:
        waiting = [ref for i, ref in enumerate(working) if i not in found]
        if not waiting or time.monotonic() > end:
            return _first(found)
        ready, _ = ray.wait(waiting, timeout=POLL)
        look()
        found |= {working.index(ref): _answer(ray, working.index(ref), ref) for ref in ready}
        if 0 in found and found[0] is None:
            return None
        if any(isinstance(answer, Lost) for answer in found.values()):
            return _first(found)
        if any(isinstance(answer, Failure) for answer in found.values()):
            end = min(end, time.monotonic() + GRACE)


def _gathered(ray: Any, asked: Sequence[Any], seconds: float) -> dict[int, Any]:
    """Answers by process, once all have answered, one is lost or fails, or time is up."""
    found: dict[int, Any] = {}
    end = time.monotonic() + seconds
    while len(found) < len(asked) and time.monotonic() < end:
        waiting = [ref for i, ref in enumerate(asked) if i not in found]
        ready, _ = ray.wait(waiting, timeout=POLL)
        found |= {asked.index(ref): _answer(ray, asked.index(ref), ref) for ref in ready}
        if _first(found) is not None:
            break
    return found


def _answer(ray: Any, process: int, ref: Any) -> Any:
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:  # raised where a member does not catch it
        return Failure(type(error.cause).__name__, str(error.cause))
    except ray.exceptions.RayError as error:
        return Lost(process, type(error).__name__)


def _first(found: dict[int, Any]) -> Failure | Lost | None:
    """The problem to report: a loss rather than a failure, which may be its consequence."""
    for kind in (Lost, Failure):
        for answer in found.values():
            if isinstance(answer, kind):
                return answer
    return None


def _beside(places: Sequence[Place], process: int) -> int:
    """Number of processes on the same node, including this one."""
    return sum(place.host == places[process].host for place in places)


def _announce(run: Path, number: int, places: Sequence[Place]) -> None:
    """Write down which processes work on the run, so that a user can inspect or end them."""
    content = {
        "attempt": number,
        "coordinator": places[0].pid,
        "pids": [place.pid for place in places],
        "hosts": [place.host for place in places],
    }
    atomic_io.write_file(run / WORKERS, (json.dumps(content) + "\n").encode())
