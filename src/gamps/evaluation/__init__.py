"""What a policy is worth by the log of another: off-policy evaluation.

`estimators` are sums over trajectories (`Terms`), `intervals` work on any of them, and a
`difference` of two is paired. `judge` says what may be done with the policy.
"""

from gamps.evaluation.aggregate import iqm, stratified
from gamps.evaluation.estimates import (
    UNSPREAD,
    Case,
    Estimate,
    Evaluation,
    cases,
    estimates,
    evaluate,
)
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
from gamps.evaluation.fitted_q import Fitted, fitted_q
from gamps.evaluation.intervals import (
    Interval,
    bernstein,
    bootstrap,
    guaranteed,
    interval_of,
    student,
)
from gamps.evaluation.ratio_sums import Terms, difference, each, value
from gamps.evaluation.verdict import RatioSupport, Verdict, graded, judge, support

__all__ = [
    "ESTIMATORS",
    "UNSPREAD",
    "Case",
    "Estimate",
    "Evaluation",
    "Evidence",
    "Fitted",
    "Interval",
    "RatioSupport",
    "Terms",
    "Verdict",
    "bernstein",
    "bootstrap",
    "cases",
    "difference",
    "direct",
    "doubly_robust",
    "each",
    "effective",
    "estimates",
    "evaluate",
    "evidence",
    "fitted_q",
    "graded",
    "guaranteed",
    "interval_of",
    "iqm",
    "judge",
    "on_policy",
    "per_decision",
    "self_normalised",
    "stratified",
    "student",
    "support",
    "value",
    "weighted_doubly_robust",
]
