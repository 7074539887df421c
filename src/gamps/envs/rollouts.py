"""Run a functional environment under a policy, thousands of episodes in one compiled call."""

from typing import Any

import jax
import jax.numpy as jnp
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Key

from gamps.policies import Policy
from gamps.trajectories import Trajectories


def collect(
    env: FuncEnv[Any, Any, Any, Any, Any, Any, Any],
    policy: Policy,
    key: Key[Array, ""],
    *,
    n: int,
    steps: int,
) -> Trajectories:
    """Log `n` episodes of at most `steps` steps; a pure function that callers may jit and vmap.

    Args:
      env: a functional environment in JAX.
      policy: acts, and becomes the behaviour policy of the log.
      key: randomness of environment and policy, independent for each episode.
      n: number of episodes.
      steps: an episode longer than this is cut off (`terminated` False).
    """

    def step(carry: Any, key: Array) -> Any:
        state, observation, over = carry
        key_action, key_transition = jax.random.split(key)
        action = policy.sample(key_action, observation)
        following = env.transition(state, action, key_transition)
        ended = env.terminal(following, key_transition)
        # After its end an episode repeats its last state, as padding does.
        following = jax.tree.map(lambda new, old: jnp.where(over, old, new), following, state)
        next_observation = env.observation(following, key_transition)
        reward = jnp.where(over, 0.0, env.reward(state, action, following, key_transition))
        log_prob = jnp.where(over, 0.0, policy.log_prob(observation, action))
        logged = (next_observation, action, reward, log_prob, ~over)
        return (following, next_observation, over | ended), logged

    def episode(key: Array) -> Trajectories:
        key_initial, key_steps = jax.random.split(key)
        state = env.initial(key_initial)
        first = env.observation(state, key_initial)
        start = (state, first, jnp.asarray(False))
        (_, _, over), logged = jax.lax.scan(step, start, jax.random.split(key_steps, steps))
        observations, actions, rewards, log_prob, mask = logged
        observations = jnp.concatenate([first[None], observations])
        return Trajectories(observations, actions, rewards, log_prob, mask, over)

    return jax.vmap(episode)(jax.random.split(key, n))
