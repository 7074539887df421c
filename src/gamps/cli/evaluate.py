"""`gamps evaluate`: decide which policy of a run may be deployed, if any."""

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
from gamps.evaluation.verdict import BY_STATES, ROBUST, rare_failures
from gamps.report.rows import RUNG_HEADER, rows_of, rungs_of, sampled
from gamps.runs.certificate import CERTIFICATE
from gamps.runs.evaluate_run import Against, RunEvaluation, evaluate_run
from gamps.runs.inspection import unflagged_ends
from gamps.trajectories import Trajectories

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
    returns: tuple[float, float] | None = None,
    details: bool = False,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Decide which policy of a run may be deployed: deploy, not shown to be better, or worse.

    A learned policy is often too far from the controller for the log to judge it. So training has
    chosen policies on the way to it, the rungs of a ladder. They are compared with the logging
    policy on episodes that training never saw: the held-out ones, or another log. All their lower
    bounds hold at once. If the highest bound is above zero, its rung is certified: deploy it with
    its noise; gamps export and gamps play hand it out. The second question to the same episodes
    gets half of its error, the third a quarter; a repeated question keeps its own. Exit status: 0
    deploy, 3 not shown to be better, 4 worse.

    Example: gamps evaluate runs/tanks --confidence 0.9

    Args:
      run: run folder that gamps train wrote.
      log: another dataset of the same logging policy; by default the run's held-out episodes.
      assume: markov, if each observation decides what comes next: estimates then reach
        further. This is checked near the logging policy, and refused if the log contradicts it.
        The bounds of the return that the task declares are then not used.
      against: newest compares with the controller that made the last episode, on its episodes;
        all compares with all that made the log. It matters if gamps import was told of several.
      confidence: confidence that no bound is wrong.
      returns: the least and the largest return that an episode can have, discounted, if you know
        them for sure. The verdict is then stricter, and holds however rare the losing episodes are.
        It is a question of its own, and does not go with --assume markov or with groups.
      details: also show estimates of the chosen rung other than the one behind the verdict.
      json_: print everything as JSON; other estimates only with --details.
    """
    say_imports(run)
    had = (run / CERTIFICATE).exists()
    with console.bar("evaluate", 1) as advance:
        found = evaluate_run(
            run, log=log, assume=assume, against=against, confidence=confidence,
            returns=returns, details=details,
        )  # fmt: skip
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
        say_if_gone(run, had)
    sys.exit(STATUS[verdict.word])


def say_if_gone(run: Path, had: bool) -> None:
    """Say that a judgement has taken back the certificate that a run had."""
    if had and not (run / CERTIFICATE).exists():
        said = "the earlier certificate is gone: to restore it, ask its question again"
        console.say(f"{run}: {said}", "yellow")


def show_verdict(run: Path, found: RunEvaluation, *, details: bool) -> None:
    """Print the table of rungs, the verdict and what to do next."""
    verdict = found.evaluation.verdict
    whose = "the newest controller" if found.against == "newest" else "the logging policy"
    table = console.rich_table(
        f"{run}: from {whose} (worth {verdict.behaviour.estimate:.4g}) to the learned policy",
        RUNG_HEADER,
        caption=f"On {found.run.held_out.n_trajectories} held-out episodes. Moved: how far towards "
        "the learned policy. Effective: how many episodes count as evidence. The confidence "
        "applies to all bounds together.",
    )
    for row in rungs_of(found):
        table.add_row(*row)
    console.say(table)
    if details and found.evaluation.estimates:
        _details(found)
    elif details:
        console.say("no other estimates: fewer than three groups allow no interval")
    if found.dropped:
        console.say(f"{found.dropped} episodes of the run's own log are left out", "yellow")
    if found.number > 1:
        console.say(
            f"judgement {found.number} by these episodes: error {found.error:.3g}; "
            f"{found.spent:.3g} for all together",
            "yellow",
        )
    console.say_estimated(found.densities)
    word = (verdict.word, f"bold {COLOURS[verdict.word]}")
    console.say(Text.assemble(word, f": {verdict.why}. {verdict.advice}."))
    held_out = found.run.held_out
    if isinstance(held_out, Trajectories) and (unflagged := unflagged_ends(held_out)):
        console.say(f"Caution: {unflagged}.", "yellow")
    if verdict.unseen_loss is not None:
        unit = "episode" if found.run.groups is None else "group"
        console.say(rare_failures(verdict, unit, declare=found.takes_bounds))


def _details(found: RunEvaluation) -> None:
    estimates = found.evaluation.estimates
    rests_on = BY_STATES if BY_STATES in estimates else ROBUST
    bounds = f"{estimates[ROBUST].value.confidence:.1%} bounds"
    table = console.rich_table(
        f"rung {found.evaluation.chosen + 1}: other estimates",
        ["estimate", "value", bounds, "improvement", bounds],
        caption=f"The verdict rests on {rests_on}. Each bound here is for one policy alone. "
        f"{' and '.join(evaluation.UNSPREAD)} rely on a fitted model or value function, and their "
        f"bounds ignore the error of that fit.{sampled(found)}",
    )
    for row in rows_of(estimates):
        table.add_row(*row)
    console.say(table)
