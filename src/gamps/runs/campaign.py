"""Rounds in an environment: log, learn, certify, deploy, and repeat.

FOLDER/campaign.json   the settings of the campaign
FOLDER/round-1 …       a run folder for each round, with its history
Logs are Minari datasets: campaign/NAME-DIGEST-log2-v0 is that of the second round, and
campaign/NAME-DIGEST-all2-v0 holds all up to it. Existing files are not made again, and everything
follows from the seed: a killed campaign continues to the same decisions.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key

from gamps import datasets, evaluation
from gamps._utils import atomic_io
from gamps._utils.console import silent
from gamps.errors import OutputError, RunError
from gamps.evaluation.duel import Measured
from gamps.policies import Policy
from gamps.runs.certificate import withdraw
from gamps.runs.rounds import (
    Round,
    first_round,
    history_of,
    in_charge,
    measured,
    next_round,
    was_deployed,
)
from gamps.runs.spec import TrainSpec
from gamps.runs.start import start
from gamps.trajectories import Trajectories

CAMPAIGN = "campaign.json"
Collect = Callable[[Policy, Key[Array, ""], int], Trajectories]
"""Logs this many episodes of a policy, the same ones for the same key."""
Mode = Literal["certified", "trials"]


@dataclass(frozen=True)
class CampaignSpec:
    """The settings of a campaign, in values that JSON can hold.

    Attributes:
      name: name of its logs: letters, digits and - .
      task: module:object; if empty, reward and termination are estimated.
      rounds: largest number of deployments.
      episodes: episodes in each round.
      discount: discount factor of the returns.
      error: chance of ever deploying a worse policy.
      assume: as for `gamps evaluate`.
      iterations: iterations of each training.
      seed: random seed.
      mode: whether only certified policies act, or candidates are tried.
      share: share of the episodes that trials may use.
      features: module:function, the models' input, as for `gamps train`.
      plant: what is logged, for the record.
    """

    name: str
    task: str = ""
    rounds: int = 5
    episodes: int = 50
    discount: float = 0.99
    error: float = 0.05
    assume: evaluation.Assumption = "nothing"
    iterations: int = 80
    seed: int = 0
    mode: Mode = "certified"
    share: float = 0.5
    features: str = ""
    plant: str = ""


class Played(NamedTuple):
    """The result of a campaign.

    Attributes:
      rounds: one entry per round.
      measured: how much more each deployed policy earned than the one before, by its own log.
      deployed: the policy in charge in each round's log, and at the end.
    """

    rounds: list[Round]
    measured: list[Measured]
    deployed: list[Policy]


def campaign(
    spec: CampaignSpec,
    folder: Path,
    policy: Policy,
    collect: Collect,
    *,
    limits: datasets.Limits | None = None,
    say: Callable[[str], None] = silent,
) -> Played:
    """Run all rounds, or those that are still missing.

    Args:
      spec: settings of the campaign.
      folder: campaign folder.
      policy: the first controller, whose noise is known.
      collect: logs episodes of a policy, the same ones for the same key.
      limits: the least and the largest action that the actuators carry out, if known.
      say: called with what is being done.

    Raises:
      RunError: if the folder holds another campaign.
    """
    begin(spec, folder)
    acting, before = policy, None
    found = Played([], [], [policy])
    for number in range(1, spec.rounds + 1):
        run, log = folder / f"round-{number}", named(spec, f"log{number}")
        say(f"round {number}: logging")
        key = jax.random.fold_in(jax.random.key(spec.seed), number)
        keep = partial(_logged, spec, collect=collect, limits=limits)
        keep(log, acting, key)
        if before is not None and (gain := measured(before, log)) is not None:
            found.measured.append(gain)
            if gain.harm:
                say("the policy does harm: rolled back")
                withdraw(before)
                acting = in_charge(before)
                log = named(spec, f"log{number}b")
                keep(log, acting, jax.random.fold_in(key, 1))
        say(f"round {number}: learning and judging")
        if not history_of(run):
            _round(spec, before, log, run, number)
        found.rounds.append(history_of(run)[-1])
        say(f"round {number}: {found.rounds[-1].word}")
        # What was decided then counts: a later report may ask, and answer, something else.
        following = was_deployed(run) if found.rounds[-1].word == evaluation.DEPLOY else None
        acting = acting if following is None else following
        found.deployed.append(acting)
        before = run
    return found


def begin(spec: CampaignSpec, folder: Path) -> None:
    """Write down a campaign's settings, or check that the folder holds the same ones."""
    content, path = json.loads(json.dumps(asdict(spec))), folder / CAMPAIGN
    if not path.exists():
        old = datasets.folder_of(named(spec, "log1"))
        if old.exists():
            fix = "Delete it and its kin, or choose another folder name"
            raise OutputError(f"{old}: a log of an earlier campaign with these settings. {fix}")
        folder.mkdir(parents=True, exist_ok=True)
        atomic_io.write_file(path, (json.dumps(content, indent=1) + "\n").encode())
    elif json.loads(path.read_text(encoding="utf-8")) != content:
        raise RunError(f"{folder}: holds another campaign. Choose another folder")


def named(spec: CampaignSpec, what: str) -> str:
    """Return a log's name; it differs if the settings differ, whatever the folder is called."""
    digest = hashlib.sha256(json.dumps(asdict(spec)).encode()).hexdigest()[:8]
    return f"campaign/{spec.name}-{digest}-{what}-v0"


def _logged(
    spec: CampaignSpec,
    name: str,
    policy: Policy,
    key: Key[Array, ""],
    *,
    collect: Collect,
    limits: datasets.Limits | None,
) -> None:
    if not datasets.folder_of(name).exists():
        log = collect(policy, key, spec.episodes)
        datasets.save(name, log, policy, discount=spec.discount, limits=limits)


def _round(spec: CampaignSpec, before: Path | None, log: str, run: Path, number: int) -> None:
    if before is None:
        training = TrainSpec(
            log,
            task=spec.task,
            features=spec.features,
            iterations=spec.iterations,
            seed=_seed(spec, number),
        )
        start(training, run, again=True).train()
        first_round(run, error=spec.error, rounds=spec.rounds, assume=spec.assume)
        return
    all_logs = named(spec, f"all{number}")
    shared: Any = dict(error=spec.error, rounds=spec.rounds, assume=spec.assume)
    next_round(before, log, run, all_logs, **shared)


def _seed(spec: CampaignSpec, number: int) -> int:
    return int(np.random.SeedSequence([spec.seed, number]).generate_state(1)[0])
