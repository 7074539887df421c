"""Check whether a log contradicts what an estimate assumes about it."""

from collections.abc import Sequence

import numpy as np

from gamps.evaluation.estimates import Case
from gamps.evaluation.estimators import away, on_policy
from gamps.evaluation.ratio_sums import by_group, each
from gamps.evaluation.support import POOR, graded
from gamps.evaluation.verdict import Reason, same

MOST = 2.5  # largest difference between estimates of the same value, in standard errors
ROUNDING = 1e-12  # of the variance: both kinds of ratio are computed in different precision


def disagreement(
    by_states: Sequence[Case], by_histories: Sequence[Case], groups: np.ndarray | None = None
) -> Reason | None:
    """Why estimates that assume Markov observations are not trusted; None if they are.

    Near the logging policy, ratios of histories need no assumption, and the log's own return is the
    value of the logging policy. So both kinds of estimate must agree there.

    Args:
      by_states: a case for each policy, with ratios of states.
      by_histories: the same policies and the same Q, with ratios of histories.
      groups: the group of each episode, if only groups are independent.
    """
    apart = [
        _in_errors(each(one.value), each(other.value), groups)
        for one, other in zip(by_states, by_histories, strict=True)
        if graded(other.log_ratios).grade != POOR and same(away(other.evidence)) is None
    ]
    if not apart:
        why = "no rung is close enough to the logging policy to check that observations are Markov"
        return Reason(why, "Evaluate without --assume markov, or log more episodes")
    base = by_histories[0].base
    if base is not None and base.state_values is not None:
        of_starts = base.state_values[:, 0]
        apart.append(_in_errors(each(on_policy(base)), of_starts, groups, fitted=True))
    worst = float(np.abs(apart).max())
    if not worst <= MOST:  # nan is no agreement
        why = (
            f"estimates that assume Markov observations differ from those that do not by "
            f"{worst:.1f} standard errors; chance explains at most {MOST:g}"
        )
        return Reason(why, "Evaluate without --assume markov, or observe more of the state")
    return None


def _in_errors(
    one: np.ndarray, other: np.ndarray, groups: np.ndarray | None, *, fitted: bool = False
) -> float:
    """The difference of two means in standard errors.

    `fitted`: the second numbers are those of a fit to as many other episodes.
    """
    numbers = by_group(one - other, groups)
    spread = by_group(one, groups).var(ddof=1)
    variance = numbers.var(ddof=1) + (spread if fitted else ROUNDING * spread)
    return float(numbers.mean() / np.sqrt(variance / len(numbers) + 1e-300))
