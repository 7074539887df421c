"""Whether a log speaks against what an estimate assumes of it."""

from collections.abc import Sequence

import numpy as np

from gamps.evaluation.estimates import Case
from gamps.evaluation.estimators import away, on_policy
from gamps.evaluation.ratio_sums import each
from gamps.evaluation.support import POOR, graded
from gamps.evaluation.verdict import Reason, same

MOST = 2.5  # standard errors between estimates of the same value


def disagreement(assuming: Sequence[Case], plain: Sequence[Case], learned: int) -> Reason | None:
    """Why estimates that assume Markov observations are not believed; None if they may be.

    Near the logging policy the ratios of histories need no assumption, and the log's own return is
    the value of the logging policy: there both kinds have to agree.

    Args:
      assuming: a case for each policy, by ratios of states.
      plain: the same policies by ratios of histories.
      learned: episodes that Q and ratios are fitted to.
    """
    near = [
        _apart(each(one.value) - each(other.value))
        for one, other in zip(assuming, plain, strict=True)
        if graded(other.log_ratios).grade != POOR and same(away(other.evidence)) is None
    ]
    if not near:
        why = "no rung is near enough to the logging policy to check that observations are Markov"
        return Reason(why, "Judge without --assume markov, or log more episodes")
    base = plain[0].base
    if base is not None and base.state_values is not None:
        returns, fitted = each(on_policy(base)), base.state_values[:, 0]
        error = np.sqrt((returns - fitted).var(ddof=1) / len(returns) + returns.var() / learned)
        near.append(float((returns - fitted).mean() / (error + 1e-300)))
    worst = max(near, key=abs)
    if abs(worst) > MOST:
        why = (
            f"estimates that assume Markov observations differ from those that assume nothing by "
            f"{abs(worst):.1f} standard errors, at most {MOST:g} can be chance"
        )
        return Reason(why, "Judge without --assume markov, or observe more of the state")
    return None


def _apart(numbers: np.ndarray) -> float:
    return float(numbers.mean() / (numbers.std(ddof=1) / np.sqrt(len(numbers)) + 1e-300))
