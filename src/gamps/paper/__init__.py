"""The paper's tables and figures, in one short file each, and the commands that make them."""

from gamps.paper.bounds import bounds
from gamps.paper.gridworld import gridworld
from gamps.paper.minigolf import minigolf
from gamps.paper.qnorm import qnorm
from gamps.paper.swimmer import swimmer
from gamps.paper.table1 import table1
from gamps.paper.weights import weights

__all__ = ["bounds", "gridworld", "minigolf", "qnorm", "swimmer", "table1", "weights"]
