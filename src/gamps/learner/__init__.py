"""The default: a better policy from a log, with the decisions that the log can take itself.

In rounds: choose the model class and how far ω is trusted, by held-out evidence; fit an ensemble;
climb the all-action gradient in it; ask the ensemble what the policy is worth.
"""

from gamps.learner.imagined_return import worth
from gamps.learner.learner import Learner, learn
from gamps.learner.model_classes import Classes, ModelClass, model_classes
from gamps.learner.model_selection import choose
from gamps.learner.types import Candidate, Outcome, Progress, Round, RunState, Settings

__all__ = [
    "Candidate",
    "Classes",
    "Learner",
    "ModelClass",
    "Outcome",
    "Progress",
    "Round",
    "RunState",
    "Settings",
    "choose",
    "learn",
    "model_classes",
    "worth",
]
