"""The default: a better policy from a log.

Fit an ensemble, climb the all-action gradient in it, ask the ensemble what the policy is worth.
"""

from gamps.learner.border import draw_border
from gamps.learner.imagined_return import promised, worth
from gamps.learner.learner import Learner, learn
from gamps.learner.model_classes import Classes, ModelClass, model_classes
from gamps.learner.types import Outcome, Progress, RunState, Settings

__all__ = [
    "Classes",
    "Learner",
    "ModelClass",
    "Outcome",
    "Progress",
    "RunState",
    "Settings",
    "draw_border",
    "learn",
    "model_classes",
    "promised",
    "worth",
]
