"""`gamps evaluate`: whether the policy of a run may be deployed."""

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
from gamps.evaluation import verdict as verdicts
from gamps.runs.evaluate_run import RunEvaluation, evaluate_run, explained, rows_of

STATUS = {verdicts.DEPLOY: 0, verdicts.NOT_SHOWN: 3, verdicts.WORSE: 4}
COLOURS = {verdicts.DEPLOY: "green", verdicts.NOT_SHOWN: "yellow", verdicts.WORSE: "red"}


def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    log: str = "",
    confidence: float = 0.95,
    interval: str = "student",
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Say whether the best policy of a run may be deployed: deploy, not shown to be better, worse.

    The policy, with the noise it acts with, is compared with the logging policy on episodes that
    training never saw: its held-out part, or another log. Deploy is said only if the one-sided
    lower bound of the improvement is above zero, and never if too few episodes effectively carry
    the estimate; then it says how many would be needed, if that can be said. The estimate is
    doubly robust, with a Q that is fitted to the episodes that training saw; the table shows others
    beside it. Exit status: 0 deploy, 3 not shown to be better, 4 worse.

    Example: gamps evaluate runs/tanks --confidence 0.9

    Args:
      run: the folder that gamps train wrote.
      log: another dataset of the same logging policy; the held-out part of the run's by default.
      confidence: of the bound.
      interval: student or bootstrap.
      json_: print all of it as JSON.
    """
    say_imports(run)
    found = evaluate_run(run, log=log, confidence=confidence, interval=interval)
    if json_:
        rest = {"log": found.by, "densities": found.densities, "estimates": found.estimates}
        print(json.dumps(plain(found.verdict._asdict() | rest), indent=1))
    else:
        _show(run, found)
    sys.exit(STATUS[found.verdict.word])


def _show(run: Path, found: RunEvaluation) -> None:
    verdict = found.verdict
    bounds = f"{found.estimates[verdicts.ROBUST].value.confidence:.0%} bounds"
    table = console.rich_table(
        f"{run}: {verdict.value.estimate:.4g}, logging policy {verdict.behaviour.estimate:.4g}",
        ["estimate", "value", bounds, "improvement", bounds],
        caption=f"The verdict rests on {verdicts.ROBUST}. Bounds are one-sided; those of "
        f"{' and '.join(evaluation.UNSPREAD)} leave their own error out.",
    )
    for row in rows_of(found):
        table.add_row(*row)
    console.say(table)
    support = verdict.support
    console.say(
        f"support: {support.ess:.1f} effective episodes of {found.run.held_out.n_trajectories}, "
        f"Pareto-k {support.pareto_k:.2f}: {support.grade}"
    )
    if found.dropped:
        console.say(f"{found.dropped} episodes that training saw are left out", "yellow")
    console.say_estimated(found.densities)
    word = (verdict.word, f"bold {COLOURS[verdict.word]}")
    console.say(Text.assemble(word, f": {explained(verdict)}"))
