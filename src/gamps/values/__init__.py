"""Action values at the logged pairs, and the baselines subtracted from them.

A value estimator is a callable

    (key, policy, model, task, trajectories, ratios) -> weighted_q_values [N, T]

that returns γ^t ρ_{0:t} Q(s_t, a_t), the ratio and the value as one product: the ratios of a logged
return go on past `t`, and only the product stays finite when they are extreme. A baseline is a
callable with the same arguments and `weighted_q_values` that returns b `[N, T]`; the gradient then
uses γ^t ρ_{0:t} (Q - b). All share the scale that `importance.exponentiate` took out.
"""

from gamps.values.baselines import MinimumVariance, NoBaseline, PerTime, StateValue
from gamps.values.exact import Exact
from gamps.values.logged import EpisodeReturn, PerDecisionReturn

__all__ = [
    "EpisodeReturn",
    "Exact",
    "MinimumVariance",
    "NoBaseline",
    "PerDecisionReturn",
    "PerTime",
    "StateValue",
]
