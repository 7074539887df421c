"""The policy gradient: the states and actions where it is taken, and the sum over them.

A `pairs` part is a callable `(key, policy, model, task, trajectories, ratios) -> Pairs`. Values and
baseline are then computed at these pairs.
"""

from gamps.search.gradients.all_actions import AllActions
from gamps.search.gradients.drawn import SubsampledPairs
from gamps.search.gradients.logged import Logged, Pairs, off_policy

__all__ = ["AllActions", "Logged", "Pairs", "SubsampledPairs", "off_policy"]
