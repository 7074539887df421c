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
from gamps.training import build
from gamps.training.loop import taken_up
from gamps.training.setup import task_of
from gamps.training.words import hash_of, words_in

STATUS = {verdicts.DEPLOY: 0, verdicts.NOT_SHOWN: 3, verdicts.WORSE: 4}
COLOURS = {verdicts.DEPLOY: "green", verdicts.NOT_SHOWN: "yellow", verdicts.WORSE: "red"}


def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    log: str = "",
    confidence: float = 0.95,
    estimator: str = "self-normalised",
    interval: str = "bootstrap",
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
      estimator: that the verdict rests on: per-decision, self-normalised, doubly robust, weighted
        doubly robust; the table shows all that the run's model allows, and the direct one.
      interval: bootstrap or student.
      json_: print all of it as JSON.
    """
    words = words_in(run)
    data = datasets.load(words.log)
    training: Any = build(words, data)
    progress, _, _ = taken_up(training, run)
    if log:
        if hash_of(log) == hash_of(words.log):
            mend = "Leave it out: its held-out part is taken"
            raise SettingError("log", f"{log} is what the policy was trained on", mend)
        data = datasets.load(log)
    held_out = data.trajectories if log else training.judged
    policy, task = progress.best, task_of(words.task)
    if held_out.states.shape[2:] != training.judged.states.shape[2:]:
        raise SettingError("log", f"observations {held_out.states.shape[2:]}", "Of another plant?")
    found = verdicts.evidence_of(
        jax.random.key(words.seed), policy, held_out, task, progress.state.model
    )
    names = [
        name
        for name in evaluation.ESTIMATORS
        if found.q_values is not None or name not in verdicts.NEEDS_MODEL
    ]
    if estimator not in names or estimator == "direct":
        mend = f"Choose one of {', '.join(name for name in names if name != 'direct')}"
        raise SettingError("estimator", repr(estimator), mend)
    every = {
        name: verdicts.judge(
            policy, held_out, found, estimator=name, interval=interval, confidence=confidence
        )
        for name in names
    }
    verdict = every[estimator]
    if json_:
        print(json.dumps(_plain(verdict, every, data.densities), indent=1))
    else:
        _show(run, verdict, every, data.densities)
    sys.exit(STATUS[verdict.word])


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
        caption="Bounds are one-sided. Those of the direct estimate leave the model's error out.",
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
