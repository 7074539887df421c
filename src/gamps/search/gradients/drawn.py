"""A sample of the logged pairs: the user sets the cost of an iteration, not the log."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key

from gamps.errors import SettingError
from gamps.models import Model
from gamps.policies import Policy, score_norms
from gamps.search.gradients.logged import Pairs
from gamps.search.importance import Ratios
from gamps.search.sampling import drawn, single
from gamps.tasks import Task
from gamps.trajectories import Trajectories


class SubsampledPairs(eqx.Module):
    """Logged pairs drawn in proportion to γ^t ρ_{0:t} ‖∇ log π(a_t|s_t)‖, and corrected for it.

    The gradient keeps its mean exactly. A pair that is not drawn needs no Q, so the user sets the
    number of rollouts, which are nearly all of an iteration's cost. The whole log needs only one
    pass of densities and scores. Drawn pairs differ only in their score's direction and in Q.

    Attributes:
      steps: number of pairs, drawn anew each iteration with one random number and equal strides,
        which spreads them over the log.
    """

    steps: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.steps < 1:
            raise SettingError("steps", f"{self.steps}", "Draw at least one")

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Model | None,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Pairs:
        """One row of one step for each pair."""
        del model, task
        norms = jnp.where(trajectories.mask, score_norms(policy, trajectories, q=2.0), 0.0)
        shares = ratios.discounted_rho * norms
        rows, steps = drawn(key, shares, self.steps)
        at = single(trajectories, rows, steps)
        count = jnp.sum(trajectories.mask[:, 0])
        # γ^t ρ / (N p), in which γ^t ρ cancels; pairs with a zero score are never drawn.
        norm = norms[rows, steps]
        rho = jnp.sum(shares) / count / jnp.where(norm > 0, norm, 1.0)
        log_rho = ratios.log_rho[rows, steps]
        return Pairs(at, Ratios(log_rho[:, None], rho[:, None], ratios.log_scale))
