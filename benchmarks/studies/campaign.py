"""Campaigns in rounds, by the functions of `gamps campaign`: what was deployed, and its worth.

    python -m benchmarks.studies.campaign FOLDER --problems minigolf --campaigns 10
    python -m benchmarks.studies.campaign FOLDER --problems swimmer --ways models free

Ways: certified by logs, nothing assumed of observations or that they are Markov; or by trials, with
models or without any. Kept in FOLDER: the campaigns themselves, and campaign.json, all that it
holds together. A campaign that is there is not run again.
Worth: by fresh episodes that no campaign saw, as the policy acts and by its mean action.
"""

import json
import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro

from benchmarks.robots import known
from gamps import datasets
from gamps._utils import figures
from gamps.envs import Minigolf, minigolf, pendulum, swimmer, tanks
from gamps.policies import Gaussian, Policy
from gamps.runs.campaign import CampaignSpec, Mode, campaign
from gamps.runs.trials import try_in_rounds
from gamps.trajectories import returns_of

Way = Literal["nothing", "markov", "models", "free"]
LABELS: dict[Way, str] = {
    "nothing": "certified",
    "markov": "certified, Markov",
    "models": "trials, models",
    "free": "trials, no model",
}


class Problem(NamedTuple):
    """A plant with its first controller.

    Attributes:
      env: functional, or an id of Gymnasium.
      policy: the first controller.
      task: named as commands want it.
      steps: of an episode.
      rounds: of a campaign.
      episodes: of a round.
      fresh: episodes that tell the worth of a policy.
      discount: of returns.
      features: of the models, named as commands want them.
    """

    env: Any
    policy: Policy
    task: str
    steps: int
    rounds: int
    episodes: int
    fresh: int = 20_000
    discount: float = 0.99
    features: str = ""


def problem_of(name: str) -> Problem:
    """By name; the reactor and the four tanks need pcgym, benchmarks/process/requirements.txt."""
    task, robot = "gamps.envs.{}:task".format, "benchmarks.robots.known:{}".format
    match name:
        case "minigolf":
            golf = Minigolf()
            return Problem(golf, golf.policy(), task(name), minigolf.HORIZON, 5, 200)
        case "tanks":
            return Problem(tanks.TwoTanks(), tanks.policy(), task(name), tanks.HORIZON, 5, 100)
        case "pendulum":
            return Problem(pendulum.ID, pendulum.policy(), task(name), 1_000, 4, 50, 20)
        case "swimmer":
            clipped = "gamps.envs.swimmer:clipped"
            first = swimmer.policy()
            return Problem(swimmer.ID, first, task(name), 200, 8, 50, 20, 1.0, clipped)
        case "hopper":
            first, clipped = known.controller(name), robot("clipped")
            return Problem("Hopper-v5", first, robot(name), 1_000, 8, 50, 20, 1.0, clipped)
    from benchmarks.process import plants

    own = "benchmarks.process.plants:{}".format
    loop, first, plant = {
        "reactor": (plants.reactor, plants.reactor_pid(), plants.REACTOR),
        "four_tanks": (plants.four_tanks, plants.four_tanks_pid(), plants.FOUR_TANKS),
    }[name]
    clipped, known_task = own("clipped"), own(f"{name}_task")
    return Problem(loop, first, known_task, plant.steps, 5, 50, 200, plants.DISCOUNT, clipped)


def truth(problem: Problem, policy: Policy) -> tuple[float, float, float]:
    """Mean return by fresh episodes, its standard error, and the mean by the mean action."""
    acting = [policy]
    if isinstance(policy, Gaussian):
        least = jnp.full_like(policy.log_std, math.log(1e-6))
        acting.append(eqx.tree_at(lambda p: p.log_std, policy, least))
    returns = []
    for one in acting:
        log = datasets.collect(
            problem.env, one, jax.random.key(10**6), n=problem.fresh, steps=problem.steps
        )
        returns.append(returns_of(log, problem.discount))
    mean, spread = float(returns[0].mean()), float(returns[0].std())
    return mean, spread / math.sqrt(problem.fresh), float(returns[-1].mean())


def play(name: str, seed: int, folder: Path, way: Way) -> dict[str, Any]:
    """One campaign, and the truth about it."""
    problem = problem_of(name)
    mode: Mode = "trials" if way in ("models", "free") else "certified"
    spec = CampaignSpec(
        f"{name}-{way}-{seed}", problem.task, problem.rounds, problem.episodes, problem.discount,
        assume="markov" if way == "markov" else "nothing", seed=seed, mode=mode,
        features=problem.features,
    )  # fmt: skip

    def collect(policy: Policy, key: Any, n: int) -> Any:
        return datasets.collect(problem.env, policy, key, n=n, steps=problem.steps)

    place, first = folder / spec.name, problem.policy
    if mode == "trials":
        models = way == "models"
        tried = try_in_rounds(spec, place, first, collect, models=models, say=print)
        deployed, measured = tried.deployed, []
        rounds = [one._asdict() | {"trials": [], "cost": one.cost} for one in tried.rounds]
    else:
        found = campaign(spec, place, first, collect, say=print)
        deployed, measured = found.deployed, [one._asdict() for one in found.measured]
        rounds = [one._asdict() | {"run": "", "log": ""} for one in found.rounds]
    worth: dict[int, tuple[float, float, float]] = {}  # who stays in charge is judged once
    for policy in deployed:
        if id(policy) not in worth:
            worth[id(policy)] = truth(problem, policy)
    each = [worth[id(policy)] for policy in deployed]
    return {
        "problem": name,
        "seed": seed,
        "way": way,
        "rounds": rounds,
        "measured": measured,
        "worth": [value for value, _, _ in each],
        "worth_error": [error for _, error, _ in each],
        "worth_mean_action": [value for _, _, value in each],
    }


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    problems: tuple[str, ...] = ("minigolf",),
    campaigns: int = 10,
    first: int = 100,
    ways: tuple[Way, ...] = ("nothing",),
) -> None:
    """Seeds from `first` on."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MINARI_DATASETS_PATH", str(folder / "minari"))
    for name in problems:
        for way in ways:
            rows = []
            for seed in range(first, first + campaigns):
                path = folder / f"{name}-{way}-{seed}.json"
                if not path.exists():
                    path.write_text(json.dumps(play(name, seed, folder, way), indent=1) + "\n")
                    jax.clear_caches()  # or programs of ten campaigns fill a process's memory map
                rows.append(json.loads(path.read_text()))
            for what in ("worth", "worth_mean_action"):
                values = np.array([row[what] for row in rows])
                print(name, way, what, "mean by round", values.mean(axis=0).round(2).tolist())
                print("  last", values[:, -1].round(2).tolist(), flush=True)
    kept = sorted(folder.glob("*-*-*.json"), key=lambda path: path.name)
    found = [json.loads(path.read_text()) for path in kept]
    (folder / "campaign.json").write_text(json.dumps({"results": found}, indent=1) + "\n")
    _figure(found).savefig(folder / "campaign.png", dpi=120, bbox_inches="tight")


def _figure(found: list[dict[str, Any]]) -> Any:
    """Worth of the policy in charge, by round: each campaign, and their mean."""
    names = list(dict.fromkeys(row["problem"] for row in found))
    colours: dict[Way, str] = {
        "nothing": "#1d6fa5",
        "markov": "#2a9d5c",
        "models": "#c1121f",
        "free": "#8a6d3b",
    }
    figure, axes = figures.panels(1, len(names), width=3.4, height=2.9)
    for axis, name in zip(axes[0], names, strict=True):
        for way, colour in colours.items():
            rows = [r["worth"] for r in found if (r["problem"], r["way"]) == (name, way)]
            for row in rows:
                axis.plot(row, color=colour, alpha=0.35, linewidth=0.8)
            if rows:
                label = LABELS[way]
                axis.plot(np.mean(rows, axis=0), color=colour, linewidth=2.4, label=label)
        axis.set_title(name.replace("_", " "), fontsize=10)
        axis.set_xlabel("round")
        axis.legend(frameon=False, fontsize=8)
    axes[0, 0].set_ylabel("return of the policy in charge")
    return figure


if __name__ == "__main__":
    tyro.cli(main)
