"""What a policy is worth by the log of another: off-policy evaluation.

`estimators` are sums over trajectories (`Terms`), `intervals` work on any of them, and a
`difference` of two is paired. `judge` says what may be done with the policy.
"""

from gamps.evaluation.estimators import (
    ESTIMATORS,
    Evidence,
    direct,
    doubly_robust,
    effective,
    evidence,
    on_policy,
    per_decision,
    self_normalised,
    weighted_doubly_robust,
)
from gamps.evaluation.intervals import Interval, bernstein, bootstrap, student
from gamps.evaluation.terms import Terms, difference, each, value
from gamps.evaluation.verdict import Support, Verdict, evidence_of, judge, support

__all__ = [
    "ESTIMATORS",
    "Evidence",
    "Interval",
    "Support",
    "Terms",
    "Verdict",
    "bernstein",
    "bootstrap",
    "difference",
    "direct",
    "doubly_robust",
    "each",
    "effective",
    "evidence",
    "evidence_of",
    "judge",
    "on_policy",
    "per_decision",
    "self_normalised",
    "student",
    "support",
    "value",
    "weighted_doubly_robust",
]
