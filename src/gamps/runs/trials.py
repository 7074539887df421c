"""Rounds in which some episodes try candidates, and only measured returns put one in charge.

FOLDER/campaign.json        the settings of the campaign
FOLDER/round-1.json …       what a round tried, what it earned, and who is in charge after it
Logs are Minari datasets, like those of `campaign`; each episode has the density of its own draw of
parameters. Existing files are not made again, and everything follows from the seed.

In a round, models are fitted to all logs, and candidates act for one episode each. Then the centre
of the elites challenges the policy in charge; both act in turn, for equally many episodes. Two
looks at these, each with half of the round's error, decide whether it takes over
(`evaluation.duel`). Episodes that chose the challenger do not count in the duel.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gamps import datasets
from gamps._utils import atomic_io
from gamps._utils.console import silent
from gamps.datasets import Dataset, Labels
from gamps.errors import RunError
from gamps.evaluation.duel import shown_better
from gamps.learner import model_classes, trials
from gamps.policies import Gaussian, Policy
from gamps.runs.campaign import CampaignSpec, Collect, begin, named
from gamps.runs.resolve import features_of, task_for
from gamps.runs.rounds import error_of
from gamps.trajectories import Trajectories, padded, returns_of

NOISE = 0.1  # a candidate's share of the first controller's deviation
ELITE = 1 / 3  # number of elites, as a share of a round's trials
LOOKS = 2
INCUMBENT, CHALLENGER, TRIAL = "in charge", "challenger", "trial"


class Tried(NamedTuple):
    """One round.

    Attributes:
      trials: parameters of each candidate.
      earned: return of each candidate.
      promised: what the models promised for it, minus infinity for nothing; empty without models.
      challenger: parameters of the policy that challenged the one in charge; None if none did.
      of_challenger: returns of the challenger.
      of_incumbent: returns of the policy in charge.
      took_over: whether the challenger is in charge from now on.
      error: largest chance that it takes over without being better.
    """

    trials: list[list[float]]
    earned: list[float]
    promised: list[float]
    challenger: list[float] | None
    of_challenger: list[float]
    of_incumbent: list[float]
    took_over: bool
    error: float

    @property
    def cost(self) -> float:
        """How much less the candidates earned than the policy in charge would have."""
        return float(np.mean(self.of_incumbent) * len(self.earned) - np.sum(self.earned))


class Tries(NamedTuple):
    """The result of a campaign.

    Attributes:
      rounds: one entry per round.
      deployed: the policy in charge in each round, and at the end.
      logs: log of each round, in memory.
    """

    rounds: list[Tried]
    deployed: list[Policy]
    logs: list[Trajectories]


def try_in_rounds(
    spec: CampaignSpec,
    folder: Path,
    policy: Policy,
    collect: Collect,
    *,
    models: bool = True,
    limits: datasets.Limits | None = None,
    say: Callable[[str], None] = silent,
) -> Tries:
    """Run all rounds, or those that are still missing.

    Args:
      spec: settings of the campaign.
      folder: campaign folder.
      policy: the first controller.
      collect: logs episodes of a policy, the same ones for the same key.
      models: whether models screen candidates and are searched for them.
      limits: the least and the largest action that the actuators carry out, if known.
      say: called with what is being done.

    Raises:
      RunError: if the folder holds another campaign.
    """
    begin(spec, folder)
    found = Tries([], [policy], [])
    for number in range(1, spec.rounds + 1):
        path, name = folder / f"round-{number}.json", named(spec, f"log{number}")
        if not path.exists():
            say(f"round {number}: learning and trying")
            now, plant = _round(spec, number, found, collect, limits, models=models)
            # If a killed call has written this already, the same is written again.
            datasets.save(
                name, plant.log(), found.deployed[-1], discount=spec.discount,
                labels=Labels(controllers=tuple(plant.names), newest=INCUMBENT), limits=limits,
                overwrite=True,
            )  # fmt: skip
            atomic_io.write_file(path, (json.dumps(now._asdict()) + "\n").encode())
        now = _read(path)
        found.rounds.append(now)
        found.logs.append(datasets.load(name).trajectories)
        charge = found.deployed[-1]
        if now.took_over:
            charge = trials.with_parameters(_calm(policy), now.challenger)
        found.deployed.append(charge)
        say(f"round {number}: {_said(now)}")
    return found


def rounds_in(folder: Path) -> list[Tried]:
    """Return the finished rounds.

    Raises:
      RunError: if there is none.
    """
    paths = [folder / f"round-{k}.json" for k in range(1, len(list(folder.glob("round-*"))) + 1)]
    if not paths:
        raise RunError(f"{folder}: no round is finished yet. Run gamps campaign again")
    return [_read(path) for path in paths]


def _read(path: Path) -> Tried:
    return Tried(**json.loads(path.read_text(encoding="utf-8")))


class _Plant:
    """Runs episodes one by one, and keeps them in order."""

    def __init__(self, collect: Collect, key: Key[Array, ""], discount: float) -> None:
        self.collect, self.key, self.discount = collect, key, discount
        self.episodes: list[Trajectories] = []
        self.names: list[str] = []

    def earn(self, name: str, policy: Policy) -> float:
        """Run one more episode and return its return."""
        key = jax.random.fold_in(self.key, len(self.names))
        self.names.append(name)
        self.episodes.append(self.collect(policy, key, 1))
        return float(returns_of(self.episodes[-1], self.discount)[0])

    def log(self) -> Trajectories:
        """Return all episodes as one log."""
        return _together(self.episodes)


def _round(
    spec: CampaignSpec,
    number: int,
    past: Tries,
    collect: Collect,
    limits: datasets.Limits | None,
    *,
    models: bool,
) -> tuple[Tried, _Plant]:
    key = jax.random.fold_in(jax.random.key(spec.seed), number)
    key_plant, key_fit, key_draw = jax.random.split(key, 3)
    plant = _Plant(collect, key_plant, spec.discount)
    first, charge = past.deployed[0], past.deployed[-1]
    calm = _calm(first)
    count = round(spec.share * spec.episodes)
    others = spec.episodes - count
    if number == 1:
        by_charge = [plant.earn(INCUMBENT, charge) for _ in range(others)]
        units = trials.unit_parameters(first, plant.log())
        around = trials.Elites(trials.parameters_of(calm), units)
    else:
        rows = np.arange(others)
        own = jax.tree.map(lambda x: x[rows], past.logs[0])
        units = trials.unit_parameters(first, own)
        around = _around(spec, past.rounds, calm, units)
    within = _imagination(spec, key_fit, past.logs, limits) if models and past.logs else None
    drawn = trials.propose(key_draw, around, count, calm, within)
    promised = [] if within is None else within.worth(key_draw, calm, drawn).tolist()
    earned = [plant.earn(TRIAL, trials.with_parameters(calm, row)) for row in drawn]
    error = error_of(number, spec.error, spec.rounds)
    now = Tried(drawn.tolist(), earned, promised, None, [], [], False, error)
    if number == 1:
        return now._replace(of_incumbent=by_charge), plant
    best = _around(spec, [*past.rounds, now], calm, units).centre
    now = now._replace(challenger=best.tolist())
    return duel(now, charge, calm, others, plant.earn), plant


Earn = Callable[[str, Policy], float]
"""Runs one more episode of a policy, given its part in the round, and returns its return."""


def duel(now: Tried, charge: Policy, calm: Policy, episodes: int, earn: Earn) -> Tried:
    """Let both sides act in turn; after a decision, the policy in charge gets the other ones."""
    challenger = trials.with_parameters(calm, now.challenger)
    new: list[float] = []
    old: list[float] = []
    took_over = False
    for look in range(1, LOOKS + 1):
        while len(new) < episodes * look // (2 * LOOKS):
            old.append(earn(INCUMBENT, charge))
            new.append(earn(CHALLENGER, challenger))
        took_over = shown_better(np.asarray(new), np.asarray(old), now.error / LOOKS)
        if took_over or np.mean(new) <= np.mean(old):
            break
    for _ in range(episodes - len(new) - len(old)):
        if took_over:
            new.append(earn(CHALLENGER, challenger))
        else:
            old.append(earn(INCUMBENT, charge))
    return now._replace(of_challenger=new, of_incumbent=old, took_over=took_over)


def _around(
    spec: CampaignSpec, rounds: list[Tried], calm: Policy, units: np.ndarray
) -> trials.Elites:
    """Return the elites of all that have acted; first controller and challengers by their means."""
    rows = [trials.parameters_of(calm), *(np.asarray(x) for one in rounds for x in one.trials)]
    earned = [np.mean(rounds[0].of_incumbent), *(x for one in rounds for x in one.earned)]
    for one in rounds:
        if one.of_challenger:
            rows.append(np.asarray(one.challenger))
            earned.append(np.mean(one.of_challenger))
    count = max(round(ELITE * spec.share * spec.episodes), 2)
    return trials.elites(np.stack(rows), np.asarray(earned), count, units)


def _imagination(
    spec: CampaignSpec,
    key: Key[Array, ""],
    logs: list[Trajectories],
    limits: datasets.Limits | None,
) -> trials.Imagination:
    """Fit models to all logs, in arrays of the same size every round: nothing compiles twice."""
    log = _together(logs)
    steps = int(np.asarray(log.lengths).max())
    size = spec.rounds * spec.episodes
    whole = jax.tree.map(lambda x: x[np.resize(np.arange(log.n_trajectories), size)], log)
    mask = whole.mask & (jnp.arange(size) < log.n_trajectories)[:, None]
    whole = eqx.tree_at(lambda t: t.mask, whole, mask)
    features = features_of(spec.features, log, limits)
    data = Dataset(log, None, spec.discount, None)
    task, _ = task_for(spec.task, data, features, spec.seed)
    task = eqx.tree_at(lambda t: t.discount, task, jnp.asarray(spec.discount, float))
    model = trials.fit(key, whole, model_classes(features)["network"])
    at = np.random.default_rng(spec.seed).integers(log.n_trajectories, size=trials.STARTS)
    return trials.Imagination(model, task, log.states[at, 0], steps)


def _together(logs: list[Trajectories]) -> Trajectories:
    steps = max(log.n_steps for log in logs)
    log: Trajectories = jax.tree.map(
        lambda *x: jnp.concatenate(x), *(padded(log, steps) for log in logs)
    )
    return log


def _calm(policy: Policy) -> Policy:
    """Return the first controller with the little noise of a candidate."""
    if not isinstance(policy, Gaussian):
        return policy
    calm: Policy = eqx.tree_at(lambda p: p.log_std, policy, policy.log_std + np.log(NOISE))
    return calm


def _said(now: Tried) -> str:
    candidates = f"{len(now.earned)} candidates earned {np.mean(now.earned):.4g} on average"
    if now.challenger is None:
        return f"{candidates}, the controller {np.mean(now.of_incumbent):.4g}"
    duel = f"{np.mean(now.of_challenger):.4g} against {np.mean(now.of_incumbent):.4g}"
    verdict = "the challenger takes over" if now.took_over else "not shown to be better"
    return f"{candidates}; {verdict} ({duel})"
