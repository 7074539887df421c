"""How much of a log speaks of a policy, by its ratios and by what each episode adds to it."""

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
# doubly robust estimate's interval is right with good support and a little short with fair support,
# where its bounds are therefore taken with half the error (`benchmarks.studies coverage`).
LIMITS = {GOOD: (30.0, 0.5, 0.7), FAIR: (10.0, 0.0, 1.0)}
# Of ratios of states, which are fitted: where few episodes carry them their own error is not small.
STATE_LIMITS = {GOOD: (30.0, 0.5, 0.7), FAIR: (10.0, 0.05, 1.0)}
Limits = dict[str, tuple[float, float, float]]
LEAST = 25  # episodes that a tail index can be had of
MOST_TAIL = 0.7  # tail index of the gain, beyond which its spread says little
MOST_INFLUENCE = 0.8  # share of the gain's variance that one episode may carry


class RatioSupport(NamedTuple):
    """How much of the log speaks of the policy.

    Attributes:
      ess: effective number of episodes, by the ratios of whole episodes.
      pareto_k: tail index of the same.
      grade: good, fair or poor.
    """

    ess: float
    pareto_k: float
    grade: str


class Tail(NamedTuple):
    """How an estimated gain is spread over the episodes: ratio times residual, not ratio alone.

    Attributes:
      pareto_k: tail index of the episodes' distance from the mean.
      influence: the largest share of the variance that one episode carries.
    """

    pareto_k: float
    influence: float


def support(policy: Policy, trajectories: Trajectories) -> RatioSupport:
    """ESS and Pareto-k of whole-episode ratios, and what they are good for."""
    return graded(_log_ratios(policy, trajectories))


@eqx.filter_jit
def _log_ratios(policy: Policy, trajectories: Trajectories) -> Array:
    log_rho = importance.log_rho(policy, trajectories)
    return importance.whole_episode(log_rho, trajectories.mask)


def graded(log_ratios: Any, limits: Limits = LIMITS) -> RatioSupport:
    """The same from the logarithms of ratios, one an episode; the tail in double precision."""
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
    """Of numbers whose mean is the estimated gain, one an episode."""
    apart = np.abs(gains - gains.mean())
    if not apart.any():
        return Tail(0.0, 0.0)
    with np.errstate(divide="ignore"):
        k = float(importance.pareto_k(np.log(apart)))
    return Tail(k, float((apart**2).max() / (apart**2).sum()))
