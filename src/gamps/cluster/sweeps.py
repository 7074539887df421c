"""A sweep: every combination of some settings, each a training with one result file.

A task is its settings and nothing else, so it may be run by anyone, be killed at any moment and be
run again: it goes on from its checkpoints, and its result, written whole or not at all, has the
same bytes.
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
    """What became of a task.

    Attributes:
      task: which.
      result: what its file holds; None if it failed.
      message: why it failed; otherwise empty.
      kept: whether the result was there before.
    """

    task: SweepTask
    result: dict[str, Any] | None
    message: str = ""
    kept: bool = False


def read_sweep(path: Path) -> dict[str, list[Any]]:
    """The settings of a TOML file, each as a list of the values it is to take.

    Raises:
      SettingError: if it cannot be read, or holds what is no setting.
    """
    content = read_toml(path, "sweep")
    for name in REQUIRED:
        if name not in content:
            raise SettingError("sweep", f"{path}: no {name}", f'Write {name} = "…"')
    values: dict[str, list[Any]] = {}
    for name, given in content.items():
        if name not in KINDS:
            fix = f"Known are {', '.join(KINDS)}"
            raise SettingError("sweep", f"{path}: {name} is no setting", fix)
        values[name] = [typed(name, one) for one in (given if isinstance(given, list) else [given])]
        if not values[name] or len(set(values[name])) < len(values[name]):
            problem = f"{path}: {name} is empty, or has a value twice"
            raise SettingError("sweep", problem, "Name every value once")
    return values


def planned(values: dict[str, list[Any]]) -> list[SweepTask]:
    """Every combination, in the order of the settings, by a name that says what it varies."""
    named = _combinations(values)
    hashes = {log: log_sha256(log) for log in values["log"]}
    return [SweepTask(name, spec, hashes[spec.log]) for name, spec in named]


def refuse_early(values: dict[str, list[Any]], out: Path) -> None:
    """Refuse what would fail every time, before a log is read.

    Args:
      values: of the settings, from `read_sweep`.
      out: folder for everything; a sweep that is there is gone on with.

    Raises:
      SettingError: naming the setting that cannot be used.
      OutputError: if something is in the way.
    """
    if (out / folder.HEADER).exists():
        raise OutputError(f"{out}: holds a run, and not a sweep. Choose another --out")
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
            problem = f"two of its values cannot be told apart in {name!r}, or it is too long"
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
    """Run every task whose result is not there yet.

    Args:
      tasks: from `planned`.
      out: folder for all of them; on a cluster, one that all nodes see under the same name.
      workers: how many at once, by Ray; with one, and no address, they are run one by one in this
        process; 0 takes one a core of this machine, or of the cluster.
      address: of a Ray cluster; empty starts a Ray on this machine.
      tell: called with every task that is finished.

    Returns:
      What became of them, in the order of the tasks.
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
