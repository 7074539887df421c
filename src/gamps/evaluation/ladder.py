"""A ladder of policies between the logging policy and a learned one, judged all at once.

A learned policy is often too far from the logging policy for the log to judge it. Policies between
the two are closer: each earns less, but the log shows more about it. `rungs` uses the training part
alone; the held-out part judges them with bounds that hold at once, and the highest bound wins.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from gamps.evaluation.estimates import Assumption, Case
from gamps.evaluation.ladder_cases import fit_keys, ladder_cases, markov_cases
from gamps.evaluation.marginal import StateRatios, carrying
from gamps.evaluation.ratio_sums import each
from gamps.evaluation.support import FAIR, LIMITS, STATE_LIMITS, RatioSupport, graded, support
from gamps.policies import Gaussian, Policy, between
from gamps.policies.paths import has_path
from gamps.trajectories import Trajectories, counted_steps, first_steps, split_rows

# Effective shares of the episodes.
LEVELS: tuple[float, ...] = (0.9, 0.75, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.045)
# Speeds of the mean and of the log standard deviation: from the mean alone to the noise alone.
WAYS = ((1.0, 0.0), (1.0, 0.15), (1.0, 0.5), (1.0, 1.0), (0.5, 1.0), (0.2, 1.0), (0.0, 1.0))
STATE_LEVELS: tuple[float, ...] = (0.9, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07)  # with ratios of states
CHECKED = (0.75, 0.45, 0.2)  # effective shares with ratios of histories, to compare both kinds
ENOUGH = 10.0  # effective training episodes needed, so that enough held-out ones are effective
TRIED, KEPT = 0.45, 2  # the effective share at which ways are compared, and how many are kept
HALVINGS = 8  # bisection steps to reach a level


class Rung(NamedTuple):
    """A policy on the way from the logging policy to the learned policy.

    Attributes:
      share: how far along, in the parameters of the mean, in the logits, or in a mixture.
      spread: how far along in the log standard deviation; `share` if the policy has none.
      policy: the policy, with the noise that it would act with.
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
    assume: Assumption = "nothing",
    seed: int = 0,
) -> tuple[Rung, ...]:
    """Choose the policies worth judging, from the training part alone.

    Several ways lead from one policy to the other, by the mean and by the noise; those that promise
    most halfway are used. On each way, a policy is found for each of several effective shares of
    the episodes. For each share, the policy that promises most is kept: the promise is its estimate
    minus one standard error, with a Q fitted to the other half.

    Args:
      start: the logging policy, or the policy that the search started from.
      end: the learned policy.
      log: episodes to learn from.
      discount: γ.
      behaviour: the logging policy, if known.
      assume: what the final estimates will assume. With Markov observations they reach further,
        and the first rungs are those used to check the assumption.
      seed: for features, actions and halves.

    Returns:
      At least one rung, the closest to `start` first.
    """
    log = first_steps(log, counted_steps(log.n_steps, discount))
    n = log.n_trajectories
    carried, every_level, limits = _by_histories(log), LEVELS, LIMITS
    if assume == "markov":
        carried, every_level, limits = _by_states(log, seed), STATE_LEVELS, STATE_LIMITS
    ways: tuple[tuple[float, float], ...] = WAYS if _two_ways(start, end) else WAYS[3:4]

    def reaching(way: tuple[float, float], level: float, carried: Carried = carried) -> Rung:
        return _reaching(start, end, way, carried, level * n)

    def promised(found: Sequence[Rung]) -> np.ndarray:
        policies = [rung.policy for rung in found]
        gains = _crossed(policies, log, discount, behaviour, assume, seed)
        return np.asarray(gains.mean(axis=0) - gains.std(axis=0, ddof=1) / math.sqrt(n))

    if len(ways) > 1:
        tried = promised([reaching(way, TRIED) for way in ways])
        ways = tuple(ways[k] for k in np.argsort(-tried)[:KEPT])
    levels = [level for level in every_level if level * n >= ENOUGH] or every_level[:1]
    near = [
        (level, rung)
        for level in levels
        for rung in (reaching(way, level) for way in ways)
        if not carried(rung.policy).pareto_k > limits[FAIR][2]
    ]
    if not near:
        return (reaching(ways[0], every_level[0]),)
    best: dict[float, tuple[float, Rung]] = {}
    for (level, rung), promise in zip(near, promised([rung for _, rung in near]), strict=True):
        if level not in best or promise > best[level][0]:
            best[level] = (float(promise), rung)
    hopeful = [rung for promise, rung in best.values() if promise > 0]
    found = hopeful or [near[0][1]]
    if assume == "markov":
        found += [reaching(ways[0], level, _by_histories(log)) for level in CHECKED]
        found.sort(key=lambda rung: rung[:2])
    return tuple({rung[:2]: rung for rung in found}.values())


Carried = Callable[[Policy], RatioSupport]
"""Gives how well the training part supports an estimate of a policy."""


def _by_histories(log: Trajectories) -> Carried:
    return lambda policy: support(policy, log)


def _by_states(log: Trajectories, seed: int) -> Carried:
    """Support by ratios of states; the ratios of each half are fitted to the other half."""
    _, halves = _halves(log, seed)
    fitted = [StateRatios(fit_keys(seed)[0], half) for half in halves[::-1]]
    seen = np.concatenate([np.asarray(h.mask | h.terminated[:, None]) for h in halves])

    def carried(policy: Policy) -> RatioSupport:
        pairs = zip(fitted, halves, strict=True)
        weights = np.concatenate([ratios(policy, half) for ratios, half in pairs])
        return graded(carrying(weights, seen), STATE_LIMITS)

    return carried


def _two_ways(start: Policy, end: Policy) -> bool:
    """Whether mean and noise can move separately."""
    if not isinstance(start, Gaussian) or not isinstance(end, Gaussian):
        return False
    return has_path(start, end) and not np.allclose(start.log_std, end.log_std)


def _reaching(
    start: Policy, end: Policy, way: tuple[float, float], carried: Carried, least: float
) -> Rung:
    """The policy furthest along a way that still leaves `least` effective episodes."""

    def rung(far: float) -> Rung:
        share, spread = (round(far * part, 4) for part in way)
        return Rung(share, spread, between(start, end, share, spread))

    low, high = 0.0, 1.0
    if carried(rung(high).policy).ess >= least:
        return rung(high)
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5 if low > 0 else high / 4
        low, high = (middle, high) if carried(rung(middle).policy).ess >= least else (low, middle)
    return rung(low or high)


def _crossed(
    policies: list[Policy],
    log: Trajectories,
    discount: float,
    behaviour: Policy | None,
    assume: Assumption,
    seed: int,
) -> np.ndarray:
    """`[N, K]` gains; each part of the episodes uses the Q of the others."""

    def of(cases: list[Case]) -> np.ndarray:
        return np.stack([each(case.improvement) for case in cases], axis=1)

    if assume == "markov":
        return of(markov_cases(policies, log, discount, behaviour=behaviour, seed=seed)[0])
    parts, halves = _halves(log, seed)
    gains = np.zeros((log.n_trajectories, len(policies)))
    for rows, fitted_to, judged_by in zip(parts, halves[::-1], halves, strict=True):
        gains[rows] = of(
            ladder_cases(policies, fitted_to, judged_by, discount, behaviour=behaviour, seed=seed)
        )
    return gains


def _halves(log: Trajectories, seed: int) -> tuple[tuple[np.ndarray, ...], list[Trajectories]]:
    """The episode numbers of two halves, and the halves."""
    parts = split_rows(log.n_trajectories, 0.5, seed)
    return parts, [jax.tree.map(lambda x, rows=rows: x[rows], log) for rows in parts]
