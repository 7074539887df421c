"""ω and its parts, one of which is looked at by itself."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps._utils.fields import number
from gamps.policies import Policy, score_norms
from gamps.search.importance import Ratios
from gamps.search.weights import tempered
from gamps.trajectories import Trajectories

WEIGHTS = ("ML", "ratio", "score", "ω", "√ω")
POWER = {"ML": 0.0, "√ω": 0.5}


class Weighting(eqx.Module):
    """γ^t times the ratio, times the sum of the norms of the scores, or without one of the two.

    Attributes:
      name: one of `WEIGHTS`.
      discount: γ.
    """

    name: str = eqx.field(static=True)
    discount: Float[Array, "*seeds"] | float = number()

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios
    ) -> Float[Array, "N T"]:
        """`[N, T]`, of mean one."""
        mask = trajectories.mask
        omega = ratios.discounted_rho
        if self.name == "score":
            omega = Ratios.of(jnp.zeros_like(omega), mask, self.discount).discounted_rho
        if self.name in ("score", "ω", "√ω"):
            norms = jnp.where(mask, score_norms(policy, trajectories, q=2.0), 0.0)
            omega = omega * jnp.cumsum(norms, axis=1)
        return tempered(omega, mask, POWER.get(self.name, 1.0))
