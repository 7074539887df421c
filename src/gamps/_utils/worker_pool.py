"""Share work among processes of this machine, for work that a compiled program cannot do.

Each worker stays on one core, so that two do not compete for the same one, and ends when its parent
ends, for whatever reason.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from typing import Any, TypeVar

import jax

from gamps._utils.compile_cache import keep_compiled
from gamps.errors import GampsError, WorkerError

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Number of cores that this process may use."""
    return len(_cores())


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _prepare(core: int, x64: bool) -> None:
    """Set up a new worker; runs before its first computation."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    jax.config.update("jax_enable_x64", x64)
    with contextlib.suppress(GampsError):  # the parent has already reported it
        keep_compiled()
    parent = multiprocessing.parent_process()

    def follow() -> None:
        connection.wait([parent.sentinel])  # type: ignore[union-attr]
        os._exit(1)  # the parent is gone, so nobody can receive a result

    threading.Thread(target=follow, daemon=True).start()


def _work(pipe: connection.Connection, function: Callable[..., Any], *place: Any) -> None:
    """Run a worker: receive items and send results through its own pipe until the pipe closes."""
    _prepare(*place)
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            os._exit(0)  # at once: shutting down an engine's threads could hang
        try:
            answer: tuple[Any, Exception | None] = function(item), None
        except Exception as error:
            answer = None, error
        try:
            pipe.send(answer)
        except Exception as error:  # a result or an error that cannot be sent
            pipe.send((None, WorkerError(f"an answer could not be sent: {error!r}")))


def share_out(
    function: Callable[[Item], Result], items: Sequence[Item], *, workers: int
) -> Iterator[tuple[int, Result]]:
    """Apply a function to every item, in worker processes.

    Every worker has its own pipe and shares no lock with another, so none can be left waiting for
    one that was killed.

    Args:
      function: a function of a module, since a new process must be able to import it.
      items: the items; each is sent to a worker.
      workers: number of processes; with one, this process does the work.

    Yields:
      The number and the result of each item as it finishes.
    """
    if workers <= 1 or len(items) <= 1:
        for i, item in enumerate(items):
            yield i, function(item)
        return
    waiting = iter(enumerate(items))
    places = (_cores()[i % cores()] for i in itertools.count())
    running: dict[Any, int] = {}  # by a worker's pipe: the number of its item
    started = []
    try:
        for i, item in itertools.islice(waiting, workers):
            pipe, process = _start(function, next(places))
            started.append((pipe, process))
            running[pipe] = i
            _send(pipe, item)
        while running:
            answers = [(_received(pipe), pipe) for pipe in connection.wait(list(running))]
            for (result, error), pipe in sorted(answers, key=lambda a: a[0][1] is not None):
                i = running.pop(pipe)
                if error is not None:
                    raise error
                for after, item in itertools.islice(waiting, 1):
                    running[pipe] = after
                    _send(pipe, item)
                yield i, result
    finally:
        for pipe, _ in started:
            pipe.close()
        for _, process in started:
            _end(process)


def _start(function: Callable[..., Any], core: int) -> tuple[Any, Any]:
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    x64 = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    # A worker has one core: several threads of NumPy's would wait for each other on it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    process = context.Process(target=_work, args=(its, function, core, x64), daemon=True)
    process.start()
    its.close()  # so that the worker's end closes with the worker
    return mine, process


def _send(pipe: Any, item: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # the worker is gone: receiving will report it
        pipe.send(item)


def _received(pipe: Any) -> tuple[Any, Exception | None]:
    try:
        answer: tuple[Any, Exception | None] = pipe.recv()
    except (EOFError, ConnectionResetError):
        return None, WorkerError(
            "a worker process was killed, or could not start. Is there enough memory for all? "
            'Your own script must start its work under if __name__ == "__main__":'
        )
    return answer


def _end(process: Any, seconds: float = 10.0) -> None:
    """Wait for an idle worker to end when its pipe closes; end one that is still at work."""
    process.join(0.5)
    if process.is_alive():
        process.terminate()
        process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
