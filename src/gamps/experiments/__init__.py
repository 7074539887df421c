"""The paper's tables and figures, one short file each, and the commands that make them."""

from gamps.experiments.bounds import bounds
from gamps.experiments.gridworld import gridworld
from gamps.experiments.minigolf import minigolf
from gamps.experiments.qnorm import qnorm
from gamps.experiments.table1 import table1
from gamps.experiments.weights import weights

__all__ = ["bounds", "gridworld", "minigolf", "qnorm", "table1", "weights"]
