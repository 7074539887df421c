"""Log a policy in any environment: Gymnasium's in worker processes, ours in one compiled call."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from jaxtyping import Array, Key

from gamps import envs
from gamps._utils.console import silent
from gamps.datasets.simulation import Make, Raw, groups_of, make_env, simulate
from gamps.errors import SettingError
from gamps.policies import Affine, Boltzmann, LinearGaussianPolicy, OneHot, Policy, log_probs
from gamps.trajectories import Episode, Trajectories, from_episodes, validate


def collect(
    env: Make | FuncEnv[Any, Any, Any, Any, Any, Any, Any],
    policy: Policy,
    key: Key[Array, ""],
    *,
    n: int,
    steps: int | None = None,
    workers: int = 1,
    advance: Callable[[str], None] = silent,
) -> Trajectories:
    """Log `n` episodes with the density of every action.

    Args:
      env: a Gymnasium id, a function that makes an environment, or a functional environment.
      policy: acts, and becomes the behaviour policy of the log.
      key: source of all randomness; the log does not depend on `workers`.
      n: number of episodes.
      steps: cut episodes off after this many steps; by default, where the environment does.
      workers: number of processes to simulate in; functional environments need none.
      advance: called after each finished group of episodes, for a progress bar.

    Examples:
      >>> import jax
      >>> from gamps.envs import Minigolf
      >>> env = Minigolf()
      >>> collect(env, env.policy(), jax.random.key(0), n=3, steps=20).n_trajectories
      3
    """
    if isinstance(env, FuncEnv):
        if steps is None:
            raise SettingError("steps", "None", "Set it: a functional environment has no limit")
        return validate(_functional(env, policy, key, n=n, steps=steps))
    groups = groups_of(env, policy, key, n=n, steps=limit_of(env) if steps is None else steps)
    finished: dict[int, list[Raw]] = {}
    for i, episodes in simulate(groups, workers=workers):
        finished[i] = episodes
        advance(f"{sum(map(len, finished.values()))} of {n} episodes")
    return from_raw([raw for i in sorted(finished) for raw in finished[i]], policy)


_functional = eqx.filter_jit(envs.collect)


def limit_of(env: Make) -> int:
    """The step limit of an environment; refuses an environment without one."""
    built = make_env(env)
    spec = built.spec
    built.close()
    if spec is None or spec.max_episode_steps is None:
        raise SettingError("steps", "None, and the environment sets no limit", "Pass steps=1000")
    return int(spec.max_episode_steps)


def action_limits(env: Make) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the least and the largest action that an environment's actuators carry out, if any."""
    environment = make_env(env)
    space = environment.action_space
    environment.close()
    return (space.low, space.high) if isinstance(space, Box) and space.is_bounded() else None


def from_raw(episodes: Sequence[Raw], policy: Policy) -> Trajectories:
    """Build trajectories, with the densities of the policy that drew their actions."""
    unknown = [
        Episode(r.observations, r.actions, r.rewards, np.zeros(len(r.rewards)), r.terminated)
        for r in episodes
    ]
    log = from_episodes(unknown)
    densities = jnp.where(log.mask, eqx.filter_jit(log_probs)(policy, log), 0.0)
    return validate(eqx.tree_at(lambda t: t.behaviour_log_prob, log, densities))


def policy_for(env: Make, *, std: float = 0.5) -> Policy:
    """The simplest exploring policy for an environment.

    Continuous actions: normal around zero, affine in the observation, fixed standard deviation.
    Discrete actions: all equally likely; a table over discrete observations (over the first entry
    if there are several), or affine in continuous ones.

    Raises:
      SettingError: for spaces that are neither numbers nor a choice.
    """
    built = make_env(env)
    observations, actions = built.observation_space, built.action_space
    built.close()
    features: Any
    if isinstance(observations, Box) and len(observations.shape) == 1:
        features, size = Affine(), observations.shape[0] + 1
    elif isinstance(observations, MultiDiscrete):
        features, size = OneHot(int(observations.nvec[0]), index=0), int(observations.nvec[0])
    elif isinstance(observations, Discrete):
        features, size = OneHot(int(observations.n)), int(observations.n)
    else:
        raise SettingError("env", f"observations {observations}", "Wrap it to return one vector")
    if isinstance(actions, Discrete):
        return Boltzmann(jnp.zeros((size, int(actions.n))), features)
    if isinstance(actions, Box) and len(actions.shape) == 1:
        if not std > 0:
            raise SettingError("std", f"{std}", "A stochastic policy needs a positive std")
        weights = jnp.zeros((size, actions.shape[0]))
        log_std = jnp.full(actions.shape[0], jnp.log(std), dtype=float)
        return LinearGaussianPolicy(weights, features, log_std=log_std, learn_std=False)
    raise SettingError("env", f"actions {actions}", "Wrap it to accept one vector or one choice")
