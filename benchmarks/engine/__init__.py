"""Speed, as ratios in one run: the library against the bare engine and against alternatives."""

from benchmarks.engine.iteration import iteration
from benchmarks.engine.noise import noise
from benchmarks.engine.rollouts import rollouts
from benchmarks.engine.scale import scale

__all__ = ["iteration", "noise", "rollouts", "scale"]
