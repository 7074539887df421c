"""Start a training in a new run folder, or continue one."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from gamps import datasets
from gamps._utils.console import silent
from gamps.errors import RunError
from gamps.learner import Learner, Progress
from gamps.runs import folder, inspection, loop, task_checks
from gamps.runs.build import RUNGS, read, weight_ratio
from gamps.runs.certificate import Ends, make_ladder
from gamps.runs.resolve import check_named, policy_of, task_of
from gamps.runs.search_training import SearchTraining
from gamps.runs.spec import LATER, TrainSpec, check, log_sha256, spec_in
from gamps.runs.state import Training
from gamps.search import placement
from gamps.trajectories import Trajectories

LOCKED = 60.0  # seconds for which a lost process may still hold its run folder


class Run(NamedTuple):
    """A training that is ready to continue.

    Attributes:
      folder: run folder.
      spec: settings that it was started with.
      data: its log, or some of it if it is streamed.
      training: the training itself.
    """

    folder: Path
    spec: TrainSpec
    data: datasets.Dataset
    training: Training

    def train(
        self,
        *,
        callback: loop.Callback = silent,
        refused: Callable[[Exception], None] = silent,
        say: Callable[[str], None] = silent,
    ) -> Progress:
        """Train from the last checkpoint to the end, then choose the rungs of the ladder."""
        if isinstance(self.training, Learner):
            self.training.say = say
        progress = loop.go_on(self.training, self.folder, callback=callback, refused=refused)
        if jax.process_index() == 0:
            first = self.training.controller
            ends = Ends(first, progress.best, self.data.behaviour or first)
            discount = float(self.training.task.discount)
            make_ladder(self.folder, ends, self._learned(), discount, seed=self.spec.seed)
        return progress

    def _learned(self) -> Trajectories:
        """Return what training saw of the newest controller, or the part of it held in memory."""
        if isinstance(self.training, SearchTraining) and self.spec.stream:
            return self.training.search.trajectories
        if self.spec.stream:
            learned, _ = datasets.shards_of(self.spec.log).split(self.spec.held_out, self.spec.seed)
            return learned.sample(RUNGS)
        part, _ = datasets.split_dataset(self.data, self.spec.held_out, seed=self.spec.seed)
        return datasets.of_newest(part)


def start(
    spec: TrainSpec,
    out: Path,
    *,
    over: Mesh | None = None,
    tensorboard: bool = False,
    again: bool = False,
    say: Callable[[str], None] = silent,
    advance: Callable[[str], None] = silent,
) -> Run:
    """Make the folder of a new run, after checking everything that can be refused.

    If several processes work together, all call this with one folder, and the first makes it.

    Args:
      spec: settings of the training.
      out: the folder.
      over: devices to split the log over; None for one.
      tensorboard: whether to write event files too.
      again: continue a run of the same specification, if the folder holds one.
      say: called with what is being done.
      advance: called for each episode of a log that is cut into shards first.

    Raises:
      RunError: if the folder holds a run with another specification or another log.
      OutputError: if something else is in the way.
      SettingError: if something that the specification names cannot be used.
      UnfitLogError: if training on this log would fail, or mean nothing.
    """
    first = jax.process_index() == 0  # the others may see what it has made
    refuse_early(spec, out, again=again or not first)
    if again and (out / folder.HEADER).exists():
        return resume(out, over=over, advance=advance)
    say(f"reading {spec.log} …")
    data, build = read(spec, over, advance)
    say("inspecting it …")
    policy = policy_of(spec.policy, data, spec.seed)
    task = task_of(spec.task) if spec.task else None
    inspection.refuse_unfit(
        inspection.inspect(
            data.trajectories, task, policy, densities=data.densities, labels=data.labels
        )
    )
    training = build()
    if training.outcomes is not None:
        found = task_checks.estimated_task(training.outcomes)
        say("; ".join(f"{one.what} {one.found}" for one in found))
    if first:
        known = {"log_sha256": log_sha256(spec.log), "densities": data.densities}
        settings = asdict(spec) | known | {"tensorboard": tensorboard}
        folder.create(out, settings, weight_ratio=weight_ratio(spec))
    placement.wait("created")
    return Run(out, spec, data, training)


def resume(run: Path, *, over: Mesh | None = None, advance: Callable[[str], None] = silent) -> Run:
    """Open a run to continue it from its last checkpoint, to the same result as uninterrupted.

    Args:
      run: the folder.
      over: devices to split the log over; None for one.
      advance: called for each episode of a log that is cut into shards first.

    Raises:
      RunError: if there is no run, or its log has changed since.
    """
    spec = spec_in(run)
    check_named(spec)
    data, build = read(spec, over, advance)
    return Run(run, spec, data, build())


def refuse_early(spec: TrainSpec, out: Path, *, again: bool = False) -> None:
    """Refuse all that `start` can refuse without reading the log, which may take a while."""
    check(spec)
    if not again or not (out / folder.HEADER).exists():
        folder.refuse_taken(out)
    else:
        _same(folder.header(out)["settings"], asdict(spec), out)
    check_named(spec)


def _same(settings: dict[str, Any], expected: dict[str, Any], out: Path) -> None:
    for name, value in expected.items():
        if (LATER | settings).get(name) != value:
            raise RunError(
                f"{out}: holds a run of another {name}, {settings.get(name)!r}, not {value!r}. "
                "Choose another --out"
            )


def until_free(run: Path, seconds: float = LOCKED) -> None:
    """Wait until no other process works on a run: a lost one may take a while to end.

    Raises:
      RunError: if one still does after this many seconds.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            with folder.locked(run):
                return
        except RunError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)
