"""The default: a better policy from a log, with the decisions that the log can take itself.

In rounds: choose the model class and how far ω is trusted, by held-out evidence; fit an ensemble;
climb the all-action gradient in it; ask the ensemble what the policy is worth.
"""

from gamps.learner.imagined_return import worth
from gamps.learner.learner import Learner, learn
from gamps.learner.model_classes import Classes, ModelClass, classes_of
from gamps.learner.model_selection import choose
from gamps.learner.types import Outcome, Progress, Round, Settings

__all__ = [
    "Classes",
    "Learner",
    "ModelClass",
    "Outcome",
    "Progress",
    "Round",
    "Settings",
    "choose",
    "classes_of",
    "learn",
    "worth",
]
