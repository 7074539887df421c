"""How much a log can say about a policy, from its ratios and from what each episode adds."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gamps.policies import Policy
from gamps.search import importance
from gamps.trajectories import Trajectories

GOOD, FAIR, POOR = "good", "fair", "poor"
# Least effective episodes, their least share of all, and the largest tail index of the ratios. The
# doubly robust estimate's interval is right with good support. With fair support it is a little
# short, so its bounds then use half the error (`benchmarks.studies coverage`).
LIMITS = {GOOD: (30.0, 0.5, 0.7), FAIR: (10.0, 0.0, 1.0)}
# For ratios of states. These are fitted, and with few effective episodes their error is not small.
STATE_LIMITS = {GOOD: (30.0, 0.5, 0.7), FAIR: (10.0, 0.05, 1.0)}
Limits = dict[str, tuple[float, float, float]]
LEAST = 25  # episodes needed to estimate a tail index
MOST_TAIL = 0.7  # above this tail index the spread of the gain says little
MOST_INFLUENCE = 0.8  # largest share of the gain's variance that one episode may have


class RatioSupport(NamedTuple):
    """How much the log can say about the policy.

    Attributes:
      ess: effective number of episodes, from the ratios of whole episodes.
      pareto_k: tail index of the same ratios.
      grade: good, fair or poor.
    """

    ess: float
    pareto_k: float
    grade: str


class Tail(NamedTuple):
    """How an estimated gain is spread over the episodes: ratio times residual, not ratio alone.

    Attributes:
      pareto_k: tail index of the episodes' distances from the mean.
      influence: the largest share of the variance that comes from one episode.
    """

    pareto_k: float
    influence: float


def support(policy: Policy, trajectories: Trajectories) -> RatioSupport:
    """Return ESS and Pareto-k of the whole-episode ratios, and the grade that follows from them."""
    return graded(_log_ratios(policy, trajectories))


@eqx.filter_jit
def _log_ratios(policy: Policy, trajectories: Trajectories) -> Array:
    log_rho = importance.log_rho(policy, trajectories)
    return importance.whole_episode(log_rho, trajectories.mask)


def graded(log_ratios: Any, limits: Limits = LIMITS) -> RatioSupport:
    """`support` from one log-ratio for each episode; the tail is computed in double precision."""
    ratios = np.asarray(log_ratios, np.float64)
    if not np.isfinite(ratios).any():
        return RatioSupport(0.0, math.inf, POOR)
    ess = float(_effective(jnp.asarray(ratios)))
    k = float(importance.pareto_k(ratios))
    for grade, (least, share, most) in limits.items():
        if ess >= max(least, share * len(ratios)) and not k > most:
            return RatioSupport(ess, k, grade)
    return RatioSupport(ess, k, POOR)


_effective = jax.jit(importance.effective_sample_size)


def tail(gains: np.ndarray) -> Tail:
    """The tail of a gain, from one number for each episode; their mean is the estimated gain."""
    apart = np.abs(gains - gains.mean())
    if not apart.any():
        return Tail(0.0, 0.0)
    with np.errstate(divide="ignore"):
        k = float(importance.pareto_k(np.log(apart)))
    return Tail(k, float((apart**2).max() / (apart**2).sum()))
