"""Fresh actions at logged states, for policies that have moved away from the log's."""

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
    """Fresh actions of the current policy at logged states: no action needs a ratio.

    The states are those of the log, or where a few imagined steps of the current policy lead from
    them; that the log's states are not quite the policy's is what this gradient neglects, where
    the ratios of whole trajectories would leave it two or three effective ones. All states count
    alike, without γ^t, and the actions of a state are summed. Where actions are choices, each is
    taken once and counts by its probability: the sum is exact.

    Attributes:
      states: so many logged steps, drawn anew each iteration.
      actions: fresh ones at each, half of them mirrored around the middle one; of choices, all.
      roll: the states are moved 0 to so many imagined steps on, each number equally likely.
    """

    states: int = eqx.field(default=500, static=True)
    actions: int = eqx.field(default=8, static=True)
    roll: int = eqx.field(default=0, static=True)

    def __check_init__(self) -> None:
        if self.states < 1 or self.roll < 0:
            raise SettingError("states", f"{self.states}, roll {self.roll}", "Draw at least one")
        if self.actions < 2 or self.actions % 2:
            raise SettingError("actions", f"{self.actions}", "Draw an even number, mirrored pairs")

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Model,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Pairs:
        """One row a state, one column an action; ratios of one."""
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
    """States some imagined steps on; one whose trajectory ends before that stays where it was.

    Were it taken where it ended, short episodes would leave little but their last states. Of an
    ensemble, another member may make each step.
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
