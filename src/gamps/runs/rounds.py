"""From one deployment to the next: judge the deployed policy, learn from all logs, certify again.

history.json in a run folder holds one entry per round, the first round first; next.json names the
run that continues it. Each further round is judged by fresh episodes of the policy in charge;
episodes that have judged before are learned from. Round k has the error α / (k (k + 1)). These sum
to α over all rounds, so the chance that a worse policy is *ever* deployed is at most α, however
many rounds follow and whenever one stops. A campaign knows its number of rounds, and shares α
equally among them.
"""

import contextlib
import json
import os
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
from gamps.runs.certificate import WITHDRAWN, certified, judgements, sha256_of
from gamps.runs.evaluate_run import RunEvaluation, evaluate_run
from gamps.runs.loop import Callback
from gamps.runs.open_run import OpenRun, open_run, own_episodes, unseen
from gamps.runs.start import start
from gamps.trajectories import returns_of, step_limit

HISTORY, NEXT = "history.json", "next.json"


class Round(NamedTuple):
    """One round.

    Attributes:
      run: run folder of the training.
      log: log that it learned from and was judged by.
      word: the verdict.
      error: error that it was judged with.
      low: lower bound of the improvement over the policy in charge.
      estimate: estimate of that improvement.
      earned: mean discounted return of the policy in charge, in its own episodes of this log.
      earned_error: standard error of `earned`.
      promise: what the models promised for the learned policy, not judged; None if nothing.
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
    """Return the share of an error that round `number`, counted from one, may spend.

    The shares are equal if the number of rounds is known.

    Examples:
      >>> [round(error_of(k), 4) for k in (1, 2, 3)]
      [0.025, 0.0083, 0.0042]
      >>> error_of(3, 0.05, rounds=5)
      0.01
    """
    return error / (number * (number + 1) if rounds is None else rounds)


def history_of(run: Path) -> list[Round]:
    """Return the rounds up to a run; none if only `gamps evaluate` has judged it.

    Raises:
      CertificateError: if the record cannot be read.
    """
    path = run / HISTORY
    if not path.exists():
        return []
    try:
        return [Round(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        fix = "Restore it: without it the error spent so far is unknown"
        raise CertificateError(f"{path}", f"cannot be read ({error})", fix) from error


def in_charge(folder: Path) -> Policy:
    """Return the policy in charge after a run: the certified one, or else the one before it."""
    run = open_run(folder)
    return run.ends.behaviour if (policy := _certified(run, folder)) is None else policy


def was_deployed(folder: Path) -> Policy | None:
    """Return the policy that a run's verdict deployed, even if it was rolled back since."""
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
    """Learn from the logs of all rounds, and judge the result by half of the newest log.

    The other half chooses the rungs: with a fifth instead, hardly any rung was found.

    Finished work is not repeated: after being killed, the same call continues where it stopped.

    Args:
      before: run folder of the round before.
      log: dataset that the policy in charge since then has logged.
      out: run folder of this round.
      dataset: name of the dataset that holds all logs.
      error: chance of ever deploying a worse policy, over all rounds.
      rounds: number of rounds, if it is known.
      assume: as for `evaluate_run`.
      callback: called once per iteration.

    Raises:
      SettingError: if the policy in charge did not make the log, or the run was streamed.
    """
    opened = open_run(before)
    if opened.spec.stream:
        problem = f"{before} was streamed, but logs of several rounds must fit in memory"
        raise SettingError("run", problem, "Train without stream, or on a part of the log")
    deployed = _certified(opened, before)
    policy = opened.ends.behaviour if deployed is None else deployed
    # Where a fit stands in for the controller, nothing tells whether it made the new log.
    fitted = deployed is None and not made(policy, datasets.of_newest(opened.data))
    new = datasets.load(log) if fitted else _log_of(policy, log, before)
    count, n = len(unseen(new.trajectories, own_episodes(opened))), new.trajectories.n_trajectories
    if count < n:
        problem = f"only {count} of {n} episodes of {log} are new to the run"
        raise SettingError("log", problem, "Give only what was logged since")
    past = _past(before, opened)
    _continue(before, out)
    name = "" if deployed is None else f"round {len(past) + 1}"
    _keep(dataset, datasets.pooled(opened.data, new, name), None if fitted else policy)
    spec = replace(opened.spec, log=dataset, policy="behaviour")
    run = start(spec, out, again=True)
    run.train(callback=callback)
    return _judged(out, past, error_of(len(past) + 1, error, rounds), assume)


def measured(before: Path, log: str, *, confidence: float = 0.95) -> Measured | None:
    """Judge the deployed policy by its own log; None if none was deployed, or it is rolled back.

    Args:
      before: run folder whose policy was deployed.
      log: log that it has made.
      confidence: confidence of the one-sided test for harm.

    Raises:
      SettingError: if the deployed policy did not make the log, or its episodes were cut off after
        another number of steps.
    """
    policy = was_deployed(before)
    if policy is None:
        return None
    if (before / WITHDRAWN).exists() and made(in_charge(before), datasets.load(log).trajectories):
        return None  # it was rolled back, and this log is of the policy before it
    opened, new = open_run(before), _log_of(policy, log, before)
    parts = new.trajectories, datasets.of_newest(opened.data)
    longest = [int(part.lengths.max()) for part in parts]
    if min(longest) in map(step_limit, parts) and longest[0] != longest[1]:
        problem = f"episodes of up to {longest[0]} steps, {opened.spec.log} up to {longest[1]}"
        raise SettingError("log", problem, "Cut both off alike: their returns are compared")
    fresh, old = (returns_of(part, float(opened.task.discount)) for part in parts)
    return compared(fresh, old, confidence)


def _log_of(policy: Policy, log: str, before: Path) -> datasets.Dataset:
    """Load a log, and refuse it if the policy did not make it."""
    data = datasets.load(log)
    if not made(policy, data.trajectories):
        problem = f"{log} was not made by the policy that {before} hands out"
        fix = "Log that policy with the noise it was certified with (gamps export, gamps play)"
        raise SettingError("log", problem, fix)
    return data


def _keep(name: str, data: datasets.Dataset, policy: Policy | None) -> None:
    """Write the logs of all rounds, unless an earlier, killed call has done so."""
    folder = datasets.folder_of(name)
    if not folder.exists():
        datasets.save(
            name, data.trajectories, policy, discount=data.discount, labels=data.labels,
            limits=data.limits,
            densities="estimated" if data.densities == "estimated" else "known",
        )  # fmt: skip
    elif sha256_of(datasets.load(name).trajectories) != sha256_of(data.trajectories):
        raise OutputError(f"{folder}: holds another log. Choose another dataset")


def _continue(before: Path, out: Path) -> None:
    """Record what continues a run: a second continuation would spend its round's error again."""
    path, following = before / NEXT, os.path.relpath(out, before)
    if not path.exists():
        atomic_io.write_file(path, (json.dumps({"run": following}) + "\n").encode())
    elif (known := json.loads(path.read_text(encoding="utf-8"))["run"]) != following:
        fix = f"Continue from there; if nobody has used its verdict, you may delete {path}"
        raise SettingError("out", f"{before} was continued by {before / known}", fix)


def _past(before: Path, opened: OpenRun) -> list[Round]:
    """Return the rounds so far; a first run that `gamps evaluate` judged counts as one.

    Any other judgement of the last run has spent error too.
    """
    past, said = history_of(before), judgements(before)
    if not said:
        raise RunError(f"{before}: nobody has judged it. Run gamps evaluate {before} first")
    spent = sum((1 - one["question"]["confidence"]) / 2 ** (one["number"] - 1) for one in said)
    answer = said[-1]
    for withdrawn in (True, False):  # what was deployed may not be what was judged last
        with contextlib.suppress(CertificateError):
            answer = certified(before, opened.ends, withdrawn=withdrawn)[1]
    gain = answer["improvement"]
    last = _round(before, opened, answer["word"], spent, gain["low"], gain["estimate"])
    return [*past[:-1], last]


def _judged(
    folder: Path, past: list[Round], error: float, assume: evaluation.Assumption
) -> RunEvaluation:
    found = evaluate_run(folder, assume=assume, confidence=1 - error)
    verdict, gain = found.evaluation.verdict, found.evaluation.verdict.improvement
    now = _round(folder, open_run(folder), verdict.word, found.spent, gain.low, gain.estimate)
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
