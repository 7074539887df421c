"""Weighted maximum likelihood (eq. objectiveP).

A fit is a callable `(key, model, trajectories, weights) -> (model, loss)`, where the loss is the
weighted mean of -log p̂ after fitting.
"""

from gamps.fitting.closed_form import ClosedForm, Keep, negative_log_likelihood
from gamps.fitting.descent import GradientDescent, Minibatches
from gamps.fitting.drawn import Drawn
from gamps.fitting.members import EachMember

__all__ = [
    "ClosedForm",
    "Drawn",
    "EachMember",
    "GradientDescent",
    "Keep",
    "Minibatches",
    "negative_log_likelihood",
]
