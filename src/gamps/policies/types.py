"""The interface of policies, and quantities of any policy along a log.

Densities and draws are written for one unbatched observation. A module's floating-point arrays are
trainable; constants are integers, booleans, or wrapped in `jax.lax.stop_gradient` where used.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps.trajectories import Trajectories, flat


class Policy(eqx.Module):
    """The interface of every policy."""

    def log_prob(self, observation: Any, action: Any) -> Float[Array, ""]:
        """Log-density of one action in one state."""
        raise NotImplementedError

    @property
    def choices(self) -> int | None:
        """Number of actions; None if they are continuous."""
        return None

    @property
    def noise_size(self) -> int:
        """Number of standard normal numbers that `act` needs."""
        raise NotImplementedError

    def act(self, observation: Any, noise: Float[Array, "Z"]) -> Any:
        """The action for these standard normal numbers; zeros give the middle one."""
        raise NotImplementedError

    def sample(self, key: Key[Array, ""], observation: Any) -> Any:
        """Draw one action."""
        return self.act(observation, jax.random.normal(key, (self.noise_size,), dtype=float))

    def mode(self, observation: Any) -> Any:
        """The most likely action, or the middle one where that is the same."""
        return self.act(observation, jnp.zeros(self.noise_size, dtype=float))

    def divergence(self, other: Policy, observation: Any) -> Float[Array, ""]:
        """KL(self‖other) of the actions at one observation; `other` is of the same class."""
        raise NotImplementedError

    def local(self, observation: Any) -> Policy:
        """A policy that acts the same at this observation, with fewer parameters if possible.

        Parameters left out must have a score of zero here. Norms of scores are computed from this
        policy, so that a table of a million rows costs one row.
        """
        del observation
        return self


def log_probs(policy: Policy, trajectories: Trajectories) -> Float[Array, "N T"]:
    """Log-density of every logged action; padded steps hold that of the repeated last action."""
    return jax.vmap(jax.vmap(policy.log_prob))(trajectories.states, trajectories.actions)


def score_norms(policy: Policy, trajectories: Trajectories, *, q: float) -> Float[Array, "N T"]:
    """‖∇ log π(a_t|s_t)‖_q of every logged action; padded steps repeat that of the last action."""

    def norm(observation: Any, action: Any) -> Array:
        parameters, static = eqx.partition(policy.local(observation), eqx.is_inexact_array)
        score = jax.grad(lambda p: eqx.combine(p, static).log_prob(observation, action))(parameters)
        return _norm([jnp.abs(leaf) for leaf in jax.tree.leaves(score)], q)

    return jax.vmap(jax.vmap(norm))(trajectories.states, trajectories.actions)


def natural_units(policy: Policy, trajectories: Trajectories) -> Policy:
    """One over the root mean square of each parameter's score on the log.

    This is the inverse root of the diagonal of the Fisher information: moving a parameter by its
    unit changes the log-density of a logged action by about one. A parameter without a score, such
    as a fixed standard deviation, gets zero.

    Returns:
      A tree like the gradient's: arrays where `policy` has floating-point arrays.
    """
    parameters, static = eqx.partition(policy, eqx.is_inexact_array)

    def squares(observation: Any, action: Any) -> Any:
        score = jax.grad(lambda p: eqx.combine(p, static).log_prob(observation, action))(parameters)
        return jax.tree.map(jnp.square, score)

    each = jax.vmap(squares)(flat(trajectories.states), flat(trajectories.actions))
    share = flat(trajectories.mask) / jnp.sum(trajectories.mask)

    def unit(squares: Array) -> Array:
        mean = jnp.tensordot(share.astype(squares.dtype), squares, axes=1)
        return jnp.where(mean > 0, 1 / jnp.sqrt(jnp.where(mean > 0, mean, 1.0)), 0.0)

    units: Policy = jax.tree.map(unit, each)
    return units


def _norm(leaves: list[Array], q: float) -> Array:
    """‖·‖_q of absolute values; the three usual orders fuse with the gradient into one pass."""
    if q == 1:
        return jnp.asarray(sum(jnp.sum(leaf) for leaf in leaves))
    if q == 2:
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in leaves))
    largest = jnp.max(jnp.stack([jnp.max(leaf) for leaf in leaves]))
    if q == math.inf:
        return largest
    # After division by the largest entry, no power of a finite score overflows or vanishes.
    scale = jnp.where(largest > 0, largest, 1.0)
    return scale * jnp.asarray(sum(jnp.sum((leaf / scale) ** q) for leaf in leaves)) ** (1 / q)
