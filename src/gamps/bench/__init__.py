"""Speed, as ratios in one run: the library against the bare engine and against alternatives."""

from gamps.bench.noise import noise
from gamps.bench.rollouts import rollouts

__all__ = ["noise", "rollouts"]
