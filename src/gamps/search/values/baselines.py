"""Baselines, which are subtracted from the values: the gradient's mean stays, its variance falls.

A baseline returns the product γ^t ρ_{0:t} b. With extreme ratios the product is finite even where b
is not.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps._utils.fields import number
from gamps._utils.linear import regress
from gamps.errors import SettingError
from gamps.models import products
from gamps.policies import Policy, score_norms
from gamps.search.importance import Ratios
from gamps.search.values.types import Values
from gamps.trajectories import Trajectories, flat


def _normalised(values: Float[Array, "N T"], total: Float[Array, "T"]) -> Float[Array, "N T"]:
    """Values divided by total; zero where no trajectory has any weight left."""
    left = total >= jnp.finfo(total.dtype).tiny
    return jnp.where(left, values / jnp.where(left, total, 1.0), 0.0)


class NoBaseline(eqx.Module):
    """b = 0: the paper's own estimator."""

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """Zeros."""
        del policy, trajectories, ratios
        return jnp.zeros_like(values.weighted_q_values)


class PerTime(eqx.Module):
    """b_t = Σ_i ρ_{0:t} Q_t / Σ_i ρ_{0:t}, the reweighted mean value at each step.

    It is computed from the trajectories that it is subtracted from, so the gradient has a bias of
    order 1/N, as with any batch-mean baseline.
    """

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """ρ times one number for each step."""
        del policy, trajectories
        share = _normalised(ratios.discounted_rho, jnp.sum(ratios.discounted_rho, axis=0))
        return share * jnp.sum(values.weighted_q_values, axis=0)


class MinimumVariance(eqx.Module):
    """b_t = Σ_i ρ² ‖score‖² Q / Σ_i ρ² ‖score‖²: the number of least variance at each step.

    It ignores covariances between steps and, like `PerTime`, has a bias of order 1/N.

    Unlike `PerTime` it ignores steps whose score is zero, where a gradient-aware model may be
    arbitrarily wrong.
    """

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """ρ times one number for each step; zero where the score is zero."""
        squares = jnp.where(trajectories.mask, score_norms(policy, trajectories, q=2.0) ** 2, 0.0)
        rho = jnp.where(squares > 0, ratios.discounted_rho, 0.0)
        rho = _normalised(rho, jnp.max(rho, axis=0))  # the square of a tiny ratio would vanish
        share = _normalised(rho, jnp.sum(rho**2 * squares, axis=0))
        return share * jnp.sum(rho * squares * values.weighted_q_values, axis=0)


class StateValue(eqx.Module):
    """b = V(s_t), for value estimators that provide it."""

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """ρ V at the logged states."""
        del policy, trajectories
        if values.state_values is None:
            raise SettingError(
                "baseline",
                "StateValue, but these values have no V(s)",
                "Use MinimumVariance() with logged returns",
            )
        return ratios.discounted_rho * values.state_values


class OthersOfState(eqx.Module):
    """b = mean Q of the other actions in the same row, for `gradients.AllActions`.

    An action's own value and that of its mirror image, half a row away, depend on the action.
    Leaving both out keeps the gradient unbiased.
    """

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """The mean of the products γ^t ρ Q, since all of a row have the same γ^t ρ."""
        del policy, ratios
        q_values = values.weighted_q_values
        count = trajectories.n_steps
        if count < 4 or count % 2:
            raise SettingError("baseline", f"OthersOfState with {count}", "Draw two pairs or more")
        mirrored = jnp.roll(q_values, count // 2, axis=1)
        total = jnp.sum(q_values, axis=1, keepdims=True)
        return (total - q_values - mirrored) / (count - 2)


class Regression(eqx.Module):
    """b = wᵀ φ(s_t), a weighted least-squares fit of the values: a V(s) that needs no model.

    Like `PerTime` it is fitted to the trajectories that it is subtracted from.

    Attributes:
      features: φ, a function of one observation.
      ridge: ridge penalty, relative to the regression's diagonal.
    """

    features: Callable[[Any], Float[Array, "F"]] = products
    ridge: Float[Array, "*seeds"] | float = number(1e-4)

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios, values: Values
    ) -> Float[Array, "N T"]:
        """ρ b at the logged states."""
        del policy
        rho = ratios.discounted_rho
        features = jax.vmap(self.features)(flat(trajectories.states)).astype(rho.dtype)
        features = jnp.where(flat(trajectories.mask)[:, None], features, 0.0)
        gram = features.T @ (flat(rho)[:, None] * features)
        moments = features.T @ flat(values.weighted_q_values)
        weights = regress(gram, moments[:, None], ridge=self.ridge)
        return rho * (features @ weights).reshape(rho.shape)
