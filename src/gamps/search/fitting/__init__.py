"""Weighted maximum likelihood (eq. objectiveP).

A fit is a callable `(key, model, trajectories, weights) -> (model, loss)`, where the loss is the
weighted mean of -log p̂ after fitting.
"""

from gamps.search.fitting.closed_form import ClosedForm, Keep, negative_log_likelihood
from gamps.search.fitting.descent import GradientDescent, Minibatches
from gamps.search.fitting.drawn import SubsampledFit
from gamps.search.fitting.members import EachMember

__all__ = [
    "ClosedForm",
    "EachMember",
    "GradientDescent",
    "Keep",
    "Minibatches",
    "SubsampledFit",
    "negative_log_likelihood",
]
