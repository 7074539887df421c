"""A run with what is said of it: the verdict on its ladder, recorded, and the estimates."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax

from gamps import datasets, evaluation
from gamps.errors import SettingError
from gamps.evaluation import Assumption, Rung
from gamps.runs.certificate import make_ladder, number_of, read_ladder, record, sha256_of
from gamps.runs.open_run import OpenRun, open_run, own_episodes, unseen
from gamps.runs.spec import log_sha256
from gamps.trajectories import Trajectories

Against = Literal["newest", "all"]
"""Which of several controllers a policy is to be better than."""


class RunEvaluation(NamedTuple):
    """A run and what is said of it.

    Attributes:
      run: its held-out episodes are those that it is judged by.
      by: name of the log that they are of.
      densities: of that log: known, or estimated.
      dropped: episodes of that log that are not used, since they are of the run's own log.
      number: of this judgement by these episodes, from one.
      error: that its bounds are taken with; each further judgement has half of the one before.
      rungs: of its ladder, the nearest to the logging policy first.
      evaluation: the verdict on them, and what stands behind it.
      against: which of several controllers it is compared with; None if there is one.
    """

    run: OpenRun
    by: str
    densities: str
    dropped: int
    number: int
    error: float
    rungs: tuple[Rung, ...]
    evaluation: evaluation.Evaluation
    against: Against | None = None


def evaluate_run(
    folder: Path,
    *,
    log: str = "",
    assume: Assumption = "nothing",
    against: Against = "newest",
    confidence: float = 0.95,
) -> RunEvaluation:
    """Judge a run by its held-out part, or by the episodes of another log that are new to it.

    The judgement is recorded in the run folder. One by episodes that have judged the run before,
    but for the same question, is taken with half the error of the one before. Where several
    controllers made the log, the newest's episodes judge, and improvement is over it; or all do,
    and improvement is over what they earned together.
    """
    run = open_run(folder)
    densities, dropped = run.data.densities, 0
    if log:
        if log_sha256(log) == log_sha256(run.spec.log):
            fix = "Leave it out: its held-out part is taken"
            raise SettingError("log", f"{log} is what the policy was trained on", fix)
        other = datasets.load(log)
        _same_spaces(other.trajectories, run.learned)
        fresh, dropped = unseen(other.trajectories, own_episodes(run))
        run = run._replace(held_out=fresh, newest=None, groups=None)
        densities = other.densities
    groups = run.groups
    if against == "newest" and run.newest is not None:
        held_out: Trajectories = jax.tree.map(lambda x: x[run.newest], run.held_out)
        groups = None if groups is None else groups[run.newest]
        run = run._replace(held_out=held_out)
    discount = float(run.task.discount)
    make_ladder(folder, run.ends, run.near, discount, seed=run.spec.seed, assume=assume)
    rungs = read_ladder(folder, run.ends, assume)
    question = {
        "episodes_sha256": _episodes_sha256(run.held_out),
        "policies_sha256": sha256_of([rung.policy for rung in rungs]),
        "confidence": confidence,
        "assume": assume,
    }
    number = number_of(folder, question)
    error = (1 - confidence) / 2 ** (number - 1)
    evaluated = evaluation.evaluate(
        rungs,
        run.learned,
        run.held_out,
        run.task,
        behaviour=run.ends.behaviour,
        model=run.progress.state.model,
        assume=assume,
        confidence=1 - error,
        groups=groups,
        seed=run.spec.seed,
    )
    rung = rungs[evaluated.chosen]
    answer = evaluated.verdict._asdict() | {
        "number": number,
        "rung": {"number": evaluated.chosen + 1, "of": len(rungs)} | _place(rung),
        "log": log or run.spec.log,
        "log_sha256": log_sha256(log or run.spec.log),
    }
    record(folder, question, answer, rung.policy)
    by = log or run.spec.log
    return RunEvaluation(
        run,
        by,
        densities,
        dropped,
        number,
        error,
        rungs,
        evaluated,
        None if run.newest is None else against,
    )


def _episodes_sha256(episodes: Trajectories | datasets.Shards) -> str:
    return episodes.sha256 if isinstance(episodes, datasets.Shards) else sha256_of(episodes)


def _place(rung: Rung) -> dict[str, Any]:
    return {"share": rung.share, "spread": rung.spread}


def _same_spaces(one: Trajectories, other: Trajectories) -> None:
    for name in ("observations", "actions"):
        a, b = (getattr(log, name) for log in (one, other))
        if a.shape[2:] != b.shape[2:] or a.dtype.kind != b.dtype.kind:
            shapes = [f"{list(x.shape[2:])} {x.dtype}" for x in (a, b)]
            problem = f"{name} {shapes[0]}, the run's {shapes[1]}"
            raise SettingError("log", problem, "Give a log of the same controller")


def rows_of(estimates: dict[str, evaluation.Estimate]) -> list[list[str]]:
    """Name, value and improvement of every estimate, with their bounds."""
    rows = []
    for name, (value, gain) in estimates.items():
        rows.append([
            name, f"{value.estimate:.4g}", f"{value.low:.4g} to {value.high:.4g}",
            f"{gain.estimate:.4g}", f"{gain.low:.4g} to {gain.high:.4g}",
        ])  # fmt: skip
    return rows


def sampled(found: RunEvaluation) -> str:
    """What to say of estimates beside the verdict's: of a log on disk they are of some episodes."""
    return " They are by a random sample of the held-out episodes." if found.run.spec.stream else ""


def rungs_of(found: RunEvaluation) -> list[list[str]]:
    """Number, place, effective episodes, improvement and bound of every rung, and what became."""
    rows = []
    for k, (rung, one) in enumerate(zip(found.rungs, found.evaluation.judged, strict=True)):
        remark = "" if one.refusal is None else "shows nothing"
        if k == found.evaluation.chosen and found.evaluation.policy is not None:
            remark = "certified"
        gain = one.improvement
        rows.append([
            f"{k + 1}", f"{rung.share:.0%}", f"{rung.spread:.0%}", f"{one.support.ess:.0f}",
            f"{gain.estimate:.4g}", f"{gain.low:.4g}", remark,
        ])  # fmt: skip
    return rows
