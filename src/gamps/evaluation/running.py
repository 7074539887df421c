"""The estimate that a training is judged by as it runs, inside one compiled call."""

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
      standard_error: of it; meaningless where `ess` is small.
      ess: effective number of episodes, at the step where it is least.
    """

    mean: Float[Array, ""]
    standard_error: Float[Array, ""]
    ess: Float[Array, ""]


def running(
    policy: Policy, trajectories: Trajectories, discount: Float[Array, ""] | float
) -> Estimate:
    """Self-normalised per-decision importance sampling, and its standard error.

    At every step the ratios are divided by their sum over the episodes that were still seen then:
    one that the environment ended earns nothing from there on, one that was cut off is left out.
    The error is that of a ratio of means (delta method), step by step along each trajectory; it
    falls with the weights that carry it, so look at `ess` first.

    Args:
      policy: to be evaluated.
      trajectories: of the behaviour policy.
      discount: γ.

    Returns:
      The mean discounted return, its standard error, and the effective number of episodes.
    """
    mask, n = trajectories.mask, trajectories.n_trajectories
    seen = mask | trajectories.terminated[:, None]
    # Of an ended episode: its last ratio.
    log_rho = jnp.where(seen, importance.log_rho(policy, trajectories), -jnp.inf)
    largest = jnp.max(log_rho, axis=0)
    ratios = jnp.exp(log_rho - jnp.where(jnp.isfinite(largest), largest, 0.0))
    total = jnp.sum(ratios, axis=0)
    shares = ratios / jnp.where(total > 0, total, 1.0)
    discounts = jnp.asarray(discount) ** jnp.arange(trajectories.n_steps)
    rewards = jnp.where(mask, trajectories.rewards, 0.0) * discounts
    at_step = jnp.sum(shares * rewards, axis=0)
    influence = jnp.sum(shares * (rewards - at_step), axis=1)
    error = jnp.sqrt(jnp.sum(influence**2) * n / jnp.maximum(n - 1, 1))
    squares = jnp.sum(shares**2, axis=0)
    ess = jnp.min(jnp.where(squares > 0, 1 / jnp.where(squares > 0, squares, 1.0), 0.0))
    return Estimate(jnp.sum(at_step), error, ess)
