"""Check whether a log contradicts what an estimate assumes about it."""

from collections.abc import Sequence

import numpy as np

from gamps.evaluation.estimates import Case
from gamps.evaluation.estimators import away, on_policy
from gamps.evaluation.ratio_sums import each
from gamps.evaluation.support import POOR, graded
from gamps.evaluation.verdict import Reason, same

MOST = 2.5  # largest difference between estimates of the same value, in standard errors


def disagreement(assuming: Sequence[Case], plain: Sequence[Case], learned: int) -> Reason | None:
    """Why estimates that assume Markov observations are not trusted; None if they are.

    Near the logging policy, ratios of histories need no assumption, and the log's own return is the
    value of the logging policy. So both kinds of estimate must agree there.

    Args:
      assuming: a case for each policy, with ratios of states.
      plain: the same policies with ratios of histories.
      learned: number of episodes that the Q of `plain` is fitted to.
    """
    near = [
        _apart(each(one.value) - each(other.value))
        for one, other in zip(assuming, plain, strict=True)
        if graded(other.log_ratios).grade != POOR and same(away(other.evidence)) is None
    ]
    if not near:
        why = "no rung is close enough to the logging policy to check that observations are Markov"
        return Reason(why, "Evaluate without --assume markov, or log more episodes")
    base = plain[0].base
    if base is not None and base.state_values is not None:
        returns, fitted = each(on_policy(base)), base.state_values[:, 0]
        error = np.sqrt((returns - fitted).var(ddof=1) / len(returns) + returns.var() / learned)
        near.append(float((returns - fitted).mean() / (error + 1e-300)))
    worst = max(near, key=abs)
    if abs(worst) > MOST:
        why = (
            f"estimates that assume Markov observations differ from those that do not by "
            f"{abs(worst):.1f} standard errors; chance explains at most {MOST:g}"
        )
        return Reason(why, "Evaluate without --assume markov, or observe more of the state")
    return None


def _apart(numbers: np.ndarray) -> float:
    return float(numbers.mean() / (numbers.std(ddof=1) / np.sqrt(len(numbers)) + 1e-300))
