"""`gamps evaluate`: whether the policy of a run may be deployed."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

from gamps import datasets, evaluation, report
from gamps.errors import SettingError
from gamps.evaluation import verdict as verdicts
from gamps.training.finished import Finished, opened
from gamps.training.words import hash_of

ESTIMATOR, INTERVAL = "doubly robust", "student"
STATUS = {verdicts.DEPLOY: 0, verdicts.NOT_SHOWN: 3, verdicts.WORSE: 4}
COLOURS = {verdicts.DEPLOY: "green", verdicts.NOT_SHOWN: "yellow", verdicts.WORSE: "red"}


def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    log: str = "",
    confidence: float = 0.95,
    estimator: str = ESTIMATOR,
    interval: str = INTERVAL,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Say whether the best policy of a run may be deployed: deploy, not shown to be better, worse.

    The policy, with the noise it acts with, is compared with the logging policy on episodes that
    training never saw: its held-out part, or another log. Deploy is said only if the one-sided
    lower bound of the improvement is above zero, and never if too few episodes effectively carry
    the estimate; then it says how many more would be needed, if that can be said. Exit status: 0
    deploy, 3 not shown to be better, 4 worse.

    Example: gamps evaluate runs/tanks --confidence 0.9

    Args:
      run: the folder that gamps train wrote.
      log: another dataset of the same logging policy; the held-out part of the run's by default.
      confidence: of the bound.
      estimator: that the verdict rests on: any of the table, but for the model's own estimate
        (direct) and fitted Q evaluation; gamps reproduce coverage shows why it is this one.
      interval: student or bootstrap.
      json_: print all of it as JSON.
    """
    made, every = judged(run, log=log, confidence=confidence, interval=interval)
    verdict, densities = every[evaluation.chosen(every, estimator)], made.data.densities
    if json_:
        print(json.dumps(_plain(verdict, every, densities), indent=1))
    else:
        _show(run, verdict, every, densities)
    sys.exit(STATUS[verdict.word])


def judged(
    run: Path, *, log: str = "", confidence: float = 0.95, interval: str = INTERVAL
) -> tuple[Finished, dict[str, evaluation.Verdict]]:
    """A run, judged by its held-out part or by another log, and the verdict by every estimator."""
    made = opened(run)
    if log:
        if hash_of(log) == hash_of(made.words.log):
            mend = "Leave it out: its held-out part is taken"
            raise SettingError("log", f"{log} is what the policy was trained on", mend)
        data = datasets.load(log)
        made = made._replace(data=data, held_out=data.trajectories)
    held_out = made.held_out
    if held_out.states.shape[2:] != made.learned.states.shape[2:]:
        raise SettingError("log", f"observations {held_out.states.shape[2:]}", "Of another plant?")
    every = evaluation.verdicts(
        made.progress.best, held_out, cases_of(made), confidence=confidence, interval=interval
    )
    return made, every


def cases_of(made: Finished) -> dict[str, Any]:
    """What the estimates of a run are made of."""
    policy, model = made.progress.best, made.progress.state.model
    key = jax.random.key(made.words.seed)
    return evaluation.cases(key, policy, made.learned, made.held_out, made.task, model)


def _plain(verdict: Any, every: dict[str, Any], densities: str) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if hasattr(value, "_asdict"):
            return {k: plain(v) for k, v in value._asdict().items()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return plain(verdict) | {
        "densities": densities,
        "estimates": {
            name: {"value": plain(v.value), "improvement": plain(v.improvement)}
            for name, v in every.items()
        },
    }


def _show(run: Path, verdict: Any, every: dict[str, Any], densities: str) -> None:
    say = report.console.print
    bounds = f"{verdict.improvement.confidence:.0%} bounds"
    table = report.rich_table(
        f"{run}: {verdict.value.estimate:.4g}, logging policy {verdict.behaviour.estimate:.4g}",
        ["estimator", "value", bounds, "improvement", bounds],
        caption="Bounds are one-sided. Those of direct and fitted Q leave their own error out.",
    )
    for name, found in every.items():
        value, gain = found.value, found.improvement
        table.add_row(
            f"{name} *" if name == verdict.estimator else name,
            f"{value.estimate:.4g}",
            f"{value.low:.4g} to {value.high:.4g}",
            f"{gain.estimate:.4g}",
            f"{gain.low:.4g} to {gain.high:.4g}",
        )
    say(table)
    support = verdict.support
    say(f"support: {support.ess:.1f} effective episodes, Pareto-k {support.pareto_k:.2f}: "
        f"{support.grade}")  # fmt: skip
    report.say_estimated(densities)
    say(f"[bold {COLOURS[verdict.word]}]{verdict.word}[/]: {verdict.why}", soft_wrap=True)
    if verdict.further:
        say(f"about {verdict.further} more episodes of the logging policy would be needed, if the "
            "estimate is right", soft_wrap=True)  # fmt: skip
