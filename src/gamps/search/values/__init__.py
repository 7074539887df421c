"""Action values at the logged pairs, and the baselines subtracted from them.

A value estimator is a callable `(key, policy, model, task, trajectories, ratios) -> Values`; a
baseline is a callable `(policy, trajectories, ratios, values) -> weighted_baseline [N, T]`. Both
are multiplied by γ^t ρ_{0:t}; the gradient weights the scores by their difference.
"""

from gamps.search.values.advantages import ValueNetwork, logged_advantages, value_network, value_of
from gamps.search.values.baselines import (
    MinimumVariance,
    NoBaseline,
    OthersOfState,
    PerTime,
    Regression,
    StateValue,
)
from gamps.search.values.exact import Exact
from gamps.search.values.fitted import FittedQ, LinearQ
from gamps.search.values.imagined import Imagined
from gamps.search.values.logged import EpisodeReturn, PerDecisionReturn
from gamps.search.values.rollouts import Border
from gamps.search.values.types import Values

__all__ = [
    "Border",
    "EpisodeReturn",
    "Exact",
    "FittedQ",
    "Imagined",
    "LinearQ",
    "MinimumVariance",
    "NoBaseline",
    "OthersOfState",
    "PerDecisionReturn",
    "PerTime",
    "Regression",
    "StateValue",
    "ValueNetwork",
    "Values",
    "logged_advantages",
    "value_network",
    "value_of",
]
