"""Values from imagined trajectories, the paper's estimator (section "Computing Q")."""

import dataclasses
from functools import partial
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps.errors import SettingError
from gamps.models import Ensemble, Model
from gamps.policies import Policy
from gamps.search.importance import Ratios
from gamps.search.values.fitted import FittedQ
from gamps.search.values.rollouts import Border, Noise, Sharing, at_logged_steps, draw, returns
from gamps.search.values.types import Values
from gamps.tasks import Task
from gamps.trajectories import Trajectories


def repeated(noise: Float[Array, "... n"], starts: int, times: int) -> Float[Array, "... m"]:
    """Repeat each start's columns `times` times, side by side."""
    split = noise.reshape(*noise.shape[:-1], starts, 1, -1)
    wide = jnp.broadcast_to(split, (*split.shape[:-2], times, split.shape[-1]))
    return wide.reshape(*noise.shape[:-1], -1)


def _turned(noise: Noise, before: Any, size: int, rollouts: int) -> Noise:
    """The noise of a block that begins `before` steps after a block of the whole log."""
    if isinstance(before, int) and before == 0:
        return noise
    return jax.tree.map(
        lambda z: jnp.roll(z, -(before % (size // rollouts) * rollouts), axis=-1), noise
    )


class Imagined(eqx.Module):
    """Mean return of `rollouts` imagined trajectories from every logged pair.

    V(s) at the logged states comes from as many more with the same noise, so that much of the
    error of Q - V cancels; it is computed only if a baseline uses it.

    Attributes:
      rollouts: `M`; in an ensemble, each member imagines its share of them (with "rows", all of
        them for its share of the trajectories).
      horizon: `H`, imagined steps; a trajectory also stops at an imagined terminal state.
      tail: a fitted Q̂ for what follows the horizon, or None to leave it out.
      antithetic: the second half of the rollouts uses the negated noise of the first.
      sharing: what shares a draw of noise: "blocks", all blocks; "none"; "all" starting states
        (common random numbers); or "rows", the steps of a trajectory without padding, to compare
        actions of one state. `benchmarks.engine noise` shows why "blocks" is the default.
      border: where the range of an ensemble's log ends trajectories.
      block: number of trajectories rolled out side by side.
    """

    rollouts: int = eqx.field(default=10, static=True)
    horizon: int = eqx.field(default=20, static=True)
    tail: FittedQ | None = None
    antithetic: bool = eqx.field(default=True, static=True)
    sharing: Sharing = eqx.field(default="blocks", static=True)
    block: int = eqx.field(default=2000, static=True)
    border: Border | None = None

    def __check_init__(self) -> None:
        if self.sharing not in get_args(Sharing):
            raise SettingError("sharing", repr(self.sharing), f"Choose one of {get_args(Sharing)}")
        for name in ("rollouts", "horizon", "block"):
            if getattr(self, name) < 1:
                raise SettingError(name, f"{getattr(self, name)}", "Imagine at least one")
        if self.antithetic and self.rollouts % 2:
            raise SettingError(
                "rollouts",
                f"{self.rollouts} cannot be split into antithetic pairs",
                "Choose an even number, or antithetic=False",
            )

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
        if isinstance(model, Ensemble) and model.size > 1:
            members = self._members_in_turn if self.sharing == "rows" else self._each_member
            return members(key, policy, model, task, trajectories, ratios)
        key_noise, key_tail = jax.random.split(key)
        tail = None
        if self.tail is not None:
            tail = self.tail.fit(key_tail, policy, model, task, trajectories)
        dtype = ratios.discounted_rho.dtype
        starts = min(max(self.block // self.rollouts, 1), trajectories.mask.size)
        if self.sharing == "rows":
            starts = max(starts // trajectories.n_steps, 1) * trajectories.n_steps

        draw_noise = partial(
            draw,
            policy=policy,
            model=model,
            rollouts=self.rollouts,
            horizon=self.horizon,
            antithetic=self.antithetic,
            dtype=dtype,
        )

        def noise_of(key: Array) -> Noise:
            shared_by = {"all": starts, "rows": trajectories.n_steps}.get(self.sharing, 1)
            distinct = starts // shared_by
            noise = draw_noise(key, starts=distinct)
            return jax.tree.map(lambda z: repeated(z, distinct, shared_by), noise)

        def noise_of_steps(numbers: Array) -> Noise:
            keys = jax.vmap(lambda i: jax.random.fold_in(key_noise, i))(numbers)
            each = jax.vmap(lambda key: draw_noise(key, starts=1), out_axes=-2)(keys)
            return jax.tree.map(lambda z: z.reshape(*z.shape[:-2], -1), each)

        shared = noise_of(key_noise)

        def mean(before: Any, *, given: bool) -> Any:
            # A step's noise follows from its number in the whole log, wherever its block begins.
            turned = _turned(shared, before, self.rollouts * starts, self.rollouts)

            def block(states: Any, actions: Any, i: Array) -> Float[Array, "starts"]:
                noise = turned
                if self.sharing == "none":
                    noise = noise_of_steps(before + i * starts + jnp.arange(starts))
                states, actions = jax.tree.map(
                    lambda x: jnp.repeat(x, self.rollouts, axis=-1),
                    (states, actions if given else None),
                )
                total = returns(policy, model, task, noise, states, actions, tail, self.border)
                return jnp.mean(total.reshape(starts, self.rollouts), axis=1)

            return block

        def everywhere(*, given: bool) -> Float[Array, "N T"]:
            of = partial(mean, given=given)
            return at_logged_steps(trajectories, of, starts=starts, dtype=dtype)

        q_values, v = everywhere(given=True), everywhere(given=False)
        return Values(ratios.discounted_rho * q_values, v)

    def _each_member(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Ensemble,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Values:
        """The mean over members; each follows its share of the rollouts to the end.

        Choosing a member anew at every step would cost as many models as there are members.
        """
        share, rest = divmod(self.rollouts, model.size)
        if rest or not share or (self.antithetic and share % 2):
            raise SettingError(
                "rollouts",
                f"{self.rollouts} cannot be split evenly over {model.size} members",
                "Choose as many for each" + (", in pairs" if self.antithetic else ""),
            )
        alone = dataclasses.replace(self, rollouts=share)

        def values(key: Array, arrays: Any) -> Values:
            return alone(key, policy, model.alone(arrays), task, trajectories, ratios)

        keys, arrays = jax.random.split(key, model.size), eqx.filter(model.members, eqx.is_array)
        each = jax.lax.map(lambda both: values(*both), (keys, arrays))
        return jax.tree.map(lambda x: jnp.mean(x, axis=0), each)

    def _members_in_turn(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Ensemble,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Values:
        """Use member i modulo their number for trajectory i, so one member compares its steps."""
        rows, size = trajectories.n_trajectories, model.size

        def dealt(x: Array) -> Array:
            widths = [(0, -rows % size), *((0, 0) for _ in x.shape[1:])]
            return jnp.moveaxis(jnp.pad(x, widths).reshape(-1, size, *x.shape[1:]), 1, 0)

        def values(key: Array, arrays: Any, log: Trajectories, rho: Array) -> Values:
            share = Ratios(jnp.zeros_like(rho), rho, ratios.log_scale)
            return self(key, policy, model.alone(arrays), task, log, share)

        keys, arrays = jax.random.split(key, size), eqx.filter(model.members, eqx.is_array)
        log = jax.tree.map(dealt, dataclasses.replace(trajectories, before=None))
        each = jax.lax.map(
            lambda inputs: values(*inputs), (keys, arrays, log, dealt(ratios.discounted_rho))
        )
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1).reshape(-1, *x.shape[2:])[:rows], each)
