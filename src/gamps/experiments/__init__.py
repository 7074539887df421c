"""The paper's tables and figures, one short file each, and the commands that make them."""

from gamps.experiments.ablation import ablation
from gamps.experiments.awareness import awareness
from gamps.experiments.bounds import bounds
from gamps.experiments.coverage import coverage
from gamps.experiments.drawn import drawn
from gamps.experiments.exploration import exploration
from gamps.experiments.gridworld import gridworld
from gamps.experiments.minigolf import minigolf
from gamps.experiments.qnorm import qnorm
from gamps.experiments.safety import safety
from gamps.experiments.swimmer import swimmer
from gamps.experiments.table1 import table1
from gamps.experiments.weights import weights

__all__ = [
    "ablation",
    "awareness",
    "bounds",
    "coverage",
    "drawn",
    "exploration",
    "gridworld",
    "minigolf",
    "qnorm",
    "safety",
    "swimmer",
    "table1",
    "weights",
]
