"""The paper's minigolf model: mean and standard deviation linear in features."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps._utils.fields import number
from gamps._utils.linear import regress
from gamps.models.gaussian import GaussianDifference, concatenated
from gamps.models.types import ClosedFormModel

# Relative to the diagonal: keeps the solve finite when all weight is on one transition.
RIDGE = 1e-6
# The least standard deviation of a reweighted model, as a share of the usual one.
LEAST_SHARE = 0.25
SMALLEST = 1e-9  # where a dimension is predicted exactly, or never changes
UNBIASED = math.sqrt(math.pi / 2)  # standard deviation of a normal over its mean deviation


class RegressionStats(NamedTuple):
    """Weighted sums over transitions; sums of two shards add up.

    Attributes:
      gram: `[F, F]`, Σ ω φ φᵀ.
      precise: `[D, F, F]`, Σ ω φ φᵀ / σ², for means weighted by precision; otherwise None.
      differences: `[F, D]`, Σ ω φ ε, divided by σ² if there is `precise`.
      deviations: `[F, D]`, Σ ω φ |ε - mean|.
      usual: `[2, D]`, Σ ω |ε - mean| and Σ ω.
    """

    gram: Float[Array, "F F"]
    precise: Float[Array, "D F F"] | None
    differences: Float[Array, "F D"]
    deviations: Float[Array, "F D"]
    usual: Float[Array, "2 D"]


def _one_dimension(gram: Float[Array, "F F"], moments: Float[Array, "F"]) -> Float[Array, "F"]:
    return regress(gram, moments[:, None], ridge=RIDGE)[:, 0]


class LinearGaussianModel(GaussianDifference, ClosedFormModel):
    """ε ~ N(V_μᵀ φ(s, a), V_σᵀ φ(s, a)).

    The closed-form fit is weighted least squares: of ε on φ in a first pass over the log, and of
    |ε - mean| √(π/2), whose expectation is the standard deviation, in a second pass.

    Attributes:
      mean_weights: `[F, D]`, V_μ.
      std_weights: `[F, D]`, V_σ.
      features: φ, a function of one observation and one action; their concatenation by default.
      least_std: floor of the standard deviation, since a linear function may become negative.
      reweighted: repeat both regressions with every transition weighted by 1/σ² of the previous
        fit, so that uncertain transitions do not drown out certain ones.
    """

    mean_weights: Float[Array, "*seeds F D"]
    std_weights: Float[Array, "*seeds F D"]
    features: Callable[[Any, Any], Float[Array, "F"]] = concatenated
    least_std: Float[Array, "*seeds"] | float = number(1e-3)
    reweighted: bool = eqx.field(default=False, static=True, kw_only=True)

    @property
    def noise_size(self) -> int:
        """One number per dimension of the observation."""
        return int(self.mean_weights.shape[-1])

    @property
    def passes(self) -> int:
        """Two, mean then standard deviation around it; four if `reweighted`."""
        return 4 if self.reweighted else 2

    def moments(self, observation: Any, action: Any) -> tuple[Float[Array, "D"], Float[Array, "D"]]:
        """Mean and standard deviation of ε, both linear in the features."""
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
    ) -> RegressionStats:
        """Sums for both regressions, the second around the current mean."""
        # By columns, so that a feature is a row: products of two features multiply rows.
        features = jax.vmap(self.features, out_axes=-1)(observations, actions)
        differences = self.difference(observations, next_observations).T
        weighted = features * weights
        apart = jnp.abs(differences - self.mean_weights.T @ features)
        precise, moments = None, weighted @ differences.T
        if self.reweighted:
            least = jnp.broadcast_to(self.least_std, apart.shape[:1])[:, None]
            precision = 1 / jnp.maximum(self.std_weights.T @ features, least) ** 2
            # One dimension at a time: all at once would need D times the log's features.
            precise = jax.lax.map(lambda p: (weighted * p) @ features.T, precision)
            moments = weighted @ (precision * differences).T
        return RegressionStats(
            gram=weighted @ features.T,
            precise=precise,
            differences=moments,
            deviations=weighted @ apart.T,
            usual=jnp.stack([apart @ weights, jnp.full(len(apart), jnp.sum(weights))]),
        )

    def from_statistics(self, statistics: RegressionStats) -> LinearGaussianModel:
        """Fit by weighted least squares."""
        gram, precise, moments, deviations, (total, weight) = statistics
        least = self.least_std
        if precise is None:
            right = jnp.concatenate([moments, deviations], axis=1)
            mean, deviation = jnp.split(regress(gram, right, ridge=RIDGE), 2, axis=1)
        else:
            mean = jax.vmap(_one_dimension)(precise, moments.T).T
            deviation = regress(gram, deviations, ridge=RIDGE)
            # A linear deviation gets close to zero somewhere, but nothing is that precise.
            least = jnp.maximum(LEAST_SHARE * UNBIASED * total / weight, SMALLEST)
        std = UNBIASED * deviation
        return LinearGaussianModel(
            mean, std, self.features, least, reweighted=self.reweighted, rectified=self.rectified
        )
