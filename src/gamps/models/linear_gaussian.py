"""The paper's minigolf model: mean and standard deviation linear in features."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps.linear import regress
from gamps.models.gaussian import GaussianDifference, concatenated
from gamps.models.types import ClosedFormModel
from gamps.settings import number

# Relative to the diagonal: keeps the solve finite when all weight is on one transition.
RIDGE = 1e-6


class Regression(NamedTuple):
    """Weighted sums over transitions; those of two shards add up.

    Attributes:
      gram: `[F, F]`, Σ ω φ φᵀ.
      differences: `[F, D]`, Σ ω φ ε.
      deviations: `[F, D]`, Σ ω φ |ε - mean|.
    """

    gram: Float[Array, "F F"]
    differences: Float[Array, "F D"]
    deviations: Float[Array, "F D"]


class LinearGaussian(GaussianDifference, ClosedFormModel):
    """ε ~ N(V_μᵀ φ(s, a), V_σᵀ φ(s, a)).

    The closed-form fit is weighted least squares of ε on φ in a first pass over the log, and of
    |ε - mean| √(π/2), whose expectation is the standard deviation, in a second.

    Attributes:
      mean_weights: `[F, D]`, V_μ.
      std_weights: `[F, D]`, V_σ.
      features: φ, a function of one observation and one action; their concatenation by default.
      least_std: floor of the standard deviation, since a linear function may turn negative.
    """

    mean_weights: Float[Array, "*seeds F D"]
    std_weights: Float[Array, "*seeds F D"]
    features: Callable[[Any, Any], Float[Array, "F"]] = concatenated
    least_std: Float[Array, "*seeds"] | float = number(1e-3)

    @property
    def noise_size(self) -> int:
        """One number a dimension of the observation."""
        return int(self.mean_weights.shape[-1])

    @property
    def passes(self) -> int:
        """The second is for the standard deviation around the mean that the first found."""
        return 2

    def moments(self, observation: Any, action: Any) -> tuple[Float[Array, "D"], Float[Array, "D"]]:
        """Both linear in the features."""
        features = self.features(observation, action)
        least = jax.lax.stop_gradient(self.least_std)
        std = jnp.maximum(self.std_weights.T @ features, least)
        return self.mean_weights.T @ features, std

    def statistics(
        self,
        observations: Float[Array, "n D"],
        actions: Any,
        next_observations: Float[Array, "n D"],
        weights: Float[Array, "n"],
    ) -> Regression:
        """Sums for both regressions, the second around the present mean."""
        features = jax.vmap(self.features)(observations, actions)
        differences = self.difference(observations, next_observations)
        weighted = (features * weights[:, None]).T
        return Regression(
            gram=weighted @ features,
            differences=weighted @ differences,
            deviations=weighted @ jnp.abs(differences - features @ self.mean_weights),
        )

    def from_statistics(self, statistics: Regression) -> LinearGaussian:
        """Weighted least squares."""
        right = jnp.concatenate([statistics.differences, statistics.deviations], axis=1)
        mean, deviation = jnp.split(regress(statistics.gram, right, ridge=RIDGE), 2, axis=1)
        std = math.sqrt(math.pi / 2) * deviation
        return LinearGaussian(mean, std, self.features, self.least_std, rectified=self.rectified)
