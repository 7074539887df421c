"""From one deployment to the next: judge what was deployed, learn from all logs, certify again.

history.json in a run folder holds one entry a round, the first first. A further round is judged by
fresh episodes of the policy that is in charge; those that judged before are learned from. Its error
is α / (k (k + 1)) in round k, whose sum over all rounds is α: the chance that a worse policy is
*ever* deployed is at most that, however many rounds follow and whenever one stops. A campaign knows
how many there are, and shares α equally among them.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gamps import datasets, evaluation
from gamps._utils import atomic_io
from gamps._utils.console import silent
from gamps.errors import CertificateError, OutputError, RunError, SettingError
from gamps.evaluation.duel import Measured, compared
from gamps.evaluation.estimates import made
from gamps.policies import Policy
from gamps.runs.certificate import certified, judgements, sha256_of
from gamps.runs.evaluate_run import RunEvaluation, evaluate_run
from gamps.runs.loop import Callback
from gamps.runs.open_run import OpenRun, open_run
from gamps.runs.start import start
from gamps.trajectories import Trajectories

HISTORY = "history.json"


class Round(NamedTuple):
    """One deployment.

    Attributes:
      run: folder of the training.
      log: that it learned from and was judged by.
      word: the verdict.
      error: that it was judged with.
      low: lower bound of the improvement over what was in charge.
      estimate: the improvement itself.
      earned: mean discounted return of the policy in charge, by its own episodes of this log.
      earned_error: standard error of that.
      promise: what the models promised of the learned policy, judged by nobody; None if nothing.
    """

    run: str
    log: str
    word: str
    error: float
    low: float
    estimate: float
    earned: float
    earned_error: float
    promise: float | None = None


def error_of(number: int, error: float = 0.05, rounds: int | None = None) -> float:
    """What round `number`, counted from one, may spend of an error.

    Equal shares, if it is known how many rounds there are.

    Examples:
      >>> [round(error_of(k), 4) for k in (1, 2, 3)]
      [0.025, 0.0083, 0.0042]
      >>> error_of(3, 0.05, rounds=5)
      0.01
    """
    return error / (number * (number + 1) if rounds is None else rounds)


def history_of(run: Path) -> list[Round]:
    """The rounds up to a run; none of a run that `gamps evaluate` alone has judged.

    Raises:
      CertificateError: if the record cannot be read.
    """
    path = run / HISTORY
    if not path.exists():
        return []
    try:
        return [Round(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        fix = "Bring it back: without it nobody knows what was spent"
        raise CertificateError(f"{path}", f"cannot be read ({error})", fix) from error


def in_charge(folder: Path) -> Policy:
    """What acts after a run: the certified policy, or without a certificate who acted before."""
    run = open_run(folder)
    return run.ends.behaviour if (policy := _certified(run, folder)) is None else policy


def was_deployed(folder: Path) -> Policy | None:
    """The policy that a run's verdict deployed, though it may have been rolled back since."""
    run = open_run(folder)
    policy = _certified(run, folder)
    return _certified(run, folder, withdrawn=True) if policy is None else policy


def _certified(run: OpenRun, folder: Path, *, withdrawn: bool = False) -> Policy | None:
    try:
        return certified(folder, run.ends, withdrawn=withdrawn)[0]
    except CertificateError:
        return None


def first_round(
    folder: Path,
    *,
    error: float = 0.05,
    rounds: int | None = None,
    assume: evaluation.Assumption = "nothing",
) -> RunEvaluation:
    """Judge a finished training as the first of several rounds."""
    return _judged(folder, [], error_of(1, error, rounds), assume)


def next_round(
    before: Path,
    log: str,
    out: Path,
    dataset: str,
    *,
    error: float = 0.05,
    rounds: int | None = None,
    assume: evaluation.Assumption = "nothing",
    callback: Callback = silent,
) -> RunEvaluation:
    """Learn from the logs of all rounds, and judge what comes out by half of the newest.

    The other half chooses the rungs: with a fifth in its place hardly one was found.

    What was done before is not done again: a call that was killed goes on where it stood.

    Args:
      before: run folder of the round before.
      log: dataset that the policy in charge since then has logged.
      out: run folder of this round.
      dataset: name of the dataset that holds all logs.
      error: chance of ever deploying a worse policy, over all rounds.
      rounds: how many there are going to be, if that is known.
      assume: as for `evaluate_run`.
      callback: called once an iteration.

    Raises:
      SettingError: if the log is not of the policy that is in charge, or the run was streamed.
    """
    opened = open_run(before)
    if opened.spec.stream:
        problem = f"{before} was streamed: logs of several rounds are held in memory"
        raise SettingError("run", problem, "Train without stream, or on a part of the log")
    deployed = _certified(opened, before)
    policy = opened.ends.behaviour if deployed is None else deployed
    new = _log_of(policy, log, before)
    past = _past(before, opened)
    name = "" if deployed is None else f"round {len(past) + 1}"
    _keep(dataset, datasets.pooled(opened.data, new, name), policy)
    spec = replace(opened.spec, log=dataset, policy="behaviour")
    run = start(spec, out, again=True)
    run.train(callback=callback)
    return _judged(out, past, error_of(len(past) + 1, error, rounds), assume)


def measured(before: Path, log: str, *, confidence: float = 0.95) -> Measured | None:
    """Judge what was deployed by its own log; None if nothing was.

    Args:
      before: run folder whose policy was deployed.
      log: that it has made.
      confidence: of the test for harm, one-sided.

    Raises:
      SettingError: if the log is not of the policy that was deployed.
    """
    policy = was_deployed(before)
    if policy is None:
        return None
    opened, new = open_run(before), _log_of(policy, log, before)
    discount = float(opened.task.discount)
    old = returns_of(datasets.of_newest(opened.data), discount)
    return compared(returns_of(new.trajectories, discount), old, confidence)


def returns_of(log: Trajectories, discount: float) -> np.ndarray:
    """Discounted, one an episode."""
    rewards = np.where(np.asarray(log.mask), np.asarray(log.rewards, np.float64), 0.0)
    return np.asarray(rewards @ discount ** np.arange(log.n_steps))


def _log_of(policy: Policy, log: str, before: Path) -> datasets.Dataset:
    """A log, if a policy made it."""
    data = datasets.load(log)
    if not made(policy, data.trajectories):
        problem = f"{log} was not made by the policy that {before} hands out"
        fix = "Log it as it was certified, with its noise (gamps export, gamps play)"
        raise SettingError("log", problem, fix)
    return data


def _keep(name: str, data: datasets.Dataset, policy: Policy) -> None:
    """Write the logs of all rounds, unless a call that was killed has done it."""
    folder = datasets.folder_of(name)
    if not folder.exists():
        datasets.save(name, data.trajectories, policy, discount=data.discount, labels=data.labels)
    elif sha256_of(datasets.load(name).trajectories) != sha256_of(data.trajectories):
        raise OutputError(f"{folder}: holds another log. Choose another dataset")


def _past(before: Path, opened: OpenRun) -> list[Round]:
    """The rounds so far; a first run that `gamps evaluate` judged counts as one.

    Whatever else has judged the last run since has spent error too.
    """
    past, said = history_of(before), judgements(before)
    if not said:
        raise RunError(f"{before}: nobody has judged it. Run gamps evaluate {before} first")
    spent = sum((1 - one["question"]["confidence"]) / 2 ** (one["number"] - 1) for one in said)
    gain = said[-1]["improvement"]
    last = _round(before, opened, said[-1]["word"], spent, gain["low"], gain["estimate"])
    return [*past[:-1], last]


def _judged(
    folder: Path, past: list[Round], error: float, assume: evaluation.Assumption
) -> RunEvaluation:
    found = evaluate_run(folder, assume=assume, confidence=1 - error)
    verdict, gain = found.evaluation.verdict, found.evaluation.verdict.improvement
    now = _round(folder, open_run(folder), verdict.word, error, gain.low, gain.estimate)
    content = json.dumps([one._asdict() for one in [*past, now]], indent=1) + "\n"
    atomic_io.write_file(folder / HISTORY, content.encode())
    return found


def _round(
    folder: Path, opened: OpenRun, word: str, error: float, low: float, estimate: float
) -> Round:
    own = returns_of(datasets.of_newest(opened.data), float(opened.task.discount))
    deviation = float(own.std(ddof=1) / np.sqrt(len(own)))
    run: Any = opened.progress.run
    return Round(
        f"{folder}", opened.spec.log, word, error, float(low), float(estimate),
        float(own.mean()), deviation, run.best_promise,
    )  # fmt: skip
