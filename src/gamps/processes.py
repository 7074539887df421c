"""Work shared out among processes of this machine, for what a compiled program cannot do.

Each worker keeps to one core, so that two of them do not fight for the same, and ends when its
parent does, however that ended.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Any, TypeVar

import jax

from gamps.compilation import keep_compiled
from gamps.errors import GampsError, WorkerError

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """How many this process may use."""
    return len(_cores())


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _prepare(places: Any, x64: bool) -> None:
    """In a new worker, before its first computation."""
    own = places.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {own})
    jax.config.update("jax_enable_x64", x64)
    with contextlib.suppress(GampsError):  # the parent has said it already
        keep_compiled()
    parent = multiprocessing.parent_process()

    def follow() -> None:
        connection.wait([parent.sentinel])  # type: ignore[union-attr]
        os._exit(1)  # the parent is gone, and with it whoever could take a result

    threading.Thread(target=follow, daemon=True).start()


def share_out(
    function: Callable[[Item], Result], items: Sequence[Item], *, workers: int
) -> Iterator[tuple[int, Result]]:
    """Apply a function to every item, in worker processes.

    Args:
      function: a function of a module, since a new process must be able to import it.
      items: each is sent to a worker.
      workers: how many processes; with one, the work is done in this process.

    Yields:
      The item's number and its result, as they are finished.

    Raises:
      WorkerError: if a worker is killed.
    """
    if workers <= 1 or len(items) <= 1:
        for i, item in enumerate(items):
            yield i, function(item)
        return
    context = multiprocessing.get_context("spawn")
    places = context.Queue()
    workers = min(workers, len(items))
    for i in range(workers):
        places.put(_cores()[i % cores()])
    arguments = (places, bool(jax.config.jax_enable_x64))  # type: ignore[attr-defined]
    pool = ProcessPoolExecutor(workers, context, _prepare, arguments)
    try:
        waiting = iter(enumerate(items))
        running: dict[Any, int] = {}
        # No more than can run at once: what has not started need not be waited for if one fails.
        while True:
            for i, item in itertools.islice(waiting, workers - len(running)):
                running[pool.submit(function, item)] = i
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda f: f.exception() is not None):
                yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        raise WorkerError(
            "a worker process was killed, or could not start. Is there memory enough for so many? "
            'A script of yours must start its work under if __name__ == "__main__":'
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
