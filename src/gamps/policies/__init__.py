"""Stochastic policies: `log_prob(observation, action)`, `act(observation, noise)`, `sample`."""

from gamps.policies.boltzmann import Boltzmann, Sharpened
from gamps.policies.description import describe, rebuild
from gamps.policies.features import Affine, OneHot, RadialBasis
from gamps.policies.gaussian import (
    Annealed,
    Gaussian,
    LinearGaussianPolicy,
    MLPGaussianPolicy,
    SoftClipped,
)
from gamps.policies.paths import Mixture, between
from gamps.policies.types import Policy, log_probs, natural_units, score_norms

__all__ = [
    "Affine",
    "Annealed",
    "Boltzmann",
    "Gaussian",
    "LinearGaussianPolicy",
    "MLPGaussianPolicy",
    "Mixture",
    "OneHot",
    "Policy",
    "RadialBasis",
    "Sharpened",
    "SoftClipped",
    "between",
    "describe",
    "log_probs",
    "natural_units",
    "rebuild",
    "score_norms",
]
