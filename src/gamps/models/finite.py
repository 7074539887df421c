"""Models for finitely many states and actions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from gamps._utils.noise import categorical
from gamps.models.types import FiniteModel


def _log_frequencies(counts: Float[Array, "..."]) -> Float[Array, "..."]:
    # The floor keeps logits finite where nothing was seen: it is negligible compared with a count
    # that is not itself near underflow, and a row without any weight becomes uniform.
    return jnp.log(jnp.maximum(counts, jnp.finfo(counts.dtype).tiny))


class ActionEffect(FiniteModel):
    """The paper's gridworld model: the effect of an action is the same in every state.

    p̂(m|s, a) = softmax(W)_{a,m}; the rule from effect to next state is known. An observation is
    the pair (state, effect that led there), so that the log shows the effect even where a wall
    blocked it.

    Attributes:
      logits: `[A, E]`, W.
      successors: `[S, E]`, the state that each effect leads to.
    """

    logits: Float[Array, "*seeds A E"]
    successors: Int[Array, "*seeds S E"]

    def log_prob(
        self, observation: Any, action: Int[Array, ""], next_observation: Int[Array, "2"]
    ) -> Float[Array, ""]:
        """Log-probability of the logged effect."""
        del observation
        return jax.nn.log_softmax(self.logits[action])[next_observation[1]]

    def step(
        self, observation: Int[Array, "2"], action: Int[Array, ""], noise: Float[Array, "1"]
    ) -> Int[Array, "2"]:
        """Select an effect by the noise and apply the known rule."""
        effect = categorical(self.logits[action], noise).astype(observation.dtype)
        return jnp.stack([self.successors[observation[0], effect], effect])

    def sample(
        self, key: Key[Array, ""], observation: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "2"]:
        """Draw an effect and apply the known rule."""
        effect = jax.random.categorical(key, self.logits[action])
        return jnp.stack([self.successors[observation[0], effect], effect])

    def statistics(
        self,
        observations: Any,
        actions: Int[Array, "n"],
        next_observations: Int[Array, "n 2"],
        weights: Float[Array, "n"],
    ) -> Float[Array, "A E"]:
        """Weighted counts of (action, effect)."""
        del observations
        n_actions, n_effects = self.logits.shape
        # A product of one-hot matrices: a CPU processes a scatter one entry at a time.
        did = jax.nn.one_hot(actions, n_actions, dtype=weights.dtype) * weights[:, None]
        return did.T @ jax.nn.one_hot(next_observations[:, 1], n_effects, dtype=weights.dtype)

    def from_statistics(self, statistics: Float[Array, "A E"]) -> ActionEffect:
        """Fit by the weighted frequencies of the effects of each action."""
        return ActionEffect(_log_frequencies(statistics), self.successors)

    def transitions(self) -> Float[Array, "S A S"]:
        """Effects translated to next states by the known rule."""
        reached = jax.nn.one_hot(self.successors, len(self.successors), dtype=self.logits.dtype)
        return jnp.einsum("ae,set->sat", jax.nn.softmax(self.logits, axis=-1), reached)

    def states(self) -> Int[Array, "S 2"]:
        """One observation per state, reached by the last effect (staying, in the gridworld)."""
        n_states, n_effects = self.successors.shape
        return jnp.stack([jnp.arange(n_states), jnp.full(n_states, n_effects - 1)], axis=1)

    def index(self, observation: Int[Array, "2"]) -> Int[Array, ""]:
        """The state, without the effect."""
        return observation[0]


class Tabular(FiniteModel):
    """p̂(s'|s, a) without any structure.

    Attributes:
      logits: `[S, A, S]`.
    """

    logits: Float[Array, "*seeds S A S"]

    def log_prob(
        self, observation: Int[Array, ""], action: Int[Array, ""], next_observation: Int[Array, ""]
    ) -> Float[Array, ""]:
        """Log-probability of the next state."""
        return jax.nn.log_softmax(self.logits[observation, action])[next_observation]

    def step(
        self, observation: Int[Array, ""], action: Int[Array, ""], noise: Float[Array, "1"]
    ) -> Int[Array, ""]:
        """The next state that the noise selects."""
        return categorical(self.logits[observation, action], noise).astype(observation.dtype)

    def sample(
        self, key: Key[Array, ""], observation: Int[Array, ""], action: Int[Array, ""]
    ) -> Int[Array, ""]:
        """Draw the next state."""
        return jax.random.categorical(key, self.logits[observation, action])

    def statistics(
        self,
        observations: Int[Array, "n"],
        actions: Int[Array, "n"],
        next_observations: Int[Array, "n"],
        weights: Float[Array, "n"],
    ) -> Float[Array, "S A S"]:
        """Weighted counts of (state, action, next state)."""
        counts = jnp.zeros(self.logits.shape, weights.dtype)
        return counts.at[observations, actions, next_observations].add(weights)

    def from_statistics(self, statistics: Float[Array, "S A S"]) -> Tabular:
        """Fit by weighted frequencies; a pair never seen becomes uniform."""
        return Tabular(_log_frequencies(statistics))

    def transitions(self) -> Float[Array, "S A S"]:
        """Softmax of the logits."""
        return jax.nn.softmax(self.logits, axis=-1)

    def states(self) -> Int[Array, "S"]:
        """The numbers of the states, which are their observations."""
        return jnp.arange(len(self.logits))

    def index(self, observation: Int[Array, ""]) -> Int[Array, ""]:
        """The observation itself."""
        return observation
