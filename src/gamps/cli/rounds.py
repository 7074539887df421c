"""`gamps next` and `gamps campaign`: go on after a deployment."""

import sys
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import tyro

from gamps import datasets, evaluation
from gamps._utils import console
from gamps._utils.worker_pool import cores
from gamps.cli import progress
from gamps.cli.collect import first_policy
from gamps.cli.evaluate import STATUS, show_verdict
from gamps.cli.strangers import say_imports
from gamps.errors import SettingError
from gamps.policies import Policy
from gamps.runs.campaign import CampaignSpec, Played
from gamps.runs.campaign import campaign as play_campaign
from gamps.runs.certificate import withdraw
from gamps.runs.open_run import open_run
from gamps.runs.rounds import Round, history_of, measured, next_round
from gamps.trajectories import Trajectories

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
    """Go on after a deployment: judge the deployed policy by its own log, learn, certify again.

    First the deployed policy is compared with the one it replaced, each by the episodes it logged
    itself. If it earns less, the certificate is withdrawn (exit status 5: roll back). Otherwise a
    new policy is learned from the logs of all rounds, starting at the deployed one. Half of the
    new log, which nothing was learned from, judges it against the deployed one. Episodes that
    judged an earlier round are only learned from. Exit status: 0 deploy, 3 not shown to be better,
    4 worse.

    Round k spends the error E / (k (k + 1)). Over all rounds that adds up to E: the chance of ever
    deploying a worse policy. A first round judged by gamps evaluate adds the error it was given.

    Example: gamps next runs/tanks --log tanks/june-v0 --out runs/tanks2 --dataset tanks/all-v0

    Args:
      run: run folder of the round before; its certified policy is the one that was deployed.
      log: dataset that the deployed policy logged, with its noise.
      out: run folder of the new round.
      dataset: name of the dataset to write, which holds the logs of all rounds.
      assume: markov, if each observation decides what comes next; see gamps evaluate.
      error: chance of ever deploying a worse policy, over all rounds.
    """
    _check_error(error)
    say_imports(run)
    gain = measured(run, log)
    if gain is not None:
        say = f"the deployed policy earns {gain.gain:+.4g} ± {gain.error:.2g} more than the one"
        console.say(f"{say} before, each by its own episodes")
    if gain is not None and gain.harm:
        withdraw(run)
        console.say("roll back: it does harm. Its certificate is withdrawn", "bold red")
        sys.exit(ROLLED_BACK)
    with progress.shown(open_run(run).total) as show:
        found = next_round(
            run, log, out, dataset, error=error, assume=assume,
            callback=lambda i, metrics, _: show(i, metrics),
        )  # fmt: skip
    show_verdict(out, found, details=False)
    past = history_of(out)
    _table(past)
    spent = sum(one.error for one in past)
    console.say(
        f"chance that any of {len(past)} rounds deployed a worse policy: at most {spent:.3f}"
    )
    console.say(f"written: {out}")
    sys.exit(STATUS[found.evaluation.verdict.word])


def campaign(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    /,
    *,
    out: Path,
    task: str = "",
    policy: str = "random",
    std: float = 0.5,
    rounds: int = 5,
    episodes: int = 50,
    steps: int | None = None,
    discount: float = 0.99,
    assume: evaluation.Assumption = "nothing",
    error: float = 0.05,
    iterations: int = 80,
    seed: int = 0,
    workers: int = cores(),
) -> None:
    """Improve a controller round by round: log, learn, certify, deploy, and log again.

    Nothing runs in the environment that was not certified by the logs before it. A certified policy
    keeps its noise, which the next round learns from. A policy that turns out to do harm is rolled
    back. If the process dies, the same command goes on to the same decisions.

    Example: gamps campaign InvertedPendulum-v5 --task gamps.envs.pendulum:task --rounds 4
    --episodes 50 --out runs/pendulum

    Args:
      env: an id of Gymnasium; MuJoCo's need pip install "gamps[mujoco]".
      out: folder of the campaign; each round is a run folder in it.
      task: module:object, a gamps.Task; without it reward and termination are estimated.
      policy: the first controller: random; module:object; or a file written by describe.
      std: of each action of the random policy.
      rounds: how often to learn.
      episodes: to log in each round.
      steps: cut episodes off after so many; by default where the environment does.
      discount: of returns.
      assume: markov, if each observation decides what comes next; see gamps evaluate.
      error: chance of ever deploying a worse policy, over all rounds.
      iterations: policy steps of each training.
      seed: of everything random.
      workers: processes to simulate in.
    """
    _check_error(error)
    if rounds < 1 or episodes < 10:
        name, value, least = ("rounds", rounds, 1) if rounds < 1 else ("episodes", episodes, 10)
        raise SettingError(name, f"{value}", f"Choose at least {least}")
    first = first_policy(policy, env, std)
    name = "".join(c if c.isalnum() else "-" for c in out.name.lower())
    plant = f"{env}, {episodes} episodes of {steps or 'all'} steps, {policy}, {std}"
    spec = CampaignSpec(name, task, rounds, discount, error, assume, iterations, seed, plant)

    def collect(acting: Policy, key: jax.Array) -> Trajectories:
        return datasets.collect(env, acting, key, n=episodes, steps=steps, workers=workers)

    found = play_campaign(spec, out, first, collect, say=console.say)
    _table(found.rounds)
    _say_campaign(found, error)
    console.say(f"written: {out}")


def _check_error(error: float) -> None:
    if not 0 < error < 0.5:
        raise SettingError("error", f"{error}", "Choose it between 0 and 0.5")


def _table(past: list[Round]) -> None:
    table = console.rich_table(
        "rounds",
        ["round", "in charge earned", "verdict", "improvement", "at least", "models promised"],
        caption="Discounted returns. Earned: by the episodes that the policy in charge logged.",
    )
    for number, one in enumerate(past, 1):
        promise = "" if one.promise is None else f"{one.promise:.4g}"
        earned = f"{one.earned:.4g} ± {one.earned_error:.2g}"
        table.add_row(
            f"{number}", earned, one.word, f"{one.estimate:.4g}", f"{one.low:.4g}", promise
        )
    console.say(table)


def _say_campaign(found: Played, error: float) -> None:
    deployed = sum(one.word == evaluation.DEPLOY for one in found.rounds)
    harm = sum(one.harm for one in found.measured)
    gains = np.array([one.gain for one in found.measured])
    console.say(
        f"{deployed} policies deployed in {len(found.rounds)} rounds, {harm} rolled back; the "
        f"chance that any of them was worse is at most {error:g}"
    )
    if len(gains):
        console.say(f"measured after deployment: {', '.join(f'{gain:+.4g}' for gain in gains)}")
