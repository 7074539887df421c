"""Studies of the library, one command each: `python -m benchmarks.studies NAME`."""

from benchmarks.studies.ablation import ablation
from benchmarks.studies.awareness import awareness
from benchmarks.studies.coverage import coverage
from benchmarks.studies.drawn import drawn
from benchmarks.studies.exploration import exploration
from benchmarks.studies.safety import safety

__all__ = ["ablation", "awareness", "coverage", "drawn", "exploration", "safety"]
