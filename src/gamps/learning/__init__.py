"""The default: a better policy from a log, with the decisions that the log can take itself.

In rounds: choose the model class and how far ω is trusted, by held-out evidence; fit an ensemble;
climb the all-action gradient in it; ask the ensemble what the policy is worth.
"""

from gamps.learning.classes import Classes, ModelClass, classes_of
from gamps.learning.evidence import choose
from gamps.learning.rounds import Learner, learn
from gamps.learning.types import Outcome, Progress, Round, Settings
from gamps.learning.worth import worth

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
