"""Studies of the library, one command each: `python -m benchmarks.studies NAME`."""

from benchmarks.studies.ablation import ablation
from benchmarks.studies.awareness import awareness
from benchmarks.studies.certificate import certificate
from benchmarks.studies.coverage import coverage
from benchmarks.studies.drawn import drawn
from benchmarks.studies.exploration import exploration
from benchmarks.studies.false_deploys import false_deploys
from benchmarks.studies.null_campaigns import null_campaigns
from benchmarks.studies.safe_improvement import safe_improvement
from benchmarks.studies.two_controllers import two_controllers

__all__ = [
    "ablation",
    "awareness",
    "certificate",
    "coverage",
    "drawn",
    "exploration",
    "false_deploys",
    "null_campaigns",
    "safe_improvement",
    "two_controllers",
]
