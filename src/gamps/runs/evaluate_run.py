"""A run with what is said of it: the estimates, and the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax

from gamps import datasets, evaluation
from gamps.errors import SettingError
from gamps.evaluation.verdict import NOT_SHOWN, ROBUST, judge
from gamps.runs.open_run import Finished, opened, unseen
from gamps.runs.spec import hash_of
from gamps.trajectories import Trajectories


class Judged(NamedTuple):
    """A run and what is said of it.

    Attributes:
      made: the run; its held-out episodes are those that it is judged by.
      by: name of the log that they are of.
      densities: of that log: known, or estimated.
      dropped: episodes of that log that are not used, since training saw them.
      cases: what each estimate is made of.
      every: the estimates.
      verdict: by the doubly robust one.
    """

    made: Finished
    by: str
    densities: str
    dropped: int
    cases: dict[str, evaluation.Case]
    every: dict[str, evaluation.Estimate]
    verdict: evaluation.Verdict


def judged(
    run: Path, *, log: str = "", confidence: float = 0.95, interval: str = "student"
) -> Judged:
    """A run, judged by its held-out part, or by the episodes of another log that are new to it."""
    made = opened(run)
    densities, dropped = made.data.densities, 0
    if log:
        if hash_of(log) == hash_of(made.words.log):
            mend = "Leave it out: its held-out part is taken"
            raise SettingError("log", f"{log} is what the policy was trained on", mend)
        other = datasets.load(log)
        _same_spaces(other.trajectories, made.learned)
        fresh, dropped = unseen(other.trajectories, made.learned)
        made, densities = made._replace(held_out=fresh), other.densities
    policy, model = made.progress.best, made.progress.state.model
    key = jax.random.key(made.words.seed)
    given = evaluation.cases(key, policy, made.learned, made.held_out, made.task, model)
    rest = {"interval": interval, "confidence": confidence}
    every = evaluation.estimates(given, **rest)  # type: ignore[arg-type]
    seen = given[ROBUST].found
    verdict = judge(policy, made.held_out, seen, **rest)  # type: ignore[arg-type]
    return Judged(made, log or made.words.log, densities, dropped, given, every, verdict)


def _same_spaces(one: Trajectories, other: Trajectories) -> None:
    for name in ("observations", "actions"):
        a, b = (getattr(log, name) for log in (one, other))
        if a.shape[2:] != b.shape[2:] or a.dtype.kind != b.dtype.kind:
            shapes = [f"{list(x.shape[2:])} {x.dtype}" for x in (a, b)]
            finding = f"{name} {shapes[0]}, the run's {shapes[1]}"
            raise SettingError("log", finding, "Give a log of the same controller")


def rows_of(found: Judged) -> list[list[str]]:
    """Name, value and improvement of every estimate, with their bounds."""
    rows = []
    for name, (value, gain) in found.every.items():
        rows.append([
            name, f"{value.estimate:.4g}", f"{value.low:.4g} to {value.high:.4g}",
            f"{gain.estimate:.4g}", f"{gain.low:.4g} to {gain.high:.4g}",
        ])  # fmt: skip
    return rows


def said(verdict: evaluation.Verdict) -> str:
    """Why, and what would change it."""
    if verdict.word != NOT_SHOWN or verdict.needed is None:
        return verdict.why
    return (
        f"{verdict.why}. A new log of about {verdict.needed} episodes of the logging policy, to "
        "judge by (--log), could show it if the estimate is right"
    )
