"""Stochastic policies: `log_prob(observation, action)`, `act(observation, noise)`, `sample`."""

from gamps.policies.boltzmann import Boltzmann
from gamps.policies.description import describe, rebuild
from gamps.policies.features import Affine, OneHot, RadialBasis
from gamps.policies.gaussian import Annealed, Bent, Gaussian, LinearGaussian, MLPGaussian
from gamps.policies.types import Policy, log_probs, natural_units, score_norms

__all__ = [
    "Affine",
    "Annealed",
    "Bent",
    "Boltzmann",
    "Gaussian",
    "LinearGaussian",
    "MLPGaussian",
    "OneHot",
    "Policy",
    "RadialBasis",
    "describe",
    "log_probs",
    "natural_units",
    "rebuild",
    "score_norms",
]
