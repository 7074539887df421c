"""`gamps campaign`: log, learn and deploy in rounds, against an environment."""

import math
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from gamps import datasets, evaluation
from gamps._utils import console
from gamps._utils.worker_pool import cores
from gamps.cli.collect import first_policy
from gamps.cli.rounds import check_error, show_rounds
from gamps.deployment import write
from gamps.errors import SettingError
from gamps.policies import Policy
from gamps.report.campaign import unseen_failures
from gamps.runs.campaign import CampaignSpec, Mode, Played
from gamps.runs.campaign import campaign as play_campaign
from gamps.runs.resolve import task_of
from gamps.runs.trials import LOOKS, Tried, Tries, try_in_rounds
from gamps.trajectories import Trajectories


def campaign(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    /,
    *,
    out: Path,
    task: str = "",
    policy: str = "random",
    std: float = 0.5,
    mode: Mode = "certified",
    share: float = 0.5,
    features: str = "",
    rounds: int = 5,
    episodes: int = 50,
    steps: int | None = None,
    discount: float | None = None,
    assume: evaluation.Assumption = "nothing",
    error: float = 0.05,
    iterations: int = 80,
    seed: int = 0,
    workers: int = cores(),
) -> None:
    """Improve a controller round by round: log, learn, deploy, and log again.

    --mode certified: a new policy runs in the environment only if the logs before it certify it.
    A certified policy keeps its noise, which the next round learns from. A policy that turns out to
    do harm is rolled back.

    --mode trials: a share of the episodes may try candidates. Models of all logs choose them, each
    one draw of the policy's parameters. The best challenges the policy in charge, and replaces it
    only if fresh episodes of both show that it earns more. Use it if episodes are so long that a
    log says little about any other policy, and if a bad episode does no further damage.

    If the process dies, repeat the command: it continues and reaches the same decisions.
    gamps report FOLDER shows what happened.

    Example: gamps campaign InvertedPendulum-v5 --task gamps.envs.pendulum:task --rounds 4
    --episodes 50 --out runs/pendulum

    Args:
      env: id of a Gymnasium environment; MuJoCo's need pip install "gamps[mujoco]".
      out: campaign folder; each round is a run folder in it.
      task: module:object, a gamps.Task; without it, reward and termination are estimated.
      policy: the first controller: random, module:object, or a policy's JSON description.
      std: standard deviation of each action of the random policy.
      mode: certified or trials.
      share: share of the episodes that trials may use.
      features: module:function of (observation, action), the models' input; see gamps train.
      rounds: number of rounds, each of which learns once.
      episodes: number of episodes to log in each round.
      steps: cut episodes off after this many steps; by default where the environment does.
      discount: discount factor of the returns; by default the task's, or 0.99.
      assume: markov, if observations are Markov; see gamps evaluate.
      error: chance of ever deploying a worse policy, over all rounds.
      iterations: number of policy steps in each training.
      seed: random seed.
      workers: number of processes that simulate.
    """
    check_error(error)
    for name, value, bound in (("rounds", rounds, 1), ("episodes", episodes, 10)):
        if value < bound:
            raise SettingError(name, f"{value}", f"Choose at least {bound}")
    if mode == "trials":
        _check_duels(share, rounds, episodes, error)
    first, limits = first_policy(policy, env, std), datasets.action_limits(env)
    discount = _discount(discount, task, mode)
    name = "".join(c if c.isalnum() else "-" for c in out.name.lower())
    spec = CampaignSpec(
        name, task, rounds, episodes, discount, error, assume, iterations, seed, mode, share,
        features, plant=f"{env}, {steps or 'all'} steps, {policy}, {std}",
    )  # fmt: skip

    def collect(acting: Policy, key: jax.Array, n: int) -> Trajectories:
        return datasets.collect(env, acting, key, n=n, steps=steps, workers=min(workers, n))

    with console.bar("campaign", rounds * (2 if mode == "trials" else 3)) as advance:

        def say(line: str) -> None:
            console.say(line)
            advance(line)

        if mode == "trials":
            _finish_trials(
                try_in_rounds(spec, out, first, collect, limits=limits, say=say), spec, out
            )
        else:
            found = play_campaign(spec, out, first, collect, limits=limits, say=say)
            show_rounds(found.rounds)
            _say_campaign(found, error)
    console.say(f"written: {out}")


def _discount(asked: float | None, task: str, mode: Mode) -> float:
    """Return what discounts the returns; a certified campaign judges by the task, as it is."""
    known = float(task_of(task).discount) if task else 0.99
    if asked is None or np.isclose(asked, known):
        return known
    if task and mode == "certified":
        raise SettingError("discount", f"{asked:g}, the task's {known:g}", "Change it in the task")
    return asked


def _check_duels(share: float, rounds: int, episodes: int, error: float) -> None:
    """Refuse duels with too few episodes for anyone to win."""
    if not 0 < share < 1:
        raise SettingError("share", f"{share}", "Choose a number between 0 and 1")
    each = (episodes - round(share * episodes)) // 2
    if 1 / math.comb(2 * each, each) > error / rounds / LOOKS:
        problem = f"{share} leaves {each} episodes for each side of a duel"
        raise SettingError("share", problem, "Too few to show anything: log more, or try less")


def _finish_trials(found: Tries, spec: CampaignSpec, out: Path) -> None:
    """Print the table and the cost; export the policies in charge at the start and the end."""
    table = console.rich_table(
        "rounds",
        ["round", "in charge earned", "candidates earned", "challenger earned", ""],
        caption=f"Returns, discounted by {spec.discount:g}. Candidates: mean and best of a round.",
    )
    for number, one in enumerate(found.rounds, 1):
        table.add_row(f"{number}", *_cells(one))
    console.say(table)
    cost = sum(one.cost for one in found.rounds)
    tried = sum(len(one.earned) for one in found.rounds)
    console.say(
        f"{tried} trials earned {cost:.4g} less in total than the policy in charge would have; the "
        f"chance that a policy that is no better ever replaced it is at most {spec.error:g}"
        f"{unseen_failures(found.rounds)}"
    )
    handed = [one for one in found.rounds if one.took_over]
    notes: dict[str, Any] = {"first": {"certificate": None}}
    if handed:
        evidence = {"challenger": handed[-1].of_challenger, "before": handed[-1].of_incumbent}
        certificate = {"word": evaluation.DEPLOY, "by": "its own episodes", **evidence}
        notes["policy"] = {"certificate": certificate}
    for name, policy in (("first", found.deployed[0]), ("policy", found.deployed[-1])):
        if name in notes and not (out / name).exists():
            write.export(policy, found.logs[-1], out / name, notes=notes[name])
            console.say(f"written: {out / name}; run it with gamps play")


def _cells(one: Tried) -> list[str]:
    def mean(values: list[float]) -> str:
        if not values:
            return ""
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        return f"{np.mean(values):.4g} ± {error:.2g}"

    word = "" if one.challenger is None else "not shown to be better"
    word = "takes over" if one.took_over else word
    tried = f"{np.mean(one.earned):.4g}, {np.max(one.earned):.4g}"
    return [mean(one.of_incumbent), tried, mean(one.of_challenger), word]


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
