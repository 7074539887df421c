"""Fresh actions at logged states, for policies that have moved away from the logging policy."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from gamps._utils.noise import normal
from gamps.errors import SettingError
from gamps.models import Model
from gamps.policies import Policy
from gamps.search.gradients.logged import Pairs
from gamps.search.importance import Ratios
from gamps.tasks import Task
from gamps.trajectories import Trajectories, flat


class AllActions(eqx.Module):
    """Fresh actions of the current policy at logged states, so that no action needs a ratio.

    The states are those of the log, or those that a few imagined steps of the current policy lead
    to from there. The gradient neglects that these are not quite the policy's own states; ratios of
    whole trajectories would leave two or three effective trajectories. All states count alike,
    without γ^t, and the actions of a state are summed. If actions are choices, each is taken once
    and weighted by its probability: the sum is exact.

    Attributes:
      states: number of logged steps, drawn anew each iteration.
      actions: fresh actions at each, half of them mirrored around the mean; all, for choices.
      roll: states are moved on by 0 to this many imagined steps, each number equally likely.
    """

    states: int = eqx.field(default=500, static=True)
    actions: int = eqx.field(default=8, static=True)
    roll: int = eqx.field(default=0, static=True)

    def __check_init__(self) -> None:
        if self.states < 1 or self.roll < 0:
            raise SettingError("states", f"{self.states}, roll {self.roll}", "Draw at least one")
        if self.actions < 2 or self.actions % 2:
            raise SettingError("actions", f"{self.actions}", "Draw an even number: mirrored pairs")

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Model,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Pairs:
        """One row per state, one column per action; ratios of one."""
        key_state, key_roll, key_action = jax.random.split(key, 3)
        mask = flat(trajectories.mask)
        dtype = ratios.discounted_rho.dtype
        share = mask / jnp.sum(mask)
        rows = jax.random.choice(key_state, len(mask), (self.states,), p=share)
        states = flat(trajectories.states)[rows]
        if self.roll:
            states = _rolled(key_roll, policy, model, task, states, self.roll)
        if policy.choices is None:
            half = normal(key_action, (self.states, self.actions // 2, policy.noise_size), dtype)
            noise = jnp.concatenate([half, -half], axis=1)
            actions = jax.vmap(jax.vmap(policy.act, (None, 0)))(states, noise)
        else:
            actions = jnp.broadcast_to(
                jnp.arange(policy.choices, dtype=trajectories.actions.dtype),
                (self.states, policy.choices),
            )
        shape = actions.shape[:2]
        log_prob = jax.vmap(jax.vmap(policy.log_prob, (None, 0)))(states, actions)
        counted = jnp.ones(shape, dtype) if policy.choices is None else jnp.exp(log_prob)
        fresh = Trajectories(
            observations=jnp.repeat(states[:, None], shape[1] + 1, axis=1),
            actions=actions,
            rewards=jnp.zeros(shape, dtype),
            behaviour_log_prob=log_prob,
            mask=jnp.ones(shape, bool),
            terminated=jnp.zeros(self.states, bool),
        )
        none = jnp.zeros((), dtype)
        return Pairs(fresh, Ratios(jnp.zeros(shape, dtype), counted, none))


def _rolled(
    key: Key[Array, ""], policy: Policy, model: Model, task: Task, states: Any, steps: int
) -> Any:
    """Move states on by imagined steps; if its trajectory ends before that, a state stays put.

    If it moved to where the trajectory ended, short episodes would leave little but last states.
    In an ensemble, each step may use another member.
    """
    key_count, key_noise = jax.random.split(key)
    counts = jax.random.randint(key_count, (len(states),), 0, steps + 1)
    states = states.astype(jnp.result_type(states, float))
    first = policy.noise_size
    noise = normal(key_noise, (steps, len(states), first + model.noise_size), states.dtype)

    def advance(state: Any, noise: Array) -> tuple[Any, Array]:
        action = policy.act(state, noise[:first])
        following = model.step(state, action, noise[first:]).astype(state.dtype)
        return following, task.terminal(state, action, following)

    def where(which: Array, chosen: Any, otherwise: Any) -> Any:
        return jnp.where(which.reshape(-1, *(1,) * (otherwise.ndim - 1)), chosen, otherwise)

    def step(carry: Any, now: tuple[Array, Array]) -> tuple[Any, None]:
        (states, alive), (i, noise) = carry, now
        following, ends = jax.vmap(advance)(states, noise)
        moves = alive & (i < counts)
        return (where(moves, following, states), alive & ~(moves & ends)), None

    start = (states, jnp.ones(len(counts), bool))
    (moved, alive), _ = jax.lax.scan(step, start, (jnp.arange(steps), noise))
    return where(alive, moved, states)
