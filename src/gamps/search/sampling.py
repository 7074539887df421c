"""Samples of a log's trajectories or steps."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from gamps.errors import SettingError
from gamps.trajectories import Trajectories


class Some(eqx.Module):
    """A random sample of a log's trajectories, each as likely as any other.

    They are drawn with replacement: a trajectory may come twice, and every mean stays exact.

    Attributes:
      trajectories: number of trajectories, drawn anew each time.
    """

    trajectories: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.trajectories < 1:
            raise SettingError("trajectories", f"{self.trajectories}", "Draw at least one")

    def __call__(self, key: Key[Array, ""], trajectories: Trajectories) -> Trajectories:
        """Draw the sample; the whole log if it has no more trajectories."""
        n, count = trajectories.n_trajectories, self.trajectories
        if count >= n:
            return trajectories
        # Trajectories without a step, which pad a shard, come last and are not drawn.
        rows = jax.random.randint(key, (count,), 0, jnp.sum(trajectories.mask[:, 0]))
        log = dataclasses.replace(trajectories, before=None)
        return jax.tree.map(lambda x: x[rows], log)


def whole(key: Key[Array, ""], trajectories: Trajectories) -> Trajectories:
    """All trajectories."""
    del key
    return trajectories


def drawn(
    key: Key[Array, ""], shares: Float[Array, "N T"], count: int
) -> tuple[Int[Array, "n"], Int[Array, "n"]]:
    """Draw steps in proportion to their shares: the trajectory first, then the step within it.

    Two stages are needed because a sum over all steps of a long log is too coarse for one step.
    """
    key_rows, key_steps = jax.random.split(key)
    strides = jnp.arange(count, dtype=shares.dtype)
    level = (strides + jax.random.uniform(key_rows, (), shares.dtype)) / count
    rows = _places(jnp.cumsum(jnp.sum(shares, axis=1)), level)
    within = jnp.cumsum(shares[rows], axis=1)
    levels = jax.random.uniform(key_steps, (count,), shares.dtype)
    return rows, jax.vmap(_places)(within, levels[:, None])[:, 0]


def _places(cumulative: Float[Array, "k"], levels: Float[Array, "n"]) -> Int[Array, "n"]:
    """The index where each level, a share of the total, is passed; never at an entry of zero."""
    total = cumulative[-1]
    passed = jnp.searchsorted(cumulative, levels * total, side="right")
    return jnp.minimum(passed, jnp.searchsorted(cumulative, total, side="left"))


def single(
    trajectories: Trajectories, rows: Int[Array, "n"], steps: Int[Array, "n"]
) -> Trajectories:
    """Logged steps as trajectories of one step."""
    both = jnp.stack([steps, steps + 1], axis=1)
    last = steps + 1 == jnp.sum(trajectories.mask, axis=1)[rows]
    return Trajectories(
        observations=trajectories.observations[rows[:, None], both],
        actions=trajectories.actions[rows, steps][:, None],
        rewards=trajectories.rewards[rows, steps][:, None],
        behaviour_log_prob=trajectories.behaviour_log_prob[rows, steps][:, None],
        mask=trajectories.mask[rows, steps][:, None],
        terminated=trajectories.terminated[rows] & last,
    )
