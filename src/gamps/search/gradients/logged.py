"""The gradient of the paper, at every logged pair, and the sum that all `pairs` parts share."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps.models import Model
from gamps.policies import Policy, log_probs
from gamps.search.importance import Ratios
from gamps.tasks import Task
from gamps.trajectories import Trajectories


class Pairs(NamedTuple):
    """States and actions where the gradient is taken, in the shape of a log, and their ratios."""

    trajectories: Trajectories
    ratios: Ratios


class Logged(eqx.Module):
    """The logged pairs with the ratios of their trajectories (eq. gradient_estimate)."""

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Model | None,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Pairs:
        """All logged pairs."""
        del key, policy, model, task
        return Pairs(trajectories, ratios)


def off_policy(
    policy: Policy, trajectories: Trajectories, weighted_advantages: Float[Array, "N T"]
) -> Policy:
    """(1/N) Σ_i Σ_t γ^t ρ_{0:t} (Q - b) ∇ log π(a_t|s_t), from advantages up to a common scale.

    It is one reverse pass through the sum of weighted log-densities; no per-sample score is kept.

    Returns:
      The gradient as a policy-shaped tree: arrays where `policy` has floating-point arrays, None
      elsewhere; on the scale of the advantages.
    """
    used = trajectories.mask & (weighted_advantages != 0)
    # A trajectory without a step is only padding of a shard.
    count = jnp.sum(trajectories.mask[:, 0])

    @eqx.filter_grad
    def surrogate(policy: Policy) -> Array:
        terms = jnp.where(used, weighted_advantages * log_probs(policy, trajectories), 0.0)
        return jnp.sum(terms) / count

    gradient: Policy = surrogate(policy)
    return gradient
