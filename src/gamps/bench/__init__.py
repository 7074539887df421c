"""Speed, as ratios in one run: the library against the bare engine and against alternatives."""

from gamps.bench.iteration import iteration
from gamps.bench.noise import noise
from gamps.bench.rollouts import rollouts
from gamps.bench.scale import scale

__all__ = ["iteration", "noise", "rollouts", "scale"]
