"""Off-policy evaluation: estimate a policy's value from the log of another policy.

`estimators` are sums over trajectories (`Terms`), `intervals` work on any of them, and the
`difference` of two is paired. `evaluate` decides whether a policy may be deployed, or which rung of
a ladder.
"""

from gamps.evaluation.aggregate import iqm, stratified
from gamps.evaluation.balance import balanced
from gamps.evaluation.estimates import UNSPREAD, Assumption, Case, Estimate, cases, estimates
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
from gamps.evaluation.guaranteed import bernstein, betting, guaranteed, guaranteed_gain
from gamps.evaluation.intervals import Interval, bootstrap, interval_of, student
from gamps.evaluation.judgement import Evaluation, Judgement, evaluate, judge
from gamps.evaluation.ladder import Rung, rungs
from gamps.evaluation.ladder_cases import ladder_cases, markov_cases
from gamps.evaluation.marginal import StateRatios
from gamps.evaluation.ratio_sums import Terms, difference, each, terms_by_group, value
from gamps.evaluation.simultaneous import critical_value
from gamps.evaluation.support import RatioSupport, Tail, graded, support
from gamps.evaluation.verdict import DEPLOY, NOT_SHOWN, WORSE, JudgedPolicy, Reason, Verdict

__all__ = [
    "DEPLOY",
    "ESTIMATORS",
    "NOT_SHOWN",
    "UNSPREAD",
    "WORSE",
    "Assumption",
    "Case",
    "Estimate",
    "Evaluation",
    "Evidence",
    "Fitted",
    "Interval",
    "JudgedPolicy",
    "Judgement",
    "RatioSupport",
    "Reason",
    "Rung",
    "StateRatios",
    "Tail",
    "Terms",
    "Verdict",
    "balanced",
    "bernstein",
    "betting",
    "bootstrap",
    "cases",
    "critical_value",
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
    "guaranteed_gain",
    "interval_of",
    "iqm",
    "judge",
    "ladder_cases",
    "markov_cases",
    "on_policy",
    "per_decision",
    "rungs",
    "self_normalised",
    "stratified",
    "student",
    "support",
    "terms_by_group",
    "value",
    "weighted_doubly_robust",
]
