"""Softmax over discrete actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from gamps._utils.fields import number
from gamps._utils.noise import categorical
from gamps.errors import SettingError
from gamps.policies.features import OneHot
from gamps.policies.types import Policy


class Sharpened(eqx.Module):
    """Multiply the logits by one factor per iteration, like a falling temperature.

    Attributes:
      factor: the factor of one iteration.
    """

    factor: Float[Array, "..."] | float = number()

    def __call__(self, policy: Policy, iteration: Int[Array, ""]) -> Policy:
        """The policy for this iteration."""
        del iteration
        sharper: Policy = eqx.tree_at(lambda p: p.weights, policy, replace_fn=self._grown)
        return sharper

    def _grown(self, weights: Array) -> Array:
        return weights * jnp.asarray(self.factor, weights.dtype)


class Boltzmann(Policy):
    """Softmax over discrete actions, linear in features of the observation.

    π(a|s) ∝ exp(φ(s)ᵀ W)_a. A state whose entry in `forced` is an action, not -1, takes that
    action with probability one, and its score is exactly zero: this is not a very large logit.

    Attributes:
      weights: `[F, A]`, trainable.
      features: maps one observation to `[F]`.
      forced: `[S]` actions or -1, for policies on `OneHot` features; None forces nothing.

    Examples:
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
        """A policy with only this state's row, for one-hot features."""
        if not isinstance(self.features, OneHot):
            return self
        forced = self._forced_action(observation)[None]
        return Boltzmann(self._logits(observation)[None], OneHot(1), forced)

    def _logits(self, observation: Any) -> Float[Array, "A"]:
        if isinstance(self.features, OneHot):
            # Looking up a row instead of multiplying is five times faster on logs of 10^6 steps.
            return self.weights[self.features.state(observation)]
        return self.features(observation) @ self.weights

    def _forced_action(self, observation: Any) -> Int[Array, ""]:
        if self.forced is None or not isinstance(self.features, OneHot):
            return jnp.asarray(-1)
        return self.forced[self.features.state(observation)]

    def log_prob(self, observation: Any, action: Int[Array, ""]) -> Float[Array, ""]:
        """Log-probability of one action; -inf if it does not exist or another one is forced."""
        logits = self._logits(observation)
        chosen = jnp.arange(len(logits)) == action
        # A select, not an index: its gradient is a select too; that of an index is a scatter.
        free = jnp.sum(jnp.where(chosen, logits, 0.0)) - jax.nn.logsumexp(logits)
        free = jnp.where(action < len(logits), free, -jnp.inf)
        forced = self._forced_action(observation)
        certain = jnp.where(action == forced, 0.0, -jnp.inf).astype(free.dtype)
        return jnp.where(forced >= 0, certain, free)

    @property
    def choices(self) -> int:
        """Number of actions: the columns of the weights."""
        return int(self.weights.shape[-1])

    @property
    def noise_size(self) -> int:
        """One number, for the inverse of the distribution function."""
        return 1

    def act(self, observation: Any, noise: Float[Array, "1"]) -> Int[Array, ""]:
        """The action at which the distribution function passes Φ(noise)."""
        free = categorical(self._logits(observation), noise)
        forced = self._forced_action(observation)
        return jnp.where(forced >= 0, forced, free)

    def mode(self, observation: Any) -> Int[Array, ""]:
        """The most likely action."""
        forced = self._forced_action(observation)
        return jnp.where(forced >= 0, forced, jnp.argmax(self._logits(observation)))

    def divergence(self, other: Policy, observation: Any) -> Float[Array, ""]:
        """Σ p log(p / p'); zero where the action is forced."""
        if not isinstance(other, Boltzmann):
            raise SettingError("other", type(other).__name__, "Compare policies of one class")
        log_p = jax.nn.log_softmax(self._logits(observation))
        log_other = jax.nn.log_softmax(other._logits(observation))
        kl = jnp.sum(jnp.exp(log_p) * (log_p - log_other))
        return jnp.where(self._forced_action(observation) >= 0, 0.0, kl)

    def sample(self, key: Key[Array, ""], observation: Any) -> Int[Array, ""]:
        """Draw one action."""
        free = jax.random.categorical(key, self._logits(observation))
        forced = self._forced_action(observation)
        return jnp.where(forced >= 0, forced, free)
