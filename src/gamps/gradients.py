"""The off-policy policy gradient on logged trajectories (eq. gradient_estimate)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps.policies import Policy, log_probs
from gamps.trajectories import Trajectories


def off_policy(
    policy: Policy, trajectories: Trajectories, weighted_advantages: Float[Array, "N T"]
) -> Policy:
    """(1/N) Σ_i Σ_t γ^t ρ_{0:t} (Q - b) ∇ log π(a_t|s_t).

    One reverse pass through the sum of weighted log-densities; no per-sample score is kept.

    Args:
      policy: where the gradient is taken.
      trajectories: the logged states and actions.
      weighted_advantages: `[N, T]`, γ^t ρ_{0:t} (Q - b) up to a common scale.

    Returns:
      The gradient as a policy-shaped tree: arrays where `policy` has floating-point arrays, None
      elsewhere; on the scale of the advantages.
    """
    used = trajectories.mask & (weighted_advantages != 0)

    @eqx.filter_grad
    def surrogate(policy: Policy) -> Array:
        terms = jnp.where(used, weighted_advantages * log_probs(policy, trajectories), 0.0)
        return jnp.sum(terms) / trajectories.n_trajectories

    gradient: Policy = surrogate(policy)
    return gradient
