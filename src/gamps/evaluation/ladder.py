"""A ladder of policies between the logging one and a learned one, judged at once.

A learned policy is often further from the log than the log can see. Policies on the way there are
nearer: each earns less and can be shown more of. `rungs` are chosen by the training part alone; the
held-out part then judges all of them, with bounds that hold together, and the highest bound wins.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from gamps.evaluation.estimates import Case, FittedEvidence
from gamps.evaluation.ratio_sums import each
from gamps.evaluation.support import FAIR, LIMITS, support
from gamps.evaluation.verdict import ROBUST
from gamps.policies import Gaussian, Policy, between
from gamps.policies.paths import has_path
from gamps.trajectories import Trajectories, split_rows

LEVELS = (0.9, 0.75, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07)  # effective shares of the episodes
# Ways to go, of the mean and of the deviation's logarithm: the mean alone to the noise alone.
WAYS = ((1.0, 0.0), (1.0, 0.15), (1.0, 0.5), (1.0, 1.0), (0.5, 1.0), (0.2, 1.0), (0.0, 1.0))
ENOUGH = 15.0  # effective episodes of the training part, that enough of the held-out part be left
TRIED, KEPT = 0.45, 2  # the share at which ways are compared, and how many are taken
HALVINGS = 8  # on the way to a level


class Rung(NamedTuple):
    """A policy on the way from the logging one to the learned one.

    Attributes:
      share: of the way, in the parameters of the mean, or in the logits, or of a mixture.
      spread: of the way, in the logarithm of the deviation; equal to `share` where there is none.
      policy: as it would act.
    """

    share: float
    spread: float
    policy: Policy


def rungs(
    start: Policy,
    end: Policy,
    log: Trajectories,
    discount: float,
    *,
    behaviour: Policy | None = None,
    seed: int = 0,
) -> tuple[Rung, ...]:
    """The policies worth judging, by the training part alone.

    Several ways lead from one policy to the other, by the mean and by the noise; those are taken
    that promise most halfway. On each, and for each of several effective shares of the episodes,
    the policy is found that leaves so many, and for each share the one is kept that promises most:
    by its estimate less one standard error, with a Q that is fitted to the other half.

    Args:
      start: the logging policy, or what the search started from.
      end: the learned policy.
      log: episodes to learn from.
      discount: γ.
      behaviour: the logging policy, if it is known.
      seed: of features and actions, and of the halves.

    Returns:
      At least one, the nearest first.
    """
    n = log.n_trajectories
    ways: tuple[tuple[float, float], ...] = WAYS if _two_ways(start, end) else WAYS[3:4]
    if len(ways) > 1:
        tried = [_reaching(start, end, way, log, TRIED) for way in ways]
        promised = _promised(tried, log, discount, behaviour, seed)
        ways = tuple(ways[k] for k in np.argsort(-promised)[:KEPT])
    levels = [level for level in LEVELS if level * n >= ENOUGH] or LEVELS[:1]
    near = [
        (level, rung)
        for level in levels
        for rung in (_reaching(start, end, way, log, level) for way in ways)
        if not support(rung.policy, log).pareto_k > LIMITS[FAIR][2]
    ]
    if not near:
        return (_reaching(start, end, ways[0], log, LEVELS[0]),)
    promised = _promised([rung for _, rung in near], log, discount, behaviour, seed)
    best: dict[float, tuple[float, Rung]] = {}
    for (level, rung), promise in zip(near, promised, strict=True):
        if level not in best or promise > best[level][0]:
            best[level] = (float(promise), rung)
    hopeful = [rung for promise, rung in best.values() if promise > 0]
    return tuple({rung[:2]: rung for rung in hopeful or [near[0][1]]}.values())


def _promised(
    found: Sequence[Rung],
    log: Trajectories,
    discount: float,
    behaviour: Policy | None,
    seed: int,
) -> np.ndarray:
    """The estimated gain of each, less one standard error."""
    gains = _crossed([rung.policy for rung in found], log, discount, behaviour, seed)
    return np.asarray(gains.mean(axis=0) - gains.std(axis=0, ddof=1) / math.sqrt(len(gains)))


def _two_ways(start: Policy, end: Policy) -> bool:
    """Whether mean and noise can go on alone."""
    if not isinstance(start, Gaussian) or not isinstance(end, Gaussian):
        return False
    return has_path(start, end) and not np.allclose(start.log_std, end.log_std)


def _reaching(
    start: Policy, end: Policy, way: tuple[float, float], log: Trajectories, level: float
) -> Rung:
    """The policy furthest on a way that leaves an effective share of the episodes."""

    def rung(far: float) -> Rung:
        share, spread = (round(far * part, 4) for part in way)
        return Rung(share, spread, between(start, end, share, spread))

    low, high, least = 0.0, 1.0, level * log.n_trajectories
    if support(rung(high).policy, log).ess >= least:
        return rung(high)
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5 if low > 0 else high / 4
        low, high = (
            (middle, high) if support(rung(middle).policy, log).ess >= least else (low, middle)
        )
    return rung(low or high)


def _crossed(
    policies: list[Policy],
    log: Trajectories,
    discount: float,
    behaviour: Policy | None,
    seed: int,
) -> np.ndarray:
    """`[N, K]` gains, each half of the episodes by the Q of the other."""
    parts = split_rows(log.n_trajectories, 0.5, seed)
    halves = [jax.tree.map(lambda x, rows=rows: x[rows], log) for rows in parts]
    gains = np.zeros((log.n_trajectories, len(policies)))
    for rows, fitted_to, judged_by in zip(parts, halves[::-1], halves, strict=True):
        cases = ladder_cases(
            policies, fitted_to, judged_by, discount, behaviour=behaviour, seed=seed
        )
        gains[rows] = np.stack([each(case.improvement) for case in cases], axis=1)
    return gains


def _keys(seed: int) -> tuple[jax.Array, jax.Array]:
    """Those of `cases`, so that one number is shown of one thing."""
    _, key_fit, key_at = jax.random.split(jax.random.key(seed), 3)
    return key_fit, key_at


def ladder_cases(
    policies: Sequence[Policy],
    learned: Trajectories,
    held_out: Trajectories,
    discount: float,
    *,
    behaviour: Policy | None = None,
    seed: int = 0,
) -> list[Case]:
    """What the verdict on several policies is made of: one Q each, by the same features and draws.

    Args:
      policies: chosen before the held-out episodes were looked at.
      learned: episodes to fit Q to.
      held_out: episodes to judge by.
      discount: γ.
      behaviour: the logging policy, if it is known.
      seed: of features and actions.
    """
    found = FittedEvidence(_keys(seed), learned, held_out, discount)
    base = found.base(behaviour)
    return [Case(found(policy), ROBUST, base) for policy in policies]
