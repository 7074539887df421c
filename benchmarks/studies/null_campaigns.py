"""Is a worse policy *ever* deployed in a campaign? Rounds of candidates that are no better."""

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from benchmarks.studies.false_deploys import limits, trial_of
from gamps import datasets
from gamps._utils import console, figures
from gamps.envs import Minigolf, minigolf
from gamps.evaluation import DEPLOY
from gamps.learner.trials import parameters_of
from gamps.paper.cells import fresh_folder, run_cells
from gamps.policies import Policy
from gamps.runs import trials
from gamps.runs.rounds import error_of
from gamps.trajectories import returns_of

NULLS = ("equal", "a hair worse", "sabotaged ladder", "equal, in trials", "a hair worse, in trials")
LOUDER = {"equal": 1.0, "a hair worse": 1.05}  # than the policy in charge: a challenger's noise
PART = 50  # campaigns of a kept cell


def null_campaigns(
    *,
    campaigns: int = 350,
    rounds: int = 5,
    episodes: int = 100,
    error: float = 0.05,
    out: Path = Path("runs/null-campaigns"),
    quick: bool = False,
    workers: int = 2,
    overwrite: bool = False,
) -> None:
    """How often a campaign of worthless candidates deploys one of them, in any of its rounds.

    Each round judges one candidate, or a ladder towards a sabotaged policy, by fresh episodes on a
    gridworld whose values are exact, with the error that `gamps next` gives that round. In trials
    a challenger meets the policy in charge on minigolf, in a quarter of the episodes each. One
    false deployment is enough to count the campaign.

    Example: python -m benchmarks.studies null-campaigns --quick

    Args:
      campaigns: for each kind of candidate.
      rounds: of a campaign.
      episodes: that judge a round.
      error: of a whole campaign.
      out: folder for null_campaigns.json and null_campaigns.png; finished cells are kept in it.
      quick: 50 campaigns of each kind.
      workers: processes.
      overwrite: replace an earlier result in the same folder.
    """
    campaigns = PART if quick else campaigns
    out = fresh_folder(out, "null_campaigns", overwrite=overwrite)
    cells = {
        f"{null.replace(' ', '-')}-{first}": dict(
            null=null, first=first, rounds=rounds, episodes=episodes, error=error
        )
        for null in NULLS
        for first in range(0, campaigns, PART)
    }
    with console.bar("null-campaigns", len(cells)) as advance:
        found = run_cells(cell, cells, out / "cells", workers=workers, advance=advance)
    table = console.rich_table(
        f"Campaigns of {rounds} rounds that ever deploy what is no better, error {error:g}",
        ["candidates", "campaigns", "deployed", "99 % limits"],
    )
    rows = {}
    for null in NULLS:
        parts = [found[name]["ever"] for name, c in cells.items() if c["null"] == null]
        ever, count = sum(map(sum, parts)), sum(map(len, parts))
        certain = limits(ever, count, 0.99)
        rows[null] = {"ever": ever, "campaigns": count, "limits": certain}
        table.add_row(
            null, str(count), f"{ever} ({ever / count:.1%})",
            f"{certain[0]:.1%} to {certain[1]:.1%}",
        )  # fmt: skip
    settings = dict(campaigns=campaigns, rounds=rounds, episodes=episodes, error=error)
    paper = {"claim": "none: the paper deploys nothing"}
    console.save(
        out, "null_campaigns", settings=settings, results=rows, paper=paper,
        figure=_figure(rows, error), table=table,
    )  # fmt: skip


def cell(arguments: dict[str, Any]) -> dict[str, Any]:
    """Some campaigns: of each, whether any round deployed a candidate that is no better."""
    if arguments["null"].endswith(", in trials"):
        return {"ever": _in_trials(**arguments)}
    trial, rounds = trial_of(arguments["null"]), arguments["rounds"]
    ever = []
    for campaign in range(arguments["first"], arguments["first"] + PART):
        false = False
        for k in range(1, rounds + 1):
            seed = 100_000 + campaign * rounds + k
            confidence = 1 - error_of(k, arguments["error"])
            gain, verdict = trial(seed, arguments["episodes"], confidence)
            false |= verdict.word == DEPLOY and gain <= 0
        ever.append(bool(false))
    return {"ever": ever}


def _in_trials(null: str, first: int, rounds: int, episodes: int, error: float) -> list[bool]:
    """The same by the duels of `gamps campaign --mode trials`, of returns on minigolf."""
    golf = Minigolf()
    charge = golf.policy()
    louder = math.log(LOUDER[null.removesuffix(", in trials")])
    challenger = eqx.tree_at(lambda p: p.log_std, charge, charge.log_std + louder)
    earned = {}
    for name, policy in ((trials.INCUMBENT, charge), (trials.CHALLENGER, challenger)):
        key = jax.random.key(len(name))
        log = datasets.collect(golf, policy, key, n=100_000, steps=minigolf.HORIZON)
        earned[name] = returns_of(log, 0.99)
    row = parameters_of(challenger).tolist()
    share = error_of(1, error, rounds)
    ever = []
    for campaign in range(first, first + PART):
        rng = np.random.default_rng(campaign)

        def earn(name: str, policy: Policy, rng: np.random.Generator = rng) -> float:
            """Drawn of the many that were run."""
            del policy
            return float(rng.choice(earned[name]))

        now = trials.Tried([], [], [], row, [], [], False, share)
        duels = (trials.duel(now, charge, charge, episodes // 2, earn) for _ in range(rounds))
        ever.append(any(one.took_over for one in duels))
    return ever


def _figure(rows: dict[str, Any], error: float) -> Any:
    figure, axes = figures.panels(1, 1, width=7.0, height=0.3 * len(rows) + 1.2)
    axis = axes[0, 0]
    for y, row in enumerate(rows.values()):
        axis.plot(row["limits"], [y, y], color=figures.COLOURS["gamps"])
        axis.plot(row["ever"] / row["campaigns"], y, "o", color=figures.COLOURS["gamps"])
    axis.axvline(error, color="0.5", linestyle="--")
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set_xlabel("share of campaigns that ever deploy it, with 99 % limits")
    return figure
