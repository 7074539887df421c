"""Transition models: `log_prob(observation, action, next_observation)`, `step`, `sample`."""

from gamps.models.ensemble import Ensemble, LogRange
from gamps.models.features import Quadratic, RandomFourier, products
from gamps.models.finite import ActionEffect, Tabular
from gamps.models.gaussian import GaussianDifference, WithChoice, WithinLimits, concatenated
from gamps.models.linear_gaussian import LinearGaussianModel
from gamps.models.mlp_gaussian import MLPGaussianModel
from gamps.models.outcomes import Quality, learned_task, quality
from gamps.models.types import ClosedFormModel, FiniteModel, Model

__all__ = [
    "ActionEffect",
    "ClosedFormModel",
    "Ensemble",
    "FiniteModel",
    "GaussianDifference",
    "LinearGaussianModel",
    "LogRange",
    "MLPGaussianModel",
    "Model",
    "Quadratic",
    "Quality",
    "RandomFourier",
    "Tabular",
    "WithChoice",
    "WithinLimits",
    "concatenated",
    "learned_task",
    "products",
    "quality",
]
