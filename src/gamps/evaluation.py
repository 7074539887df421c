"""What a policy is worth by the log of another: off-policy evaluation."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps import importance
from gamps.policies import Policy
from gamps.trajectories import Trajectories


class Estimate(NamedTuple):
    """A value with its uncertainty.

    Attributes:
      mean: the estimate.
      standard_error: of it.
    """

    mean: float
    standard_error: float


def self_normalised(
    policy: Policy, trajectories: Trajectories, discount: Float[Array, ""] | float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Self-normalised per-decision importance sampling, and its standard error.

    At every step the ratios are divided by their mean over trajectories; the error is that of a
    ratio of means (delta method), step by step along each trajectory.

    Args:
      policy: to be evaluated.
      trajectories: of the behaviour policy; shorter ones count as earning nothing after their end.
      discount: γ.

    Returns:
      The mean discounted return, and its standard error.
    """
    n = trajectories.n_trajectories
    log_rho = importance.log_rho(policy, trajectories)  # of an ended episode: its last ratio
    ratios = jnp.exp(log_rho - jnp.max(log_rho, axis=0))
    shares = ratios / jnp.sum(ratios, axis=0)
    discounts = jnp.asarray(discount) ** jnp.arange(trajectories.n_steps)
    rewards = jnp.where(trajectories.mask, trajectories.rewards, 0.0) * discounts
    at_step = jnp.sum(shares * rewards, axis=0)
    influence = jnp.sum(shares * (rewards - at_step), axis=1)
    error = jnp.sqrt(jnp.sum(influence**2) * n / jnp.maximum(n - 1, 1))
    return jnp.sum(at_step), error
