"""Imagined trajectories: the kernel where a search spends most of its time.

It is arranged for a CPU (`benchmarks.engine rollouts` measures it):
- *Columns.* The parts are written for one state and mapped over a trailing axis, so that a layer is
  weights times a matrix of columns. A block of two thousand stays in one core's cache. Wider blocks
  are split over threads, which on two cores takes as long and twice the work.
- *Noise is drawn beforehand*, not inside the scan: drawing it is three quarters of the naive time.
  All blocks share one draw, and noise differs within a block. So every Q̂ keeps its mean and its
  variance, but errors of states a block apart are correlated. Over forty blocks that doubles the
  variance of the gradient, in a third of the time. Half of the noise is the other half negated,
  which undoes the doubling. At equal time the two together were the best of six arrangements in
  all cases of `benchmarks.engine noise`; noise common to all states multiplies the variance by a
  hundred. A log of thousands of blocks should draw new noise from time to time.
- *Padding costs nothing.* Real steps are moved to the front, and the loop ends with the last block
  that contains one.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps._utils.noise import normal
from gamps.models import Ensemble, Model
from gamps.policies import Policy
from gamps.search.placement import shard_by_shard
from gamps.tasks import Task
from gamps.trajectories import Trajectories

Sharing = Literal["blocks", "none", "all", "rows"]


class Border(NamedTuple):
    """What happens to an imagined trajectory that leaves the range of its model's log.

    It ends there with probability 1 - exp(-(beyond / width)²); otherwise it continues inside.

    Attributes:
      value: assumed value of what would have followed; low, whatever the sign of rewards.
      width: as a share of the width of the range.
    """

    value: Float[Array, "*seeds"]
    width: Float[Array, "*seeds"]


class Noise(NamedTuple):
    """Standard normal numbers of `B` imagined trajectories of `H` steps.

    Attributes:
      first: `[Z, B]`, for the first action where none is given.
      model: `[H, Z, B]`, for each transition.
      policy: `[H, Z, B]`, for the action after each transition.
    """

    first: Float[Array, "Zp B"]
    model: Float[Array, "H Zm B"]
    policy: Float[Array, "H Zp B"]


def draw(
    key: Key[Array, ""],
    policy: Policy,
    model: Model,
    *,
    starts: int,
    rollouts: int,
    horizon: int,
    antithetic: bool,
    dtype: Any,
) -> Noise:
    """Draw noise of `starts` × `rollouts` columns, with those of one start side by side.

    With `antithetic`, the second half of each start's rollouts uses the negated noise of the first.
    """
    drawn = rollouts // 2 if antithetic else rollouts

    def columns_of(key: Array, *shape: int) -> Array:
        noise = normal(key, (*shape, starts, drawn), dtype)
        if antithetic:
            noise = jnp.concatenate([noise, -noise], axis=-1)
        return noise.reshape(*shape, starts * rollouts)

    key_first, key_model, key_policy = jax.random.split(key, 3)
    return Noise(
        columns_of(key_first, policy.noise_size),
        columns_of(key_model, horizon, model.noise_size),
        columns_of(key_policy, horizon, policy.noise_size),
    )


def columns(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map a function of one state over the trailing axis of its arguments."""
    return jax.vmap(function, in_axes=-1, out_axes=-1)


def method_of_columns(module: Any, name: str, size: int) -> Callable[..., Any]:
    """`columns` of a module's method, without the transposes that mapping alone would add.

    Where a mapped matrix meets an unmapped vector (a bias), JAX moves the mapped axis to the front,
    and the CPU then copies every layer to transpose it. So vectors are mapped too. They are
    repeated to `size` columns where they are used, so that the compiler can fuse that; repeating
    them once beforehand would cost as much as it saves.
    """

    def vector(leaf: Any) -> bool:
        return eqx.is_inexact_array(leaf) and leaf.ndim == 1

    arrays, static = eqx.partition(module, eqx.is_array)
    axes = jax.tree.map(lambda x: -1 if vector(x) else None, arrays)

    def call(arrays: Any, *arguments: Any) -> Any:
        return getattr(eqx.combine(arrays, static), name)(*arguments)

    def mapped(*arguments: Any) -> Any:
        repeated = jax.tree.map(
            lambda x: jnp.broadcast_to(x[:, None], (len(x), size)) if vector(x) else x, arrays
        )
        in_axes = (axes, *(-1 for _ in arguments))
        return jax.vmap(call, in_axes=in_axes, out_axes=-1)(repeated, *arguments)

    return mapped


def moves(model: Model, size: int) -> Callable[..., tuple[Any, tuple[Any, Array]]]:
    """Next observations of columns, the same confined to the ensemble's log, and how far beyond.

    A trajectory follows one member to its end, chosen by the first number of its first step. If the
    member changed at every step, the trajectory would jump between members. The code steps members
    one after the other: each is then weights times columns, as above.
    """
    if not isinstance(model, Ensemble):
        alone = method_of_columns(model, "step", size)
        none = jnp.zeros(size)

        def unbounded(states: Any, actions: Any, noise: Array, _: Array) -> Any:
            following = alone(states, actions, noise)
            return following, (following, none)

        return unbounded
    steps = [method_of_columns(model.member(i), "step", size) for i in range(model.size)]

    def move(states: Any, actions: Any, noise: Array, first: Array) -> Any:
        each = jnp.stack([step(states, actions, noise[1:]) for step in steps])
        following = columns(model.choose)(each, first[:1])
        return following, columns(model.confined)(following)

    return move


def returns(
    policy: Policy,
    model: Model,
    task: Task,
    noise: Noise,
    states: Any,
    actions: Any | None = None,
    tail: Callable[[Any, Any], Array] | None = None,
    border: Border | None = None,
) -> Float[Array, "B"]:
    """Discounted return of one imagined trajectory per column.

    Args:
      policy: acts after the first step.
      model: gives the next states.
      task: reward and termination of each imagined transition; nothing follows the end.
      noise: all randomness.
      states: `[..., B]`, where the trajectories start.
      actions: `[..., B]`, the first actions; drawn from the policy if None.
      tail: Q̂(s, a) of one pair, added with its discount where the horizon cut a trajectory off.
      border: where the range of an ensemble's log ends trajectories; None keeps them inside.
    """
    size = states.shape[-1]
    act = method_of_columns(policy, "act", size)
    advance = moves(model, size)
    reward, ends = columns(task.reward), columns(task.terminal)
    actions = act(states, noise.first) if actions is None else actions
    # A log of integers must not turn imagined states into integers.
    moved, *_ = jax.eval_shape(advance, states, actions, noise.model[0], noise.model[0])
    states = states.astype(jnp.result_type(states, moved.dtype))
    acted = jax.eval_shape(act, states, noise.first)
    actions = actions.astype(jnp.result_type(actions, acted.dtype))
    dtype = noise.first.dtype
    discount = jnp.asarray(task.discount, dtype)

    def step(carry: Any, drawn: tuple[Array, Array]) -> tuple[Any, None]:
        states, actions, weight, total = carry
        free, (following, beyond) = advance(states, actions, drawn[0], noise.model[0])
        free = free.astype(states.dtype)
        following = following.astype(states.dtype)
        gained = weight * reward(states, actions, following).astype(dtype)
        # A select, not a product: what is imagined after a trajectory's end may overflow.
        total = total + jnp.where(weight > 0, gained, 0.0)
        weight = jnp.where(ends(states, actions, free), 0.0, discount * weight)
        if border is not None:
            stays = jnp.exp(-((beyond / border.width) ** 2)).astype(dtype)
            lost = weight * (1 - stays) * border.value.astype(dtype)
            total = total + jnp.where(weight > 0, lost, 0.0)
            weight = jnp.where(weight > 0, weight * stays, 0.0)
        actions = act(following, drawn[1]).astype(actions.dtype)
        return (following, actions, weight, total), None

    ones = jnp.ones(size, dtype)
    start = (states, actions, ones, jnp.zeros_like(ones))
    (states, actions, weight, total), _ = jax.lax.scan(step, start, (noise.model, noise.policy))
    if tail is not None:
        rest = columns(tail)(states, actions).astype(dtype)
        total = total + jnp.where(weight > 0, weight * rest, 0.0)
    return total


def at_logged_steps(
    trajectories: Trajectories,
    evaluate: Callable[[Any], Callable[[Any, Any, Array], Float[Array, "starts"]]],
    *,
    starts: int,
    dtype: Any,
) -> Float[Array, "N T"]:
    """Evaluate every real step of the log, `starts` at a time; zero where padded.

    If the log lies on several devices, each evaluates its own steps.

    Args:
      trajectories: the log.
      evaluate: takes the number of real steps before the first and returns a function from states
        `[..., starts]`, actions `[..., starts]` and the block's number to one value for each start.
      starts: number of steps in a block.
      dtype: of the values.
    """

    def of_shard(log: Trajectories, before: Any) -> Float[Array, "N T"]:
        mask, evaluated = log.mask.ravel(), evaluate(before)
        # The place of each real step, and the step at each place; nothing is copied.
        place = jnp.cumsum(mask) - 1
        size = len(mask) + -len(mask) % starts
        numbers = jnp.arange(len(mask))
        order = jnp.zeros(size, numbers.dtype)
        order = order.at[jnp.where(mask, place, size)].set(numbers, mode="drop")

        def block(i: Array, values: Array) -> Array:
            rows, steps = jnp.divmod(
                jax.lax.dynamic_slice_in_dim(order, i * starts, starts), log.n_steps
            )
            states = jnp.moveaxis(log.observations[rows, steps], 0, -1)
            actions = jnp.moveaxis(log.actions[rows, steps], 0, -1)
            evaluations = evaluated(states, actions, i)
            return jax.lax.dynamic_update_slice_in_dim(values, evaluations, i * starts, axis=0)

        blocks = -(-jnp.sum(mask) // starts)
        values = jax.lax.fori_loop(0, blocks, block, jnp.zeros(size, dtype))
        return jnp.where(log.mask, values[place.reshape(log.mask.shape)], 0.0)

    before = 0 if trajectories.before is None else trajectories.before
    return shard_by_shard(of_shard, dataclasses.replace(trajectories, before=None), before)
