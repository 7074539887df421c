"""How much each logged transition counts when the model is fitted (ω of eq. objectiveP).

A weighting is a callable `(policy, trajectories, ratios) -> weights [N, T]`. Weights may
be off by a common factor, which does not move the maximiser of a likelihood.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps.errors import SettingError
from gamps.importance import Ratios
from gamps.policies import Policy, score_norms
from gamps.trajectories import Trajectories


class GradientAware(eqx.Module):
    """ω_t = γ^t ρ_{0:t} Σ_{l≤t} ‖∇ log π(a_l|s_l)‖_q, the weights of GAMPS.

    Attributes:
      q: order of the norm, 1 ≤ q ≤ ∞; the paper uses 2.
    """

    q: float = eqx.field(default=2.0, static=True)

    def __check_init__(self) -> None:
        if not self.q >= 1:
            raise SettingError("q", f"{self.q}", "A norm needs q ≥ 1; use math.inf for the maximum")

    def __call__(
        self,
        policy: Policy,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Float[Array, "N T"]:
        """`[N, T]`, zero where padded."""
        norms = jnp.where(trajectories.mask, score_norms(policy, trajectories, q=self.q), 0.0)
        return ratios.discounted_rho * jnp.cumsum(norms, axis=1)


class Ones(eqx.Module):
    """Every logged transition counts alike: maximum likelihood."""

    def __call__(
        self,
        policy: Policy,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Float[Array, "N T"]:
        """`[N, T]`, one on real steps."""
        del policy
        return trajectories.mask.astype(ratios.discounted_rho.dtype)
