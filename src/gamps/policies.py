"""Stochastic policies: `log_prob(observation, action)` and `sample(key, observation)`.

Both are written for one unbatched observation. Trainable are the floating-point arrays of the
module; constants are integers, booleans, or wrapped in `jax.lax.stop_gradient` where used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from gamps.errors import SettingError
from gamps.trajectories import Trajectories


class Policy(eqx.Module):
    """The interface of every policy."""

    def log_prob(self, observation: Any, action: Any) -> Float[Array, ""]:
        """Log-density of one action in one state."""
        raise NotImplementedError

    def sample(self, key: Key[Array, ""], observation: Any) -> Any:
        """Draw one action."""
        raise NotImplementedError

    def local(self, observation: Any) -> Policy:
        """A policy that acts the same at this observation, with fewer parameters if it can.

        Parameters left out must have a score of zero here. Norms of scores are taken of this, so
        that a table of a million rows costs one row.
        """
        del observation
        return self


def log_probs(policy: Policy, trajectories: Trajectories) -> Float[Array, "N T"]:
    """Log-density of every logged action; padded steps hold that of the repeated last action."""
    return jax.vmap(jax.vmap(policy.log_prob))(trajectories.states, trajectories.actions)


def score_norms(policy: Policy, trajectories: Trajectories, *, q: float) -> Float[Array, "N T"]:
    """‖∇ log π(a_t|s_t)‖_q of every logged action, for any policy.

    Args:
      policy: all its floating-point arrays are its parameters.
      trajectories: the logged actions.
      q: order of the norm, from 1 to infinity.

    Returns:
      `[N, T]`; padded steps hold the norm of the repeated last action.
    """

    def norm(observation: Any, action: Any) -> Array:
        parameters, static = eqx.partition(policy.local(observation), eqx.is_inexact_array)
        score = jax.grad(lambda p: eqx.combine(p, static).log_prob(observation, action))(parameters)
        return _norm([jnp.abs(leaf) for leaf in jax.tree.leaves(score)], q)

    return jax.vmap(jax.vmap(norm))(trajectories.states, trajectories.actions)


def _norm(leaves: list[Array], q: float) -> Array:
    """‖·‖_q of absolute values; the three usual orders fuse with the gradient into one pass."""
    if q == 1:
        return jnp.asarray(sum(jnp.sum(leaf) for leaf in leaves))
    if q == 2:
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in leaves))
    largest = jnp.max(jnp.stack([jnp.max(leaf) for leaf in leaves]))
    if q == math.inf:
        return largest
    # Divided by the largest entry, no power of a finite score overflows or vanishes.
    scale = jnp.where(largest > 0, largest, 1.0)
    return scale * jnp.asarray(sum(jnp.sum((leaf / scale) ** q) for leaf in leaves)) ** (1 / q)


class OneHot(eqx.Module):
    """Feature map of a discrete observation.

    Attributes:
      size: number of states; with 1, every observation shows it.
      index: which entry of a vector observation holds the state; None if it is the state itself.
    """

    size: int = eqx.field(static=True)
    index: int | None = eqx.field(default=None, static=True)

    def state(self, observation: Int[Array, "..."]) -> Int[Array, ""]:
        """The state's number."""
        if self.size == 1:
            return jnp.asarray(0)
        return observation if self.index is None else observation[self.index]

    def __call__(self, observation: Int[Array, "..."]) -> Float[Array, "F"]:
        """`[size]`, one at the state."""
        return jax.nn.one_hot(self.state(observation), self.size, dtype=jnp.result_type(float))


class Boltzmann(Policy):
    """Softmax over discrete actions, linear in features of the observation.

    π(a|s) ∝ exp(φ(s)ᵀ W)_a. A state whose entry of `forced` is an action and not -1 plays that
    action with probability one, and its score is exactly zero: it is not a very large logit.

    Attributes:
      weights: `[F, A]`, trainable.
      features: maps one observation to `[F]`.
      forced: `[S]` actions or -1, for policies on `OneHot` features; None forces nothing.

    Example:
      >>> policy = Boltzmann(jnp.zeros((2, 4)), OneHot(2), forced=jnp.array([-1, 3]))
      >>> [round(float(policy.log_prob(jnp.array(s), jnp.array(3))), 3) for s in (0, 1)]
      [-1.386, 0.0]
    """

    weights: Float[Array, "*seeds F A"]
    features: Callable[[Any], Float[Array, "F"]]
    forced: Int[Array, "*seeds S"] | None = None

    def __check_init__(self) -> None:
        if self.forced is not None and not isinstance(self.features, OneHot):
            raise SettingError("forced", "features are not OneHot", "Force rows of a table only")

    def local(self, observation: Any) -> Boltzmann:
        """The row of the state alone, on one-hot features."""
        if not isinstance(self.features, OneHot):
            return self
        forced = self._forced_action(observation)[None]
        return Boltzmann(self._logits(observation)[None], OneHot(1), forced)

    def _logits(self, observation: Any) -> Float[Array, "A"]:
        if isinstance(self.features, OneHot):
            # A row is looked up, not multiplied out: five times faster on logs of 10^6 steps.
            return self.weights[self.features.state(observation)]
        return self.features(observation) @ self.weights

    def _forced_action(self, observation: Any) -> Int[Array, ""]:
        if self.forced is None or not isinstance(self.features, OneHot):
            return jnp.asarray(-1)
        return self.forced[self.features.state(observation)]

    def log_prob(self, observation: Any, action: Int[Array, ""]) -> Float[Array, ""]:
        """Log-probability of one action; -inf for another than the forced one."""
        logits = self._logits(observation)
        chosen = jnp.arange(len(logits)) == action
        # A select, not an index: its gradient is a select too, where an index's is a scatter.
        free = jnp.sum(jnp.where(chosen, logits, 0.0)) - jax.nn.logsumexp(logits)
        forced = self._forced_action(observation)
        certain = jnp.where(action == forced, 0.0, -jnp.inf).astype(free.dtype)
        return jnp.where(forced >= 0, certain, free)

    def sample(self, key: Key[Array, ""], observation: Any) -> Int[Array, ""]:
        """Draw one action."""
        drawn = jax.random.categorical(key, self._logits(observation))
        forced = self._forced_action(observation)
        return jnp.where(forced >= 0, forced, drawn)
