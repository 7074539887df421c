"""The default learner: a better policy from a log.

It climbs on the log as far as the log supports, then on the all-action gradient in an ensemble of
models, and returns the policy that promises more. Numbered states and actions get a table.
"""

from gamps.learner.border import draw_border
from gamps.learner.finite import FiniteLearner, is_finite
from gamps.learner.imagined_return import promised, worth
from gamps.learner.learner import Learner, learn
from gamps.learner.model_classes import Classes, ModelClass, model_classes
from gamps.learner.types import Outcome, Progress, RunState, Settings

__all__ = [
    "Classes",
    "FiniteLearner",
    "Learner",
    "ModelClass",
    "Outcome",
    "Progress",
    "RunState",
    "Settings",
    "draw_border",
    "is_finite",
    "learn",
    "model_classes",
    "promised",
    "worth",
]
