"""A sweep: every combination of some settings, each a training with one result file.

A task consists of its settings only, so any process may run it, be killed at any moment, and run it
again: it continues from its checkpoints, and its result, written whole or not at all, has the same
bytes.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gamps._utils.console import silent
from gamps._utils.worker_pool import cores
from gamps.cluster import pool
from gamps.errors import OutputError, SettingError
from gamps.runs import folder, results
from gamps.runs.resolve import check_named
from gamps.runs.results import SweepTask
from gamps.runs.spec import KINDS, TrainSpec, check, log_sha256, read_toml, typed

REQUIRED = ("log", "task")
PARTS = (results.RESULTS, results.FAILED, results.RUNS, results.WORKERS)


class SweepResult(NamedTuple):
    """The result of a task.

    Attributes:
      task: the task.
      result: content of its result file; None if it failed.
      message: why it failed; otherwise empty.
      kept: whether the result existed before.
    """

    task: SweepTask
    result: dict[str, Any] | None
    message: str = ""
    kept: bool = False


def read_sweep(path: Path) -> dict[str, list[Any]]:
    """Read the settings of a TOML file, each as a list of its values.

    Raises:
      SettingError: if the file cannot be read, or has an unknown setting.
    """
    content = read_toml(path, "sweep")
    for name in REQUIRED:
        if name not in content:
            raise SettingError("sweep", f"{path}: no {name}", f'Write {name} = "…"')
    values: dict[str, list[Any]] = {}
    for name, given in content.items():
        if name not in KINDS:
            fix = f"Known settings are {', '.join(KINDS)}"
            raise SettingError("sweep", f"{path}: {name} is not a setting", fix)
        values[name] = [typed(name, one) for one in (given if isinstance(given, list) else [given])]
        if not values[name] or len(set(values[name])) < len(values[name]):
            problem = f"{path}: {name} is empty, or has a value twice"
            raise SettingError("sweep", problem, "List every value once")
    return values


def planned(values: dict[str, list[Any]]) -> list[SweepTask]:
    """A task for every combination, in the order of the settings; names say what varies."""
    named = _combinations(values)
    hashes = {log: log_sha256(log) for log in values["log"]}
    return [SweepTask(name, spec, hashes[spec.log]) for name, spec in named]


def refuse_early(values: dict[str, list[Any]], out: Path) -> None:
    """Refuse settings that would fail every time, before a log is read.

    Args:
      values: values of the settings, from `read_sweep`.
      out: folder for everything; an existing sweep there is continued.

    Raises:
      SettingError: names the setting that cannot be used.
      OutputError: if something is in the way.
    """
    if (out / folder.HEADER).exists():
        raise OutputError(f"{out}: holds a run, not a sweep. Choose another --out")
    for part in PARTS:
        folder.refuse_unwritable(out / part)
    for _, spec in _combinations(values):
        check_named(spec)


def _combinations(values: dict[str, list[Any]]) -> list[tuple[str, TrainSpec]]:
    order = [name for name in KINDS if name in values]
    varied = [name for name in order if len(values[name]) > 1]
    found = []
    for combination in itertools.product(*(values[name] for name in order)):
        spec = TrainSpec(**dict(zip(order, combination, strict=True)))
        check(spec)
        said = [f"{name}={getattr(spec, name)}" for name in varied]
        name = re.sub(r"[^\w.=,+-]", "_", ",".join(said)) or "run"
        found.append((name, spec))
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1 or len(name) > 200:
            problem = f"{name!r} does not tell two of its values apart, or is too long"
            raise SettingError("sweep", problem, "Rename them, or make two sweeps")
    return found


def sweep(
    tasks: Sequence[SweepTask],
    out: Path,
    *,
    workers: int = 0,
    address: str = "",
    tell: Callable[[SweepResult], None] = silent,
) -> list[SweepResult]:
    """Run every task that has no result yet.

    Args:
      tasks: tasks from `planned`.
      out: folder for all of them; on a cluster, one that all nodes see under the same name.
      workers: how many tasks Ray runs at once; 0 uses one per core of this machine or of the
        cluster. With 1 and no address, tasks run one by one in this process.
      address: address of a Ray cluster; empty starts a Ray on this machine.
      tell: called with every finished task.

    Returns:
      The result of each task, in the order of the tasks.
    """
    if workers < 0:
        raise SettingError("workers", f"{workers}", "Choose at least one, or 0")
    out = out.resolve()
    try:
        for part in PARTS:
            (out / part).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: {error.strerror}. Choose another --out") from error
    outcomes = {}
    for task in tasks:
        found = results.committed(out, task)
        if found is not None:
            outcomes[task.name] = SweepResult(task, found, kept=True)
            tell(outcomes[task.name])
    left = [task for task in tasks if task.name not in outcomes]
    for task, message in _run(left, out, workers, address):
        result = None if message else results.committed(out, task)
        outcomes[task.name] = SweepResult(task, result, message)
        tell(outcomes[task.name])
    return [outcomes[task.name] for task in tasks]


def _run(
    tasks: Sequence[SweepTask], out: Path, workers: int, address: str
) -> Iterator[tuple[SweepTask, str]]:
    if not address:
        workers = min(workers or cores(), len(tasks))
        if workers <= 1:
            yield from ((task, results.compute(out, task)) for task in tasks)
            return
    if tasks:
        yield from pool.share_out(tasks, out, workers=workers, address=address)
