"""One policy, or a ladder of them, judged by episodes that nothing was learned from."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gamps.evaluation.agreement import disagreement
from gamps.evaluation.episode_numbers import EpisodeNumbers, Pieces, numbers_of, numbers_over
from gamps.evaluation.estimates import (
    Assumption,
    Case,
    Estimate,
    FittedEvidence,
    cases,
    estimates,
)
from gamps.evaluation.guaranteed import guaranteed_gain, refuse_cut_off
from gamps.evaluation.intervals import Interval, student
from gamps.evaluation.ladder import Rung, fit_keys, ladder_cases, markov_cases
from gamps.evaluation.ratio_sums import Terms, by_group
from gamps.evaluation.simultaneous import critical_value
from gamps.evaluation.support import FAIR, LIMITS, STATE_LIMITS, graded, tail
from gamps.evaluation.verdict import (
    BY_STATES,
    DEPLOY,
    JudgedPolicy,
    Reason,
    Verdict,
    refusal,
    same,
    verdict_of,
)
from gamps.policies import Policy
from gamps.tasks import Task
from gamps.trajectories import Trajectories, counted_steps, first_steps, in_pieces

SAMPLE = 500_000  # steps of a log in pieces that judge in memory, if it is Markov
BESIDE = 20_000  # steps of one that other estimates are of: models imagine episodes from each
WIDER = 1.2  # bounds by ratios of states, whose own error is in no spread


class Judgement(NamedTuple):
    """What held-out episodes say of a policy, or of several at once.

    Attributes:
      verdict: deploy, not shown to be better, or worse: on the one with the highest bound.
      chosen: which one that is.
      judged: what is said of each.
    """

    verdict: Verdict
    chosen: int
    judged: tuple[JudgedPolicy, ...]


class Evaluation(NamedTuple):
    """A judgement, and what stands behind it.

    Attributes:
      verdict: deploy, not shown to be better, or worse, by the doubly robust estimate.
      policy: the one that may be deployed; None if there is none.
      chosen: which one the verdict is on.
      judged: what is said of each.
      estimates: of the chosen one: the doubly robust estimate and others beside it, by name.
      cases: what each is made of.
    """

    verdict: Verdict
    policy: Policy | None
    chosen: int
    judged: tuple[JudgedPolicy, ...]
    estimates: dict[str, Estimate]
    cases: dict[str, Case]


def judge(
    given: Sequence[Case | EpisodeNumbers],
    *,
    bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
    refused: Reason | None = None,
    groups: np.ndarray | None = None,
    seed: int = 0,
) -> Judgement:
    """The verdict on policies that were chosen before these episodes were looked at.

    Their lower bounds hold together. The critical value is over all of them, those without support
    included: leaving one out for what these very episodes say would be a choice by them. Where
    support is only fair it is that of half the error.

    Args:
      given: a case, or its numbers, for each policy, all of the same episodes.
      bounds: of the return, if they are known: lower bounds are then guaranteed, however rare the
        episodes are that lose, and each has its share of the error.
      confidence: that none of the lower bounds is wrong.
      refused: why none of them counts, if something else has shown that.
      groups: that episodes belong to, if they are not independent; groups are then.
      seed: of the critical value.
    """
    known = [one if isinstance(one, EpisodeNumbers) else numbers_of(one) for one in given]
    gains = by_group(np.stack([one.gains for one in known], axis=1), groups)
    levels = {grade: (1 + confidence) / 2 if grade == FAIR else confidence for grade in LIMITS}
    critical = {level: critical_value(gains, level, seed=seed) for level in {*levels.values()}}
    judged = []
    for one, numbers in zip(known, gains.T, strict=True):
        limits, wider = (STATE_LIMITS, WIDER) if one.assume == "markov" else (LIMITS, 1.0)
        basis, spread = graded(one.log_ratios, limits), tail(numbers)
        level = levels.get(basis.grade, confidence)
        half = wider * critical[level] * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
        gain, worth = float(one.gains.mean()), _student(one.worths, level)
        improvement = Interval(gain, gain - half, gain + half, level)
        off = wider * (worth.high - worth.estimate)
        worth = Interval(worth.estimate, worth.estimate - off, worth.estimate + off, level)
        why_not = refusal(one.returns, one.away, basis, spread, worth.estimate, least=limits[FAIR])
        if bounds is not None:
            low = _guaranteed(one, bounds, 1 - (1 - confidence) / len(given))
            improvement = Interval(max(gain, low), low, max(gain + half, low), confidence)
            why_not = same(one.away)
        judged.append(JudgedPolicy(improvement, worth, basis, spread, why_not or refused))
    chosen = _highest(judged)
    behaviour = _student(known[0].logged, confidence)
    losing = all(one.refusal is None and one.improvement.high < 0 for one in judged)
    guaranteed = bounds is not None
    verdict = verdict_of(
        judged[chosen], behaviour, len(gains), losing=losing, guaranteed=guaranteed,
        assume=known[0].assume,
    )  # fmt: skip
    return Judgement(verdict, chosen, tuple(judged))


def _student(numbers: np.ndarray, confidence: float) -> Interval:
    return student(Terms.of(numbers[:, None]), confidence=confidence)


def _guaranteed(one: EpisodeNumbers, bounds: tuple[float, float], confidence: float) -> float:
    refuse_cut_off(one.cut_off)
    lowest, highest = bounds
    return guaranteed_gain(
        one.ratios, one.returns, lowest=lowest, highest=highest, confidence=confidence
    )


def _highest(judged: Sequence[JudgedPolicy]) -> int:
    """Which one has the highest bound; of those that nothing can be shown of, the nearest."""
    counted = [k for k, one in enumerate(judged) if one.refusal is None]
    if counted:
        return max(counted, key=lambda k: judged[k].improvement.low)
    return max(range(len(judged)), key=lambda k: judged[k].support.ess)


def evaluate(
    policy: Policy | Sequence[Policy | Rung],
    learned: Trajectories,
    held_out: Trajectories | Pieces,
    task: Task,
    *,
    behaviour: Policy | None = None,
    model: Any = None,
    assume: Assumption = "nothing",
    confidence: float = 0.95,
    details: bool = True,
    groups: np.ndarray | None = None,
    seed: int = 0,
) -> Evaluation:
    """Say whether a policy may be deployed, by episodes that nothing was learned from.

    Args:
      policy: to be judged, with the noise that it acts with; or several, such as the ladder that
        `gamps.learn` gives.
      learned: episodes to fit Q to; the policy may have been learned from them too.
      held_out: episodes to judge by, which neither the policy nor Q has seen; in memory, or in
        pieces, such as `datasets.Shards`, all of which are read. With "markov", and for the
        estimates beside the verdict's, a sample of those is taken.
      task: its discount, and the bounds of its return if they are declared; and, with a model,
        reward and termination.
      behaviour: the policy that made the log, if it is known: bounds are then narrower.
      model: a fitted transition model, for further estimates beside the verdict's.
      assume: "markov", that what is observed decides what comes next, carries estimates further.
        Where the log speaks against it nothing is shown. Declared bounds are of no use then.
      confidence: of the bounds, all together.
      details: whether the chosen one is estimated in other ways too.
      groups: that held-out episodes belong to: patients, machines, days. Not episodes but groups
        are then independent, and declared bounds of no use.
      seed: of imagined episodes, features and actions.
    """
    given = [policy] if isinstance(policy, (Policy, Rung)) else policy
    policies = [one.policy if isinstance(one, Rung) else one for one in given]
    discount = float(task.discount)
    pieces: Iterable[Trajectories]
    if isinstance(held_out, Trajectories):
        longest, some, pieces = held_out.n_steps, held_out, [held_out]
    else:
        few = held_out.sample(SAMPLE if assume == "markov" else BESIDE)
        longest, some, pieces = held_out.longest, few, held_out
    counted = counted_steps(max(learned.n_steps, longest), discount)
    learned, horizon = in_pieces(learned, counted), min(longest, counted)
    some = first_steps(some, counted)
    of_each: Sequence[Case | EpisodeNumbers]
    bounds, refused, by_state = task.return_bounds(horizon), None, []
    if groups is not None:
        bounds = None
    if assume == "markov":
        plain = ladder_cases(policies, learned, some, discount, behaviour=behaviour, seed=seed)
        of_each = by_state = markov_cases(plain, policies, learned, some, seed)
        bounds, refused = None, disagreement(by_state, plain, learned.n_trajectories)
    else:
        fitted = FittedEvidence(fit_keys(seed), learned, discount, horizon)
        of_each = numbers_over(fitted, policies, pieces, behaviour)
    judgement = judge(
        of_each, bounds=bounds, confidence=confidence, refused=refused, groups=groups, seed=seed
    )
    chosen = policies[judgement.chosen]
    beside: dict[str, Case] = {}
    if details:
        key = jax.random.key(seed)
        beside = cases(key, chosen, learned, some, task, model, behaviour=behaviour)
        if by_state:
            beside = {BY_STATES: by_state[judgement.chosen]} | beside
    certified = chosen if judgement.verdict.word == DEPLOY else None
    by_name = estimates(beside, confidence=confidence)
    verdict, number, judged = judgement
    return Evaluation(verdict, certified, number, judged, by_name, beside)
