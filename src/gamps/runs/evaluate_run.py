"""A run with what is said of it: the estimates, and the verdict."""

from pathlib import Path
from typing import NamedTuple

from gamps import datasets, evaluation
from gamps.errors import SettingError
from gamps.evaluation.verdict import NOT_SHOWN
from gamps.runs.open_run import OpenRun, open_run, unseen
from gamps.runs.spec import log_sha256
from gamps.trajectories import Trajectories


class RunEvaluation(NamedTuple):
    """A run and what is said of it.

    Attributes:
      run: its held-out episodes are those that it is judged by.
      by: name of the log that they are of.
      densities: of that log: known, or estimated.
      dropped: episodes of that log that are not used, since training saw them.
      verdict: by the doubly robust estimate.
      estimates: that one and others, by name.
      cases: what each is made of.
    """

    run: OpenRun
    by: str
    densities: str
    dropped: int
    verdict: evaluation.Verdict
    estimates: dict[str, evaluation.Estimate]
    cases: dict[str, evaluation.Case]


def evaluate_run(
    folder: Path, *, log: str = "", confidence: float = 0.95, interval: str = "student"
) -> RunEvaluation:
    """Judge a run by its held-out part, or by the episodes of another log that are new to it."""
    run = open_run(folder)
    densities, dropped = run.data.densities, 0
    if log:
        if log_sha256(log) == log_sha256(run.spec.log):
            fix = "Leave it out: its held-out part is taken"
            raise SettingError("log", f"{log} is what the policy was trained on", fix)
        other = datasets.load(log)
        _same_spaces(other.trajectories, run.learned)
        fresh, dropped = unseen(other.trajectories, run.learned)
        run, densities = run._replace(held_out=fresh), other.densities
    evaluated = evaluation.evaluate(
        run.progress.best,
        run.learned,
        run.held_out,
        run.task,
        model=run.progress.state.model,
        confidence=confidence,
        interval=interval,
        seed=run.spec.seed,
    )
    return RunEvaluation(run, log or run.spec.log, densities, dropped, *evaluated)


def _same_spaces(one: Trajectories, other: Trajectories) -> None:
    for name in ("observations", "actions"):
        a, b = (getattr(log, name) for log in (one, other))
        if a.shape[2:] != b.shape[2:] or a.dtype.kind != b.dtype.kind:
            shapes = [f"{list(x.shape[2:])} {x.dtype}" for x in (a, b)]
            problem = f"{name} {shapes[0]}, the run's {shapes[1]}"
            raise SettingError("log", problem, "Give a log of the same controller")


def rows_of(evaluated: RunEvaluation) -> list[list[str]]:
    """Name, value and improvement of every estimate, with their bounds."""
    rows = []
    for name, (value, gain) in evaluated.estimates.items():
        rows.append([
            name, f"{value.estimate:.4g}", f"{value.low:.4g} to {value.high:.4g}",
            f"{gain.estimate:.4g}", f"{gain.low:.4g} to {gain.high:.4g}",
        ])  # fmt: skip
    return rows


def explained(verdict: evaluation.Verdict) -> str:
    """Why, and what would change it."""
    if verdict.word != NOT_SHOWN or verdict.needed is None:
        return verdict.why
    return (
        f"{verdict.why}. A new log of about {verdict.needed} episodes of the logging policy, to "
        "judge by (--log), could show it if the estimate is right"
    )
