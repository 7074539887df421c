"""Evaluate a run: judge its ladder, record the verdict, and return the estimates."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from gamps import datasets, evaluation
from gamps.errors import SettingError
from gamps.evaluation import Assumption, Rung
from gamps.evaluation.estimates import made
from gamps.evaluation.verdict import NOT_SHOWN
from gamps.runs.certificate import (
    CERTIFICATE,
    WITHDRAWN,
    error_spent,
    judgements,
    make_ladder,
    number_of,
    read_ladder,
    record,
    sha256_of,
)
from gamps.runs.open_run import OpenRun, contents_of, open_run, own_episodes, unseen
from gamps.runs.spec import log_sha256, spec_in
from gamps.trajectories import Trajectories, episodes_of

Against = Literal["newest", "all"]
"""Which of several controllers a policy is to be better than."""

HARMED: dict[str, Any] = {
    "why": "it was deployed and did harm, so its certificate stays withdrawn",
    "advice": "Keep the policy that was in charge before it, and log that policy again",
    "needed": None,
    "unseen_loss": None,
}


class RunEvaluation(NamedTuple):
    """A run and its evaluation.

    Attributes:
      run: the run; its held-out episodes are those that judge it.
      by: name of the log that these episodes belong to.
      densities: whether that log's densities are known or estimated.
      dropped: number of its episodes left out because the run's own log has them.
      number: number of this judgement by these episodes, from one.
      error: error of its bounds: half of what was asked for in the second judgement by these
        episodes, a quarter in the third, and so on.
      spent: error of all judgements by these episodes together.
      rungs: rungs of its ladder, the nearest to the logging policy first.
      evaluation: the verdict on them, and what it rests on.
      against: which of several controllers it is compared with; None if there is only one.
      assume: what the bounds assume.
    """

    run: OpenRun
    by: str
    densities: str
    dropped: int
    number: int
    error: float
    spent: float
    rungs: tuple[Rung, ...]
    evaluation: evaluation.Evaluation
    against: Against | None = None
    assume: Assumption = "nothing"

    @property
    def takes_bounds(self) -> bool:
        """Whether declared bounds on the return would make its verdict a guaranteed one."""
        return self.run.groups is None and self.assume == "nothing"


def evaluate_run(
    folder: Path,
    *,
    log: str = "",
    assume: Assumption = "nothing",
    against: Against = "newest",
    confidence: float = 0.95,
    returns: tuple[float, float] | None = None,
    details: bool = False,
) -> RunEvaluation:
    """Judge a run by its held-out episodes, or by the episodes of another log that are new to it.

    The judgement is recorded in the run folder. The second question to the same episodes gets half
    of its error, the third a quarter, and so on. If several controllers made the log, the newest's
    episodes judge, and improvement is over that controller; or all episodes judge, and improvement
    is over what all controllers earned together. `returns` declares the least and the largest
    return that an episode can have, in place of what the task says. With `details` the chosen rung
    is estimated in other ways too, which takes longer.
    """
    run = open_run(folder)
    declared = returns is not None and returns != run.task.returns
    if declared:
        run = run._replace(task=replace(run.task, returns=returns))
    densities, dropped = run.data.densities, 0
    episodes: list[str] = []  # what they hold; the run's own are in no other log that may judge it
    if log:
        if log_sha256(log) == log_sha256(run.spec.log):
            fix = "Leave it out to judge by its held-out episodes"
            raise SettingError("log", f"the policy was trained on {log}", fix)
        other = datasets.load(log)
        _same_spaces(other.trajectories, run.learned)
        rows = unseen(other.trajectories, own_episodes(run))
        contents = [*contents_of(other.trajectories)]
        episodes = [contents[i] for i in rows]
        run = _judged_by(run, other, rows)
        densities, dropped = other.densities, other.trajectories.n_trajectories - len(rows)
    if declared and (assume == "markov" or run.groups is not None):
        problem = "bounds do not help with groups, or with --assume markov"
        raise SettingError("returns", problem, "Leave one of them out")
    asked = _episodes_sha256(run.held_out)
    if against == "newest" and run.newest is not None:
        held_out: Trajectories = jax.tree.map(lambda x: x[run.newest], run.held_out)
        groups = None if run.groups is None else run.groups[run.newest]
        run = run._replace(held_out=held_out, groups=groups)
    compared = against == "newest" or not run.data.labels.controllers
    if log and compared and {densities, run.data.densities} == {"known"}:
        _refuse_other(run, log)
    discount = float(run.task.discount)
    make_ladder(folder, run.ends, run.near, discount, seed=run.spec.seed, assume=assume)
    rungs = read_ladder(folder, run.ends, assume)
    question: dict[str, Any] = {
        "episodes_sha256": asked,  # all of them: those of one controller are not fresh
        "policies_sha256": sha256_of([rung.policy for rung in rungs]),
        "confidence": confidence,
        "assume": assume,
        "discount": discount,
    }
    bounds = {"returns": run.task.returns, "rewards": run.task.rewards}
    question |= {name: list(pair) for name, pair in bounds.items() if pair is not None}
    question |= {} if run.newest is None else {"against": against}
    number = number_of(folder, question, episodes)
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
        details=details,
        groups=run.groups,
        seed=run.spec.seed,
    )
    if (folder / WITHDRAWN).exists() and evaluated.policy is not None:
        verdict = evaluated.verdict._replace(word=NOT_SHOWN, **HARMED)
        evaluated = evaluated._replace(verdict=verdict, policy=None)
    rung = rungs[evaluated.chosen]
    answer = evaluated.verdict._asdict() | {
        "number": number,
        "rung": {"number": evaluated.chosen + 1, "of": len(rungs)} | _place(rung),
        "log": log or run.spec.log,
        "log_sha256": log_sha256(log or run.spec.log),
    }
    record(folder, question, answer, rung.policy, episodes)
    by = log or run.spec.log
    return RunEvaluation(
        run,
        by,
        densities,
        dropped,
        number,
        error,
        error_spent(folder, question, episodes),
        rungs,
        evaluated,
        None if run.newest is None else against,
        assume,
    )


def last_question(folder: Path) -> dict[str, Any]:
    """Return the question of a run's last judgement, as arguments; nothing if nobody has judged."""
    said = judgements(folder)
    if (folder / CERTIFICATE).exists():
        said = [json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))]
    if not said:
        return {}
    question, own = said[-1]["question"], spec_in(folder).log
    names = [name for name in ("assume", "against", "confidence", "returns") if name in question]
    asked = {name: question[name] for name in names}
    asked |= {"returns": tuple(asked["returns"])} if "returns" in asked else {}
    return asked | {"log": "" if said[-1]["log"] == own else said[-1]["log"]}


def _refuse_other(run: OpenRun, log: str) -> None:
    """Refuse episodes of another controller: the run's policies were not compared with that one.

    It cannot be told if a fit stands in for the controller.
    """
    episodes, stands_in = run.held_out, not made(run.ends.behaviour, datasets.of_newest(run.data))
    if isinstance(episodes, datasets.Shards) or stands_in:
        return
    if not made(run.ends.behaviour, episodes):
        fix = "Give a log of that controller; gamps.evaluate in Python takes any log"
        raise SettingError("log", f"the controller of {run.spec.log} did not make {log}", fix)


def _judged_by(run: OpenRun, data: datasets.Dataset, rows: np.ndarray) -> OpenRun:
    """The run, to be judged by some episodes of another log."""
    latest, groups = datasets.newest(data)[rows], data.labels.groups
    return run._replace(
        held_out=episodes_of(data.trajectories, rows),
        newest=None if latest.all() else latest,
        groups=np.asarray(groups)[rows] if groups else None,
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
