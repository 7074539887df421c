"""What is subtracted from the values: it leaves the gradient's mean and lowers its variance."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps.importance import Ratios
from gamps.models import FiniteModel
from gamps.policies import Policy, score_norms
from gamps.tasks import Task
from gamps.trajectories import Trajectories
from gamps.values.exact import action_value_table


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
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Any,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
        weighted_q_values: Float[Array, "N T"],
    ) -> Float[Array, "N T"]:
        """Zeros."""
        del key, policy, model, task, trajectories, ratios
        return jnp.zeros_like(weighted_q_values)


class PerTime(eqx.Module):
    """b_t = Σ_i ρ_{0:t} Q_t / Σ_i ρ_{0:t}, the reweighted mean value at each step.

    It is computed from the same trajectories that it is subtracted from, so the gradient has a
    bias of order 1/N, as with any batch-mean baseline.
    """

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Any,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
        weighted_q_values: Float[Array, "N T"],
    ) -> Float[Array, "N T"]:
        """One number a step, for all trajectories."""
        del key, policy, model, task, trajectories
        return _mean_over_trajectories(ratios.discounted_rho, weighted_q_values)


class MinimumVariance(eqx.Module):
    """b_t = Σ_i ρ² ‖score‖² Q / Σ_i ρ² ‖score‖²: of all numbers b_t, the one of least variance.

    Unlike `PerTime` it does not look at steps whose score is zero, where a gradient-aware model
    may be arbitrarily wrong.
    """

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Any,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
        weighted_q_values: Float[Array, "N T"],
    ) -> Float[Array, "N T"]:
        """One number a step, for all trajectories."""
        del key, model, task
        squares = jnp.where(trajectories.mask, score_norms(policy, trajectories, q=2.0) ** 2, 0.0)
        importance = ratios.discounted_rho * squares
        return _mean_over_trajectories(
            ratios.discounted_rho * importance, weighted_q_values * importance
        )


class StateValue(eqx.Module):
    """b = V(s_t) of the model, by exact solution."""

    horizon: int | None = None

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: FiniteModel,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
        weighted_q_values: Float[Array, "N T"],
    ) -> Float[Array, "N T"]:
        """V at the logged states."""
        del key, weighted_q_values
        q_values, pi = action_value_table(policy, model, task, horizon=self.horizon)
        states = jax.vmap(jax.vmap(model.index))(trajectories.states)
        values = jnp.sum(pi * q_values, axis=1)[states]
        return values.astype(ratios.discounted_rho.dtype)
