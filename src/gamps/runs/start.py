"""Where every training starts, and where every one goes on."""

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
from gamps.learner import Progress
from gamps.runs import folder, inspection, loop
from gamps.runs.build import LEARNED, read, weight_ratio
from gamps.runs.certificate import Ends, make_ladder
from gamps.runs.resolve import check_named, policy_of, task_of
from gamps.runs.search_training import SearchTraining
from gamps.runs.spec import LATER, TrainSpec, check, log_sha256, spec_in
from gamps.runs.state import Training
from gamps.search import placement
from gamps.trajectories import Trajectories

LOCKED = 60.0  # seconds that a lost process may still hold its run folder


class Run(NamedTuple):
    """A training that is ready to go on.

    Attributes:
      folder: of the run.
      spec: that it was started with.
      data: its log, or some of it if it is streamed.
      training: what is to be done.
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
    ) -> Progress:
        """Go on from the last checkpoint to the end, and choose the rungs of the ladder there."""
        progress = loop.go_on(self.training, self.folder, callback=callback, refused=refused)
        if jax.process_index() == 0:
            first = self.training.start().best
            ends = Ends(first, progress.best, self.data.behaviour or first)
            discount = float(self.training.task.discount)
            make_ladder(self.folder, ends, self._learned(), discount, seed=self.spec.seed)
        return progress

    def _learned(self) -> Trajectories:
        """What training saw of the newest controller, or as much of it as is held in memory."""
        if isinstance(self.training, SearchTraining) and self.spec.stream:
            return self.training.search.trajectories
        if self.spec.stream:
            learned, _ = datasets.shards_of(self.spec.log).split(self.spec.held_out, self.spec.seed)
            return learned.sample(LEARNED)
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
    """Make the folder of a new run, after everything that can be refused was looked at.

    Of several processes in one program all call this with one folder, and the first makes it.

    Args:
      spec: of the training.
      out: the folder.
      over: devices to split the log over; None for one.
      tensorboard: whether event files are to be written too.
      again: take up a run of the same specification, if the folder holds one.
      say: told what is being done.
      advance: told of each episode of a log that is cut into shards first.

    Raises:
      RunError: if the folder holds a run of another specification, or of another log.
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
    say("inspecting it: compiling …")
    policy = policy_of(spec.policy, data, spec.seed)
    task = task_of(spec.task) if spec.task else None
    inspection.refuse_unfit(
        inspection.inspect(
            data.trajectories, task, policy, densities=data.densities, labels=data.labels
        )
    )
    training = build()
    if training.outcomes is not None:
        found = inspection.estimated_task(training.outcomes)
        say("; ".join(f"{one.what} {one.found}" for one in found))
    if first:
        known = {"log_sha256": log_sha256(spec.log), "densities": data.densities}
        settings = asdict(spec) | known | {"tensorboard": tensorboard}
        folder.create(out, settings, weight_ratio=weight_ratio(spec))
    placement.wait("created")
    return Run(out, spec, data, training)


def resume(run: Path, *, over: Mesh | None = None, advance: Callable[[str], None] = silent) -> Run:
    """Open a run to go on with it, from its last checkpoint to the same end as without a break.

    Args:
      run: the folder.
      over: devices to split the log over; None for one.
      advance: told of each episode of a log that is cut into shards first.

    Raises:
      RunError: if there is no run, or its log has changed since.
    """
    spec = spec_in(run)
    check_named(spec)
    data, build = read(spec, over, advance)
    return Run(run, spec, data, build())


def refuse_early(spec: TrainSpec, out: Path, *, again: bool = False) -> None:
    """All that `start` refuses without reading the log, which may take a while."""
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
                f"{out}: holds a run of another {name}, {settings.get(name)!r} and not {value!r}. "
                "Choose another --out"
            )


def until_free(run: Path, seconds: float = LOCKED) -> None:
    """Wait until no other process works on a run: one that was lost may take a while to end.

    Raises:
      RunError: if one still does after so many seconds.
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
