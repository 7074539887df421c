"""What a policy is worth by the log of another: off-policy evaluation.

`estimators` are sums over trajectories (`Terms`), `intervals` work on any of them, and a
`difference` of two is paired. `running` is the estimate that a training is judged by as it runs.
"""

from gamps.evaluation.estimators import (
    ESTIMATORS,
    Evidence,
    direct,
    doubly_robust,
    evidence,
    on_policy,
    per_decision,
    self_normalised,
    weighted_doubly_robust,
)
from gamps.evaluation.intervals import Interval, bernstein, bootstrap, student
from gamps.evaluation.running import Estimate, running
from gamps.evaluation.terms import Terms, difference, each, value
from gamps.evaluation.verdict import Verdict, evidence_of, judge

__all__ = [
    "ESTIMATORS",
    "Estimate",
    "Evidence",
    "Interval",
    "Terms",
    "Verdict",
    "bernstein",
    "bootstrap",
    "difference",
    "direct",
    "doubly_robust",
    "each",
    "evidence",
    "evidence_of",
    "judge",
    "on_policy",
    "per_decision",
    "running",
    "self_normalised",
    "student",
    "value",
    "weighted_doubly_robust",
]
