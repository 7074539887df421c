"""`gamps next`: continue after a deployment."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from gamps import evaluation
from gamps._utils import console
from gamps.cli import progress
from gamps.cli.evaluate import STATUS, show_verdict
from gamps.cli.strangers import say_imports
from gamps.errors import SettingError
from gamps.runs.certificate import withdraw
from gamps.runs.open_run import open_run
from gamps.runs.rounds import Round, history_of, measured, next_round

ROLLED_BACK = 5  # exit status


def next_(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    log: str,
    out: Path,
    dataset: str,
    assume: evaluation.Assumption = "nothing",
    error: float = 0.05,
) -> None:
    """Continue after a deployment: judge the deployed policy by its log, learn, certify again.

    First the deployed policy is compared with the one it replaced, each by the episodes it logged
    itself. If it earns less, the certificate is withdrawn (exit status 5: roll back). Otherwise a
    new policy is learned from the logs of all rounds, starting from the deployed one. Half of the
    new log, which training never saw, judges it against the deployed one. Episodes that judged an
    earlier round are used only to learn from. Exit status: 0 deploy, 3 not shown to be better, 4
    worse.

    Round k spends the error E / (k (k + 1)). Over all rounds that adds up to E: the chance of ever
    deploying a worse policy. A first round judged by gamps evaluate adds the error it was given.

    Example: gamps next runs/tanks --log tanks/june-v0 --out runs/tanks2 --dataset tanks/all-v0

    Args:
      run: run folder of the round before; its certified policy is the one that was deployed.
      log: dataset that the deployed policy logged, with its noise.
      out: run folder of the new round.
      dataset: name of the dataset to write, which holds the logs of all rounds.
      assume: markov, if observations are Markov; see gamps evaluate.
      error: chance of ever deploying a worse policy, over all rounds.
    """
    check_error(error)
    say_imports(run)
    gain = measured(run, log)
    if gain is not None:
        say = f"the deployed policy earns {gain.gain:+.4g} ± {gain.error:.2g} more than the one"
        console.say(f"{say} before, each measured by its own episodes")
    if gain is not None and gain.harm:
        withdraw(run)
        console.say("roll back: the policy does harm. Its certificate is withdrawn", "bold red")
        sys.exit(ROLLED_BACK)
    with progress.shown(open_run(run).total) as show:
        show.doing("joining the logs and training on them")
        found = next_round(
            run, log, out, dataset, error=error, assume=assume,
            callback=lambda i, metrics, _: show(i, metrics),
        )  # fmt: skip
    show_verdict(out, found, details=False)
    past = history_of(out)
    show_rounds(past)
    spent = sum(one.error for one in past)
    console.say(
        f"chance that any of {len(past)} rounds deployed a worse policy: at most {spent:.3f}"
    )
    console.say(f"written: {out}")
    sys.exit(STATUS[found.evaluation.verdict.word])


def check_error(error: float) -> None:
    """Refuse an error that is not between 0 and 0.5."""
    if not 0 < error < 0.5:
        raise SettingError("error", f"{error}", "Choose a number between 0 and 0.5")


def show_rounds(past: list[Round]) -> None:
    """Print a table of the rounds."""
    table = console.rich_table(
        "rounds",
        ["round", "in charge earned", "verdict", "improvement", "at least", "models promised"],
        caption="Discounted returns. Earned: in the episodes that the policy in charge logged.",
    )
    for number, one in enumerate(past, 1):
        promise = "" if one.promise is None else f"{one.promise:.4g}"
        earned = f"{one.earned:.4g} ± {one.earned_error:.2g}"
        gain = f"{one.estimate:.4g}", f"{one.low:.4g}"
        table.add_row(f"{number}", earned, one.word, *gain, promise)
    console.say(table)
