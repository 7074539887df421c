"""Action values at the logged pairs, and the baselines subtracted from them.

A value estimator is a callable `(key, policy, model, task, trajectories, ratios) -> Values`; a
baseline is a callable `(policy, trajectories, ratios, values) -> b [N, T]`. The gradient then uses
γ^t ρ_{0:t} (Q - b).
"""

from gamps.values.baselines import MinimumVariance, NoBaseline, PerTime, StateValue
from gamps.values.exact import Exact
from gamps.values.logged import EpisodeReturn, PerDecisionReturn
from gamps.values.types import Values

__all__ = [
    "EpisodeReturn",
    "Exact",
    "MinimumVariance",
    "NoBaseline",
    "PerDecisionReturn",
    "PerTime",
    "StateValue",
    "Values",
]
