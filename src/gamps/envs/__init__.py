"""Environments: one file each, registered with Gymnasium, running by the thousand in one jit.

Importing this package registers `gamps/TwoAreas-v0`.
"""

import gymnasium

from gamps.envs.rollouts import collect
from gamps.envs.two_areas import LAYOUTS, Layout, TwoAreas

__all__ = ["LAYOUTS", "Layout", "TwoAreas", "collect"]

if "gamps/TwoAreas-v0" not in gymnasium.registry:
    gymnasium.register("gamps/TwoAreas-v0", entry_point="gamps.envs.two_areas:make")
