"""One problem of the swimmer's size, and its imagined rollouts written by hand.

`bare` does only the arithmetic, in the library's arrangement; `naive` is what one writes first in
JAX; `numpy_loop` is NumPy in the good arrangement. PyTorch's is in `torch_rollouts.py`, which runs
in an environment of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gamps.models import MLPGaussianModel, Model
from gamps.policies import LinearGaussianPolicy
from gamps.tasks import Task
from gamps.trajectories import Trajectories

OBSERVATIONS, ACTIONS, HIDDEN = 8, 2, 32
DISCOUNT, CONTROL_COST = 0.99, 1e-4
# Multiply-adds of the three layers and of the policy, twice each.
FLOPS = 2 * ((8 + 2) * 32 + 32 * 32 + 32 * 16 + 9 * 2)


def reward(state: Array, action: Array, following: Array) -> Array:
    """The swimmer's: forward velocity less a control cost."""
    return 0.5 * (state[3] + following[3]) - CONTROL_COST * jnp.sum(action**2)


class Parts(NamedTuple):
    """The problem in the library's words."""

    policy: LinearGaussianPolicy
    model: Model
    task: Task
    trajectories: Trajectories


def parts(n: int, steps: int) -> Parts:
    """A random log, linear policy and network."""
    key_states, key_actions, key_policy, key_model = jax.random.split(jax.random.key(0), 4)
    log = Trajectories(
        observations=jax.random.normal(key_states, (n, steps + 1, OBSERVATIONS)),
        actions=jax.random.normal(key_actions, (n, steps, ACTIONS)),
        rewards=jnp.zeros((n, steps)),
        behaviour_log_prob=jnp.zeros((n, steps)),
        mask=jnp.ones((n, steps), dtype=bool),
        terminated=jnp.zeros(n, dtype=bool),
    )
    weights = 0.1 * jax.random.normal(key_policy, (OBSERVATIONS + 1, ACTIONS))
    policy = LinearGaussianPolicy(weights, log_std=jnp.log(jnp.full(ACTIONS, 0.5)))
    return Parts(policy, MLPGaussianModel.create(key_model, log), Task(reward, DISCOUNT), log)


class Plain(NamedTuple):
    """The same as arrays, the standardisation folded into the network."""

    states: np.ndarray
    actions: np.ndarray
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    gain: np.ndarray
    offset: np.ndarray
    std: np.ndarray


def plain(given: Parts) -> Plain:
    """Nothing of the library is left."""
    model = jax.tree.map(np.asarray, given.model)
    (w0, b0), (w1, b1), (w2, b2) = ((x.weight, x.bias) for x in model.network.layers)
    w0 = w0 / model.inputs.std
    b0 = b0 - w0 @ model.inputs.mean
    scale, half = model.outputs.std, OBSERVATIONS
    w2, b2 = w2.copy(), b2.copy()
    w2[:half] *= scale[:, None]
    b2[:half] = scale * b2[:half] + model.outputs.mean
    b2[half:] += np.log(scale)
    weights = np.asarray(given.policy.weights)
    return Plain(
        np.asarray(given.trajectories.states).reshape(-1, OBSERVATIONS),
        np.asarray(given.trajectories.actions).reshape(-1, ACTIONS),
        (w0, w1, w2),
        (b0[:, None], b1[:, None], b2[:, None]),
        weights[:OBSERVATIONS].T.copy(),
        weights[OBSERVATIONS:].T.copy(),
        np.exp(np.asarray(given.policy.log_std))[:, None],
    )


def _blocks(values: np.ndarray, starts: int) -> np.ndarray:
    """`[blocks, features, starts]`."""
    return np.moveaxis(values.reshape(-1, starts, values.shape[1]), 1, 2).copy()


def _noise(horizon: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    draw = rng.standard_normal((horizon, OBSERVATIONS + ACTIONS, size), dtype=np.float32)
    return draw[:, :OBSERVATIONS].copy(), draw[:, OBSERVATIONS:].copy()


def _column_step(p: Plain, xp: Any, carry: Any, z_model: Any, z_policy: Any) -> Any:
    """One imagined step of all columns; `xp` is numpy or jax.numpy."""
    state, action, discount, total = carry
    hidden = xp.tanh(p.weights[0] @ xp.concatenate([state, action]) + p.biases[0])
    hidden = xp.tanh(p.weights[1] @ hidden + p.biases[1])
    out = p.weights[2] @ hidden + p.biases[2]
    following = state + out[:OBSERVATIONS] + xp.exp(out[OBSERVATIONS:]) * z_model
    gained = 0.5 * (state[3] + following[3]) - CONTROL_COST * xp.sum(action * action, axis=0)
    action = p.gain @ following + p.offset + p.std * z_policy
    return following, action, discount * np.float32(DISCOUNT), total + discount * gained


def bare(p: Plain, *, rollouts: int, horizon: int, block: int) -> Callable[[], Any]:
    """Jitted, by columns, noise given."""
    starts = block // rollouts

    @jax.jit
    def run(p: Plain, noise: Any, states: Array, actions: Array) -> Array:
        def one(start: Any) -> Array:
            state, action = (jnp.repeat(x, rollouts, axis=-1) for x in start)
            carry = (state, action, jnp.float32(1), jnp.zeros(state.shape[-1]))
            (*_, total), _ = jax.lax.scan(
                lambda c, z: (_column_step(p, jnp, c, *z), None), carry, noise
            )
            return jnp.mean(total.reshape(starts, rollouts), axis=1)

        return jax.lax.map(one, (states, actions))

    arrays = (p, _noise(horizon, block), _blocks(p.states, starts), _blocks(p.actions, starts))
    arguments = jax.tree.map(jnp.asarray, arrays)
    return lambda: run(*arguments)


def naive(p: Plain, *, rollouts: int, horizon: int) -> Callable[[], Any]:
    """Jitted, by rows, normals drawn in the scan."""

    @jax.jit
    def run(p: Plain, key: Array) -> Array:
        w, b = p.weights, [x[:, 0] for x in p.biases]

        def step(carry: Any, key: Array) -> tuple[Any, None]:
            state, action, discount, total = carry
            key_model, key_policy = jax.random.split(key)
            hidden = jnp.tanh(jnp.concatenate([state, action], axis=1) @ w[0].T + b[0])
            hidden = jnp.tanh(hidden @ w[1].T + b[1])
            mean, log_std = jnp.split(hidden @ w[2].T + b[2], 2, axis=1)
            z = jax.random.normal(key_model, mean.shape)
            following = state + mean + jnp.exp(log_std) * z
            gained = 0.5 * (state[:, 3] + following[:, 3])
            gained = gained - CONTROL_COST * jnp.sum(action**2, axis=1)
            z = jax.random.normal(key_policy, action.shape)
            action = following @ p.gain.T + p.offset[:, 0] + p.std[:, 0] * z
            return (following, action, discount * DISCOUNT, total + discount * gained), None

        state, action = (jnp.repeat(x, rollouts, axis=0) for x in (p.states, p.actions))
        carry = (state, action, jnp.float32(1), jnp.zeros(len(state)))
        (*_, total), _ = jax.lax.scan(step, carry, jax.random.split(key, horizon))
        return jnp.mean(total.reshape(-1, rollouts), axis=1)

    arguments = jax.tree.map(jnp.asarray, p)
    return lambda: run(arguments, jax.random.key(0))


def numpy_loop(p: Plain, *, rollouts: int, horizon: int, block: int) -> Callable[[], Any]:
    """NumPy, by columns, noise given."""
    starts = block // rollouts
    noise = _noise(horizon, block)
    blocks = list(zip(_blocks(p.states, starts), _blocks(p.actions, starts), strict=True))

    def run() -> np.ndarray:
        found = []
        for start in blocks:
            state, action = (np.repeat(x, rollouts, axis=-1) for x in start)
            carry = (state, action, np.float32(1), np.zeros(state.shape[-1], np.float32))
            for z in zip(*noise, strict=True):
                carry = _column_step(p, np, carry, *z)
            found.append(carry[-1].reshape(starts, rollouts).mean(axis=1))
        return np.concatenate(found)

    return run
