"""`gamps evaluate`: whether the policy of a run may be deployed, or how far on the way to it."""

import json
import sys
from pathlib import Path
from typing import Annotated

import tyro
from rich.text import Text

from gamps import evaluation
from gamps._utils import console
from gamps._utils.summaries import plain
from gamps.cli.strangers import say_imports
from gamps.evaluation.verdict import BY_STATES, ROBUST
from gamps.runs.evaluate_run import Against, RunEvaluation, evaluate_run, rows_of, rungs_of, sampled

STATUS = {evaluation.DEPLOY: 0, evaluation.NOT_SHOWN: 3, evaluation.WORSE: 4}
COLOURS = {evaluation.DEPLOY: "green", evaluation.NOT_SHOWN: "yellow", evaluation.WORSE: "red"}


def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    log: str = "",
    assume: evaluation.Assumption = "nothing",
    against: Against = "newest",
    confidence: float = 0.95,
    details: bool = False,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Say which policy of a run may be deployed: deploy, not shown to be better, or worse.

    A learned policy is often further from the log than the log can see. So policies on the way to
    it, the rungs of a ladder that the training has chosen, are compared with the logging policy on
    episodes that training never saw: the held-out part, or another log. Their lower bounds hold
    together; the rung with the highest one is the policy to deploy, with its noise, if the bound is
    above zero. It is then certified: gamps export and gamps play hand out that policy. Judging
    again by the same episodes, but for the same question, halves the error. Exit status: 0 deploy,
    3 not shown to be better, 4 worse.

    Example: gamps evaluate runs/tanks --confidence 0.9

    Args:
      run: the folder that gamps train wrote.
      log: another dataset of the same logging policy; the held-out part of the run's by default.
      assume: markov, if what is observed decides what comes next: estimates then reach
        further. It is checked near the logging policy, and refused where the log speaks against it.
        Bounds of the return that the task declares are not used then.
      against: newest, the controller that made the last episode, whose episodes then judge; or
        all that made the log. They differ where gamps import was told of several.
      confidence: that none of the bounds is wrong.
      details: show other estimates of the chosen rung beside the one that the verdict rests on.
      json_: print all of it as JSON.
    """
    say_imports(run)
    with console.bar("evaluate", 1) as advance:
        found = evaluate_run(run, log=log, assume=assume, against=against, confidence=confidence)
        advance("judged")
    verdict, judged = found.evaluation.verdict, found.evaluation.judged
    if json_:
        rest = {
            "log": found.by, "against": found.against, "densities": found.densities,
            "number": found.number,
            "chosen": found.evaluation.chosen, "estimates": found.evaluation.estimates,
            "rungs": [r._asdict() | {"policy": None} | j._asdict()
                      for r, j in zip(found.rungs, judged, strict=True)],
        }  # fmt: skip
        print(json.dumps(plain(verdict._asdict() | rest), indent=1))
    else:
        show_verdict(run, found, details=details)
    sys.exit(STATUS[verdict.word])


def show_verdict(run: Path, found: RunEvaluation, *, details: bool) -> None:
    """The table of rungs, the verdict and what to do next."""
    verdict = found.evaluation.verdict
    whose = "the newest controller" if found.against == "newest" else "the logging policy"
    table = console.rich_table(
        f"{run}: from {whose}, worth {verdict.behaviour.estimate:.4g}, to the learned",
        ["rung", "way", "noise", "effective", "improvement", "at least", ""],
        caption=f"Of {found.run.held_out.n_trajectories} episodes. Way and noise: shares of the "
        "way to the learned policy's mean and deviation. The bounds hold together.",
    )
    for row in rungs_of(found):
        table.add_row(*row)
    console.say(table)
    if details:
        _details(found)
    if found.dropped:
        console.say(f"{found.dropped} episodes of the run's own log are left out", "yellow")
    if found.number > 1:
        console.say(
            f"judgement {found.number} by these episodes: with error {found.error:.3g}, half of "
            f"that of the one before; of all together {found.error * (2**found.number - 1):.3g}",
            "yellow",
        )
    console.say_estimated(found.densities)
    word = (verdict.word, f"bold {COLOURS[verdict.word]}")
    console.say(Text.assemble(word, f": {verdict.why}. {verdict.advice}."))
    if verdict.unseen_loss is not None:
        console.say(
            f"What no {found.run.held_out.n_trajectories} episodes exclude: that 3 of as many lose "
            f"{verdict.unseen_loss:.4g} each, which would outweigh it."
        )


def _details(found: RunEvaluation) -> None:
    estimates = found.evaluation.estimates
    rests_on = BY_STATES if BY_STATES in estimates else ROBUST
    bounds = f"{estimates[ROBUST].value.confidence:.1%} bounds"
    table = console.rich_table(
        f"rung {found.evaluation.chosen + 1} by other estimates",
        ["estimate", "value", bounds, "improvement", bounds],
        caption=f"The verdict rests on {rests_on}. These bounds are of one policy alone; those of "
        f"{' and '.join(evaluation.UNSPREAD)} leave their own error out.{sampled(found)}",
    )
    for row in rows_of(estimates):
        table.add_row(*row)
    console.say(table)
