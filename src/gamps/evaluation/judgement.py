"""Judge a policy, or a ladder of policies, on episodes that nothing was learned from."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gamps.evaluation.agreement import disagreement
from gamps.evaluation.episode_numbers import EpisodeNumbers, Pieces, numbers_of, numbers_over
from gamps.evaluation.estimates import Assumption, Case, Estimate, FittedEvidence, cases, estimates
from gamps.evaluation.guaranteed import guaranteed_gain, refuse_cut_off
from gamps.evaluation.intervals import Interval, student
from gamps.evaluation.ladder import Rung
from gamps.evaluation.ladder_cases import fit_keys, markov_cases
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

SAMPLE = 500_000  # steps sampled from a log in pieces, to judge in memory if it is Markov
BESIDE = 20_000  # the same for the other estimates: models imagine episodes from each step
WIDER = 1.2  # factor on bounds from ratios of states: the spread misses those ratios' own error


class Judgement(NamedTuple):
    """What held-out episodes say about one policy, or about several at once.

    Attributes:
      verdict: deploy, not shown to be better, or worse: for the policy with the highest bound.
      chosen: the index of that policy.
      judged: the result for each policy.
    """

    verdict: Verdict
    chosen: int
    judged: tuple[JudgedPolicy, ...]


class Evaluation(NamedTuple):
    """A judgement, and the estimates behind it.

    Attributes:
      verdict: deploy, not shown to be better, or worse, from the doubly robust estimate.
      policy: the policy that may be deployed; None if there is none.
      chosen: the index of the policy that the verdict is about.
      judged: the result for each policy.
      estimates: the doubly robust and other estimates of the chosen policy, by name.
      cases: the data behind each estimate.
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
    """Return the verdict on policies that were chosen before anyone looked at these episodes.

    All lower bounds hold at once. The critical value covers all policies, even those without
    support: leaving one out because of these episodes would mean choosing by them. Where support
    is only fair, it is the critical value for half the error.

    Args:
      given: a case, or its numbers, for each policy, all from the same episodes.
      bounds: bounds on the return, if known. Lower bounds are then guaranteed, however rare losing
        episodes are, and each policy gets its share of the error.
      confidence: that none of the lower bounds is wrong.
      refused: why no policy counts, if something else has already shown that.
      groups: the group of each episode, if only groups are independent and not episodes.
      seed: for the critical value.
    """
    known = [one if isinstance(one, EpisodeNumbers) else numbers_of(one) for one in given]
    gains = by_group(np.stack([one.gains for one in known], axis=1), groups)
    levels = {grade: (1 + confidence) / 2 if grade == FAIR else confidence for grade in LIMITS}
    critical = {level: critical_value(gains, level, seed=seed) for level in {*levels.values()}}
    judged, worse = [], []
    for one, numbers in zip(known, gains.T, strict=True):
        limits, wider = (STATE_LIMITS, WIDER) if one.assume == "markov" else (LIMITS, 1.0)
        basis, spread = graded(one.log_ratios, limits), tail(numbers)
        level = levels.get(basis.grade, confidence)
        half = wider * critical[level] * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
        gain, worth = float(one.gains.mean()), _student(one.worths, level)
        improvement = Interval(gain, gain - half, gain + half, level)
        off = wider * (worth.high - worth.estimate)
        worth = Interval(worth.estimate, worth.estimate - off, worth.estimate + off, level)
        why_not = refusal(
            one.returns, one.away, basis, spread, worth.estimate, least=limits[FAIR],
            bounds_help=groups is None and one.assume == "nothing",
        )  # fmt: skip
        # Declared bounds guarantee only the lower bound: a harm must be shown without them.
        worse.append(why_not is None and gain + half < 0)
        if bounds is not None:
            low = _guaranteed(one, bounds, 1 - (1 - confidence) / len(given))
            improvement = Interval(max(gain, low), low, max(gain + half, low), confidence)
            why_not = same(one.away)
        judged.append(JudgedPolicy(improvement, worth, basis, spread, why_not or refused))
    chosen = _highest(judged)
    behaviour = _student(known[0].logged, confidence)
    losing = refused is None and all(worse)
    verdict = verdict_of(
        judged[chosen], behaviour, len(gains), losing=losing, guaranteed=bounds is not None,
        assume=known[0].assume,
    )  # fmt: skip
    return Judgement(verdict, chosen, tuple(judged))


def _shows_limit(pieces: Iterable[Trajectories], longest: int) -> bool:
    """Whether a longest episode was cut off, so that no episode can be longer."""
    return any(bool(np.any((piece.lengths == longest) & ~piece.terminated)) for piece in pieces)


def _student(numbers: np.ndarray, confidence: float) -> Interval:
    return student(Terms.of(numbers[:, None]), confidence=confidence)


def _guaranteed(one: EpisodeNumbers, bounds: tuple[float, float], confidence: float) -> float:
    refuse_cut_off(one.cut_off)
    lowest, highest = bounds
    return guaranteed_gain(
        one.ratios, one.returns, lowest=lowest, highest=highest, confidence=confidence
    )


def _highest(judged: Sequence[JudgedPolicy]) -> int:
    """The index of the highest bound that counts; if none does, of the best supported policy."""
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
    """Decide whether a policy may be deployed, from episodes that nothing was learned from.

    Args:
      policy: the policy to judge, with the noise that it acts with; or several policies, such as
        the ladder that `gamps.learn` returns.
      learned: episodes to fit Q to; the policy may have been learned from them too. Not used with
        "markov", except for other estimates.
      held_out: episodes to judge by, which neither the policy nor Q has seen; with "markov" every Q
        is fitted to some of them and judges others. They are in memory, or in pieces such as
        `datasets.Shards`; all pieces are read. "markov" and the estimates that the verdict does not
        rest on use a sample of the pieces.
      task: its discount, and the bounds on its return if declared. A model also needs its reward
        and termination.
      behaviour: the policy that made the log, if known; bounds are then narrower.
      model: a fitted transition model, for further estimates that the verdict does not rest on.
      assume: "markov" assumes that each observation decides what comes next, and lets estimates
        reach further. If the log contradicts it, nothing is shown. Declared bounds are ignored.
      confidence: that all bounds hold at once.
      details: whether to estimate the chosen policy in other ways too.
      groups: the group of each held-out episode, such as a patient, machine or day. Groups are then
        independent, not episodes, and declared bounds are ignored.
      seed: for imagined episodes, features and actions.
    """
    given = [policy] if isinstance(policy, (Policy, Rung)) else policy
    policies = [one.policy if isinstance(one, Rung) else one for one in given]
    discount = float(task.discount)
    pieces: Iterable[Trajectories]
    sample: Callable[[int], Trajectories]
    if isinstance(held_out, Trajectories):
        whole = held_out
        longest, pieces, sample = whole.n_steps, [whole], lambda _: whole
        if task.return_bounds(1) is not None:  # padding cuts no episode off
            longest = int(np.asarray(whole.lengths).max())
    else:
        longest, pieces, sample = held_out.longest, held_out, held_out.sample
    counted = counted_steps(max(learned.n_steps, longest), discount)
    learned, horizon = in_pieces(learned, counted), min(longest, counted)
    of_each: Sequence[Case | EpisodeNumbers]
    refused: Reason | None = None
    by_state: list[Case] = []
    bounds = task.returns
    if bounds is None and task.rewards is not None:
        bounds = task.return_bounds(horizon if _shows_limit(pieces, longest) else None)
    if groups is not None:
        bounds = None
    if assume == "markov":
        some = first_steps(sample(SAMPLE), counted)
        by_state, by_history = markov_cases(
            policies, some, discount, behaviour=behaviour, groups=groups, seed=seed
        )
        of_each, bounds = by_state, None
        refused = disagreement(by_state, by_history, groups)
    else:
        fitted = FittedEvidence(fit_keys(seed), learned, discount, horizon)
        of_each = numbers_over(fitted, policies, pieces, behaviour)
    judgement = judge(
        of_each, bounds=bounds, confidence=confidence, refused=refused, groups=groups, seed=seed
    )
    chosen = policies[judgement.chosen]
    beside: dict[str, Case] = {}
    if details:
        some = first_steps(sample(BESIDE), counted)
        key = jax.random.key(seed)
        beside = cases(key, chosen, learned, some, task, model, behaviour=behaviour)
        if by_state:
            beside = {BY_STATES: by_state[judgement.chosen]} | beside
    certified = chosen if judgement.verdict.word == DEPLOY else None
    by_name = estimates(beside, confidence=confidence, groups=groups)
    verdict, number, judged = judgement
    return Evaluation(verdict, certified, number, judged, by_name, beside)
