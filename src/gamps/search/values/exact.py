"""Exact values in a finite model: the known task with the estimated transitions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps.errors import SettingError
from gamps.exact import tabular
from gamps.models import FiniteModel, Model
from gamps.policies import Policy
from gamps.search.importance import Ratios
from gamps.search.values.types import Values
from gamps.tasks import Task
from gamps.trajectories import Trajectories


def imagined_mdp(model: FiniteModel, task: Task) -> tabular.MDP:
    """The finite MDP that consists of a model and the known task.

    A terminal transition keeps its reward and loses its probability, so nothing follows it.
    The initial distribution is uniform and does not affect Q.
    """
    states, transitions = model.states(), model.transitions()
    actions = jnp.arange(transitions.shape[1])

    def everywhere(function: Any) -> Array:
        over_next = jax.vmap(function, in_axes=(None, None, 0))
        over_actions = jax.vmap(over_next, in_axes=(None, 0, None))
        return jax.vmap(over_actions, in_axes=(0, None, None))(states, actions, states)

    rewards = everywhere(task.reward).astype(transitions.dtype)
    goes_on = jnp.where(everywhere(task.terminal), 0.0, transitions)
    return tabular.MDP(
        transitions=goes_on,
        rewards=jnp.sum(transitions * rewards, axis=-1),
        initial=jnp.full(len(states), 1 / len(states), dtype=transitions.dtype),
        discount=jnp.asarray(task.discount, transitions.dtype),
    )


def value_tables(
    policy: Policy, model: FiniteModel, task: Task, *, horizon: int | None = None
) -> tuple[Float[Array, "S A"], Float[Array, "S"]]:
    """Q and V of the policy in the imagined MDP."""
    mdp = imagined_mdp(model, task)
    pi = tabular.policy_table(policy, model.states(), mdp.rewards.shape[1])
    q_values = tabular.action_values(mdp, pi, horizon=horizon)
    return q_values, jnp.sum(pi * q_values, axis=1)


class Exact(eqx.Module):
    """Q of the model by a linear solve (eq. dynamic_programming_q); for γ < 1.

    Reward, termination and policy are evaluated at `model.states()`, one observation per state.
    With γ = 1 give a horizon: a model that never ends an episode has no finite value.

    Attributes:
      horizon: number of sweeps of dynamic programming; None for the infinite horizon.
    """

    horizon: int | None = eqx.field(default=None, static=True)

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Model,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Values:
        """Q at the logged pairs, V at the logged states."""
        del key
        if not isinstance(model, FiniteModel):
            raise SettingError(
                "values",
                f"Exact(), but {type(model).__name__} has no table of states",
                "Use values=Imagined(rollouts=10, horizon=20)",
            )
        q_values, v = value_tables(policy, model, task, horizon=self.horizon)
        states = jax.vmap(jax.vmap(model.index))(trajectories.states)
        return Values(ratios.discounted_rho * q_values[states, trajectories.actions], v[states])
