"""What is subtracted from the values: it leaves the gradient's mean and lowers its variance."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps.errors import SettingError
from gamps.importance import Ratios
from gamps.policies import Policy, score_norms
from gamps.trajectories import Trajectories
from gamps.values.types import Values


def _mean_over_trajectories(
    weights: Float[Array, "N T"], weighted_values: Float[Array, "N T"]
) -> Float[Array, "N T"]:
    """Σ_i w v / Σ_i w at each step; zero where no trajectory has weight left."""
    total = jnp.sum(weights, axis=0)
    mean = jnp.sum(weighted_values, axis=0) / jnp.where(total > 0, total, 1.0)
    return jnp.broadcast_to(jnp.where(total > 0, mean, 0.0), weights.shape)


class NoBaseline(eqx.Module):
    """b = 0: the paper's estimator to the letter."""

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """Zeros."""
        del policy, trajectories, ratios
        return jnp.zeros_like(values.weighted_q_values)


class PerTime(eqx.Module):
    """b_t = Σ_i ρ_{0:t} Q_t / Σ_i ρ_{0:t}, the reweighted mean value at each step.

    It is computed from the same trajectories that it is subtracted from, so the gradient has a
    bias of order 1/N, as with any batch-mean baseline.
    """

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """One number a step, for all trajectories."""
        del policy, trajectories
        return _mean_over_trajectories(ratios.discounted_rho, values.weighted_q_values)


class MinimumVariance(eqx.Module):
    """b_t = Σ_i ρ² ‖score‖² Q / Σ_i ρ² ‖score‖²: of all numbers b_t, the one of least variance.

    Unlike `PerTime` it does not look at steps whose score is zero, where a gradient-aware model
    may be arbitrarily wrong.
    """

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """One number a step, for all trajectories."""
        squares = jnp.where(trajectories.mask, score_norms(policy, trajectories, q=2.0) ** 2, 0.0)
        sway = ratios.discounted_rho * squares
        return _mean_over_trajectories(
            ratios.discounted_rho * sway, values.weighted_q_values * sway
        )


class StateValue(eqx.Module):
    """b = V(s_t), for value estimators that know it."""

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """V at the logged states."""
        del policy, trajectories, ratios
        if values.state_values is None:
            raise SettingError(
                "baseline",
                "StateValue, but these values come without a V(s)",
                "Use MinimumVariance() with logged returns",
            )
        return values.state_values
