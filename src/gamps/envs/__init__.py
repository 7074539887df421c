"""Environments: one file each, registered with Gymnasium; thousands run in one jitted call.

Importing this package registers `gamps/TwoAreas-v0`, `gamps/Minigolf-v0`, `gamps/TwoTanks-v0`.
"""

import gymnasium

from gamps.envs.minigolf import Minigolf
from gamps.envs.rollouts import collect
from gamps.envs.tanks import TwoTanks
from gamps.envs.two_areas import LAYOUTS, Layout, TwoAreas

__all__ = ["LAYOUTS", "Layout", "Minigolf", "TwoAreas", "TwoTanks", "collect"]

for name, module in (("TwoAreas", "two_areas"), ("Minigolf", "minigolf"), ("TwoTanks", "tanks")):
    if f"gamps/{name}-v0" not in gymnasium.registry:
        gymnasium.register(f"gamps/{name}-v0", entry_point=f"gamps.envs.{module}:make")
