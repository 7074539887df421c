"""Run a Gymnasium environment under a policy: whole episodes, several in parallel.

One compiled call acts for a whole group of parallel episodes, and worker processes share the
groups. Noise and environment seeds are drawn beforehand, one row per episode, so a log does not
depend on how many workers made it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gamps._utils.worker_pool import share_out
from gamps.errors import GampsError, SettingError
from gamps.policies import Policy

LANES = 16  # always the same, or an action's last bit could depend on the size of the log
Make = str | Callable[[], Any]


class Raw(NamedTuple):
    """One episode as the environment returned it, in the environment's own precision."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool


class _Group(NamedTuple):
    """Episodes to run in parallel."""

    make: Make
    steps: int
    policy: Policy
    noise: np.ndarray  # [episodes, steps, Z]
    seeds: np.ndarray  # [episodes]


def make_env(make: Make, steps: int | None = None) -> gymnasium.Env[Any, Any]:
    """Make the environment, cut off after `steps` if given; errors quote Gymnasium's message."""
    limit: dict[str, Any] = {} if steps is None else {"max_episode_steps": steps}
    try:
        if isinstance(make, str):
            return gymnasium.make(make, **limit)
        env: gymnasium.Env[Any, Any] = make()
        return env if steps is None else gymnasium.wrappers.TimeLimit(env, steps)
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise SettingError(
            "env", f"{make} needs a package: {error}", 'For MuJoCo: pip install "gamps[mujoco]"'
        ) from error
    except gymnasium.error.Error as error:
        fix = "See sorted(gymnasium.registry) for the registered ids"
        raise SettingError("env", f"{make}: {error}", fix) from error


def groups_of(
    make: Make, policy: Policy, key: Key[Array, ""], *, n: int, steps: int
) -> list[_Group]:
    """`n` episodes in groups of `LANES`; an episode's randomness depends only on its number."""
    for name, number in (("n", n), ("steps", steps)):
        if number < 1:
            raise SettingError(name, f"{number}", "Collect at least one")
    noise, seeds = map(np.asarray, _random(key, n=n, shape=(steps, policy.noise_size)))
    parts = [slice(i, i + LANES) for i in range(0, n, LANES)]
    return [_Group(make, steps, policy, noise[part], seeds[part]) for part in parts]


@partial(jax.jit, static_argnames=("n", "shape"))
def _random(key: Array, *, n: int, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Noise for each step and an environment seed, for each episode."""

    def one(i: Array) -> tuple[Array, Array]:
        key_noise, key_env = jax.random.split(jax.random.fold_in(key, i))
        noise = jax.random.normal(key_noise, shape, dtype=float)
        return noise, jax.random.randint(key_env, (), 0, 2**31 - 1)

    return jax.vmap(one)(jnp.arange(n))


def simulate(groups: list[_Group], *, workers: int = 1) -> Iterator[tuple[int, list[Raw]]]:
    """Yield each group's number and its episodes as they finish."""
    try:
        yield from share_out(_run, groups, workers=workers)
    except Exception as error:  # its type depends on what cannot be pickled
        if isinstance(error, GampsError) or "pickle" not in str(error):
            raise
        raise SettingError(
            "workers",
            f"{workers}, but the environment or the policy cannot be sent to a process: {error}",
            "Pass an environment's id, build both from functions of a module, or use workers=1",
        ) from error


@eqx.filter_jit
def _act(policy: Policy, observations: Any, noise: Any) -> Array:
    return jax.vmap(policy.act)(observations, noise)


@lru_cache(maxsize=1)
def _side_by_side(make: Make, steps: int) -> list[gymnasium.Env[Any, Any]]:
    """One environment per lane, kept for the next group: making them takes a second."""
    return [make_env(make, steps) for _ in range(LANES)]


def _run(group: _Group) -> list[Raw]:
    """All episodes of one group, in lockstep."""
    envs = _side_by_side(group.make, group.steps)[: len(group.seeds)]
    # Copied, here and below: an environment may return an array that it changes later.
    starts = [np.array(e.reset(seed=int(s))[0]) for e, s in zip(envs, group.seeds, strict=True)]
    observations = [[start] for start in starts]
    acted: list[list[Any]] = [[] for _ in envs]
    gained: list[list[float]] = [[] for _ in envs]
    over, terminated = [False] * len(envs), [False] * len(envs)
    idle = LANES - len(envs)
    now = np.stack(starts + starts[:1] * idle)
    noise = np.pad(group.noise, ((0, idle), (0, 0), (0, 0)))
    for t in range(group.steps):
        actions = np.asarray(_act(group.policy, now, noise[:, t]))
        for i, env in enumerate(envs):
            if over[i]:
                continue
            now[i], reward, terminated[i], cut_off, _ = env.step(actions[i])
            over[i] = terminated[i] or cut_off
            observations[i].append(now[i].copy())
            acted[i].append(actions[i])
            gained[i].append(float(reward))
        if all(over):
            break
    return [
        Raw(np.stack(s), np.stack(a), np.asarray(r), bool(e))
        for s, a, r, e in zip(observations, acted, gained, terminated, strict=True)
    ]
