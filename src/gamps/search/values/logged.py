"""Values from the log itself, without a model, as PGT and REINFORCE use them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from gamps.errors import SettingError
from gamps.policies import Policy
from gamps.search.importance import Ratios, whole_episode
from gamps.search.values.types import Values
from gamps.tasks import Task
from gamps.trajectories import Trajectories

LARGEST_LOG_RATIO = 60.0


class PerDecisionReturn(eqx.Module):
    """Q_t = Σ_{l≥t} γ^{l-t} ρ_{t+1:l} r_l, the logged return-to-go, reweighted step by step.

    Times γ^t ρ_{0:t} it is Σ_{l≥t} γ^l ρ_{0:l} r_l, which needs no ratio of ratios.

    Attributes:
      horizon: number of rewards to count from each step on; None counts all that follow.
    """

    horizon: int | None = eqx.field(default=None, static=True)

    def __check_init__(self) -> None:
        if self.horizon is not None and self.horizon < 1:
            raise SettingError("horizon", f"{self.horizon}", "Count at least one reward, or None")

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Any,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Values:
        """The reweighted return-to-go; no V."""
        del key, policy, model, task
        rewards = jnp.where(trajectories.mask, ratios.discounted_rho * trajectories.rewards, 0.0)
        if self.horizon is None:
            return Values(jnp.cumsum(rewards[:, ::-1], axis=1)[:, ::-1])
        # Sum term by term: a difference of long sums would lose terms with small ratios.
        ahead = jnp.pad(rewards, ((0, 0), (0, self.horizon - 1)))
        return Values(
            jax.lax.reduce_window(ahead, 0.0, jax.lax.add, (1, self.horizon), (1, 1), "valid")
        )


class EpisodeReturn(eqx.Module):
    """The whole discounted return times the ratio of the whole episode, at every step.

    γ^t ρ_{0:t} Q_t = ρ_{0:T-1} Σ_l γ^l r_l.
    """

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Any,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Values:
        """The same number at every step of an episode; no V."""
        del key, policy, model
        rewards = trajectories.rewards
        steps = jnp.arange(trajectories.n_steps, dtype=rewards.dtype)
        discounts = jnp.asarray(task.discount, rewards.dtype) ** steps
        returns = jnp.sum(jnp.where(trajectories.mask, discounts * rewards, 0.0), axis=1)
        log_ratio = whole_episode(ratios.log_rho, trajectories.mask) - ratios.log_scale
        # Without a discount ρ can exceed the scale by γ^-T: too much for float32 on long episodes.
        weighted = jnp.exp(jnp.minimum(log_ratio, LARGEST_LOG_RATIO)) * returns
        return Values(jnp.where(trajectories.mask, weighted[:, None], 0.0))
