"""Run the tasks of a sweep with Ray: a lost task is run again from its last checkpoint."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gamps.cluster.cluster import TRIES, Surroundings, connected, settle, surroundings
from gamps.cluster.jobs import reached
from gamps.errors import OutputError
from gamps.runs import results
from gamps.runs.results import SweepTask

_settled: list[Surroundings] = []  # of this process, which may run several tasks in turn


def share_out(
    tasks: Sequence[SweepTask], out: Path, *, workers: int, address: str
) -> Iterator[tuple[SweepTask, str]]:
    """Run each task in its own process, at most `workers` at once.

    Yields:
      Each finished task with why it failed; empty if it did not.

    Raises:
      OutputError: if nothing can be written any more.
    """
    waiting = deque(tasks)
    lost: Counter[str] = Counter()  # attempts in a row without an iteration, by task
    with connected(address, workers) as ray:
        workers = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        # Ray's own retries know nothing about checkpoints, so retries are counted here.
        run = ray.remote(num_cpus=1, max_retries=0)(_compute)
        running: dict[Any, tuple[SweepTask, int]] = {}
        while waiting or running:
            while waiting and len(running) < workers:
                task = waiting.popleft()
                kept = reached(out / results.RUNS / task.name)
                running[run.remote(surroundings(), str(out), task)] = task, kept
            ready, _ = ray.wait(list(running), timeout=None)
            for ref in ready:
                task, kept = running.pop(ref)
                try:
                    written, message = ray.get(ref)
                except ray.exceptions.RayTaskError as error:  # the task could not even start
                    written, message = True, f"{type(error.cause).__name__}: {error.cause}"
                    results.give_up(out, task, message)
                except ray.exceptions.RayError as error:  # the process, or its node, is gone
                    further = reached(out / results.RUNS / task.name) > kept
                    lost[task.name] = 0 if further else lost[task.name] + 1
                    if lost[task.name] < TRIES:
                        waiting.append(task)
                        continue
                    written, message = True, f"lost {TRIES} times in a row ({type(error).__name__})"
                    results.give_up(out, task, message)
                if not written:
                    raise OutputError(message)
                yield task, message


def _compute(here: Surroundings, out: str, task: SweepTask) -> tuple[bool, str]:
    """Run a task in a Ray process; returns whether it could write, and why it failed."""
    if here not in _settled:
        settle(here)
        _settled.append(here)
    try:
        return True, results.compute(Path(out), task)
    except OutputError as error:
        return False, str(error)
