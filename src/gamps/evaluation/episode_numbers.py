"""The few numbers that a verdict needs from each episode, however many steps it has.

Estimates are sums over trajectories. So a log that does not fit into memory can be read piece by
piece, keeping only these numbers; the verdict is the same as from the whole log.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from gamps.evaluation.estimates import Assumption, Case, FittedEvidence, as_behaviour, made
from gamps.evaluation.estimators import away, on_policy, whole_episode
from gamps.evaluation.ratio_sums import each
from gamps.evaluation.verdict import ROBUST
from gamps.policies import Policy
from gamps.trajectories import Trajectories, first_steps


class EpisodeNumbers(NamedTuple):
    """The numbers for one policy, one for each episode.

    Attributes:
      gains: their mean is the improvement, and their spread is its uncertainty.
      worths: the same for the policy's value.
      logged: the same for the logging policy's value, from its own returns.
      log_ratios: log-ratios that show how many episodes support the estimate.
      ratios: ratios of whole episodes.
      returns: discounted returns.
      away: the largest difference between the ratio of any step and one.
      cut_off: how many episodes were cut off before the others, without having terminated.
      assume: what the ratios assume.
    """

    gains: np.ndarray
    worths: np.ndarray
    logged: np.ndarray
    log_ratios: np.ndarray
    ratios: np.ndarray
    returns: np.ndarray
    away: float
    cut_off: int
    assume: Assumption = "nothing"


@runtime_checkable
class Pieces(Protocol):
    """A log that can be read piece by piece, any number of times."""

    @property
    def longest(self) -> int:
        """Steps of the longest episode."""
        ...

    def __iter__(self) -> Iterator[Trajectories]:
        """Iterate over the pieces; rows of a piece without a step are padding, not episodes."""
        ...

    def sample(self, steps: int) -> Trajectories:
        """Draw random episodes with about this many steps in total."""
        ...


def numbers_of(case: Case) -> EpisodeNumbers:
    """Return the numbers of a case whose episodes are all in memory."""
    found = case.evidence
    return EpisodeNumbers(
        each(case.improvement),
        each(case.value),
        each(on_policy(found)),
        case.log_ratios,
        np.exp(whole_episode(found)),
        found.rewards.sum(axis=1),
        away(found),
        int((~found.seen.all(axis=1)).sum()),
        case.assume,
    )


def numbers_over(
    fitted: FittedEvidence,
    policies: Sequence[Policy],
    pieces: Iterable[Trajectories],
    behaviour: Policy | None = None,
) -> list[EpisodeNumbers]:
    """Return the numbers for each policy, from episodes that are read piece by piece, twice.

    Args:
      fitted: gives evidence on episodes of `fitted.horizon` steps, with Q fitted to other episodes.
      policies: policies that were chosen before anyone looked at these episodes.
      pieces: pieces of the log, such as shards; rows without a step do not count.
      behaviour: the policy that made the log, if known.
    """
    horizon, lasts = fitted.horizon, []
    for piece in pieces:
        cut = first_steps(piece, horizon)
        lasts.append(_last_seen(cut, horizon))
        behaviour = behaviour if behaviour is not None and made(behaviour, cut) else None
    last_seen = np.concatenate(lasts)
    below = np.cumsum(np.bincount(last_seen, minlength=horizon + 1)[::-1])[::-1][1:]
    by_policy = [fitted.of(policy) for policy in policies]
    by_behaviour = None if behaviour is None else fitted.of(behaviour)
    found = [_Numbers(below) for _ in policies]
    for number, piece in enumerate(pieces):
        cut = first_steps(piece, horizon)
        rows = np.asarray(cut.mask)[:, 0]
        base = None if by_behaviour is None else as_behaviour(by_behaviour(cut, number))
        for one, evidence_at in zip(found, by_policy, strict=True):
            one.add(Case(evidence_at(cut, number), ROBUST, base), rows)
    return [one.numbers(last_seen) for one in found]


def _last_seen(piece: Trajectories, horizon: int) -> np.ndarray:
    """How many steps were seen of each row that has any; all of them if it terminated."""
    mask = np.asarray(piece.mask)
    steps = np.where(np.asarray(piece.terminated), horizon, mask.sum(axis=1))
    return np.asarray(steps[mask[:, 0]])


class _Numbers:
    """The numbers collected from the pieces so far."""

    def __init__(self, below: np.ndarray) -> None:
        self.gains, self.worths, self.logged = (_Sum(below) for _ in range(3))
        self.log_ratios: list[np.ndarray] = []
        self.returns: list[np.ndarray] = []
        self.away, self.horizon = 0.0, len(below)

    def add(self, case: Case, rows: np.ndarray) -> None:
        found = case.evidence
        terms = (case.improvement, case.value, on_policy(found))
        steps = found.mask.shape[1]
        for total, one in zip((self.gains, self.worths, self.logged), terms, strict=True):
            total.add((one.numerators * one.signs)[rows].reshape(rows.sum(), -1, steps))
        self.log_ratios.append(whole_episode(found)[rows])
        self.returns.append(found.rewards.sum(axis=1)[rows])
        self.away = max(self.away, away(found))

    def numbers(self, last_seen: np.ndarray) -> EpisodeNumbers:
        log_ratios = np.concatenate(self.log_ratios)
        return EpisodeNumbers(
            self.gains.each(last_seen),
            self.worths.each(last_seen),
            self.logged.each(last_seen),
            log_ratios,
            np.exp(log_ratios),
            np.concatenate(self.returns),
            self.away,
            int((last_seen < self.horizon).sum()),
        )


class _Sum:
    """`ratio_sums.each` over pieces, where every denominator says whether a step was seen.

    With A_t and B_t, the sums over all episodes, it is value + N Σ_t (n_t - d_t A_t / B_t) / B_t.
    d_t is one up to the last step that was seen, so that part is a sum up to there.
    """

    def __init__(self, below: np.ndarray) -> None:
        self.below = np.where(below > 0, below, 1.0)
        self.above = np.zeros(len(below))
        self.parts: list[np.ndarray] = []

    def add(self, signed: np.ndarray) -> None:
        """`[N, K, T]` numerators."""
        by_step, steps = signed.sum(axis=1), signed.shape[2]
        self.above[:steps] += by_step.sum(axis=0)
        self.parts.append(by_step @ (1 / self.below[:steps]))

    def each(self, last_seen: np.ndarray) -> np.ndarray:
        parts = np.concatenate(self.parts)
        value = float(np.sum(self.above / self.below))
        counted = np.concatenate([[0.0], np.cumsum(self.above / self.below**2)])
        return np.asarray(value + len(parts) * (parts - counted[last_seen]))
