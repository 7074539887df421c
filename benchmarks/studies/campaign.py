"""Campaigns in rounds, by the functions of `gamps campaign`: what was deployed, and its worth.

    python -m benchmarks.studies.campaign FOLDER --problems minigolf --campaigns 10

Kept in FOLDER: the campaigns themselves, and campaign.json, all that were asked for together. A
campaign that is there is not run again.
Returns are discounted, by fresh episodes that no campaign saw.
"""

import json
import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import tyro

from gamps import datasets, evaluation
from gamps.envs import Minigolf, minigolf, tanks
from gamps.policies import Policy
from gamps.runs.campaign import CampaignSpec, campaign
from gamps.runs.rounds import returns_of


class Problem(NamedTuple):
    """A plant with its first controller.

    Attributes:
      env: functional.
      policy: the first controller.
      task: named as commands want it.
      steps: of an episode.
      rounds: of a campaign.
      episodes: of a round.
    """

    env: Any
    policy: Policy
    task: str
    steps: int
    rounds: int
    episodes: int


def problems() -> dict[str, Problem]:
    """By name."""
    golf = Minigolf()
    return {
        "minigolf": Problem(
            golf, golf.policy(), "gamps.envs.minigolf:task", minigolf.HORIZON, 5, 200
        ),
        "tanks": Problem(
            tanks.TwoTanks(), tanks.policy(), "gamps.envs.tanks:task", tanks.HORIZON, 5, 100
        ),
    }


def truth(problem: Problem, policy: Policy, discount: float) -> tuple[float, float]:
    """Mean discounted return by fresh episodes, and its standard error."""
    log = datasets.collect(
        problem.env, policy, jax.random.key(10**6), n=20_000, steps=problem.steps
    )
    returns = returns_of(log, discount)
    return float(returns.mean()), float(returns.std() / np.sqrt(len(returns)))


def play(name: str, seed: int, folder: Path, assume: evaluation.Assumption) -> dict[str, Any]:
    """One campaign, and the truth about it."""
    problem = problems()[name]
    spec = CampaignSpec(
        f"{name}-{assume}-{seed}",
        problem.task,
        problem.rounds,
        assume=assume,
        seed=seed,
    )

    def collect(policy: Policy, key: Any) -> Any:
        return datasets.collect(problem.env, policy, key, n=problem.episodes, steps=problem.steps)

    found = campaign(spec, folder / spec.name, problem.policy, collect, say=print)
    worth = [truth(problem, policy, spec.discount) for policy in found.deployed]
    return {
        "problem": name,
        "seed": seed,
        "assume": assume,
        "rounds": [one._asdict() | {"run": "", "log": ""} for one in found.rounds],
        "measured": [one._asdict() for one in found.measured],
        "worth": [value for value, _ in worth],
        "worth_error": [error for _, error in worth],
    }


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    problems: tuple[str, ...] = ("minigolf",),
    campaigns: int = 10,
    first: int = 0,
    assume: tuple[evaluation.Assumption, ...] = ("nothing",),
) -> None:
    """Seeds from `first` on."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MINARI_DATASETS_PATH", str(folder / "minari"))
    found: list[dict[str, Any]] = []
    for name in problems:
        for how in assume:
            rows = []
            for seed in range(first, first + campaigns):
                path = folder / f"{name}-{how}-{seed}.json"
                if not path.exists():
                    path.write_text(json.dumps(play(name, seed, folder, how), indent=1) + "\n")
                rows.append(json.loads(path.read_text()))
            found += rows
            values = np.array([row["worth"] for row in rows])
            print(name, how, "mean by round", values.mean(axis=0).round(2).tolist())
            print("  last", values[:, -1].round(2).tolist())
    (folder / "campaign.json").write_text(json.dumps({"results": found}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
