"""One problem of the swimmer's size, and a whole iteration of GAMPS on it written by hand.

`step` is what `Search.step` of `recipes.gamps_paper` does with the quadratic model, in plain arrays
and closed forms, nothing of the library inside: log-ratios, weights from the norms of the scores,
four passes of weighted least squares and their loss, imagined rollouts, the gradient and Adam. It
splits its key as the library does, so that both imagine with the same noise and have to agree.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from benchmarks.engine.kernels import ACTIONS, CONTROL_COST, DISCOUNT, OBSERVATIONS

# One, the entries of (s, a), and their products of two.
INPUTS = OBSERVATIONS + ACTIONS
FEATURES = 1 + INPUTS + INPUTS * (INPUTS + 1) // 2
PASSES, RIDGE, LEAST_SHARE, SMALLEST = 4, 1e-6, 0.25, 1e-9
UNBIASED = math.sqrt(math.pi / 2)
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
LEARNING_RATE, DECAYS, EPSILON = 0.02, (0.9, 0.999), 1e-8


class Log(NamedTuple):
    """The log, one row a step, and its actions' log-densities."""

    states: Float[Array, "n D"]
    actions: Float[Array, "n A"]
    following: Float[Array, "n D"]
    behaviour_log_prob: Float[Array, "N T"]


class Policy(NamedTuple):
    """Weights of (s, 1) and log of the deviations; also the shape of a gradient and of moments."""

    weights: Float[Array, "F A"]
    log_std: Float[Array, "A"]


class Model(NamedTuple):
    """Mean and deviation of s' - s, linear in the features."""

    mean: Float[Array, "F D"]
    std: Float[Array, "F D"]
    least: Float[Array, "D"]


class Carried(NamedTuple):
    """What an iteration hands to the next."""

    policy: Policy
    model: Model
    moments: tuple[Policy, Policy]
    iteration: Int[Array, ""]


class Reported(NamedTuple):
    """What an iteration reports."""

    gradient_norm: Float[Array, ""]
    model_loss: Float[Array, ""]
    ess: Float[Array, ""]
    weights_ess: Float[Array, ""]


class Noise(NamedTuple):
    """Standard normal numbers of one block, shared by all blocks."""

    model: Float[Array, "H D B"]
    policy: Float[Array, "H A B"]


def draw(key: Key[Array, ""], iteration: Any, *, rollouts: int, horizon: int, block: int) -> Noise:
    """The noise that the library draws in this iteration."""
    _, key_values = jax.random.split(jax.random.fold_in(key, iteration))
    key_noise, _ = jax.random.split(key_values)
    _, key_model, key_policy = jax.random.split(key_noise, 3)

    def normal(key: Array, size: int) -> Array:
        half = jax.random.normal(key, (horizon, size, block // rollouts, rollouts // 2))
        return jnp.concatenate([half, -half], axis=-1).reshape(horizon, size, block)

    return Noise(normal(key_model, OBSERVATIONS), normal(key_policy, ACTIONS))


def quadratic(x: Float[Array, "I n"]) -> Float[Array, "F n"]:
    """One, the entries, and all products of two of them, by columns."""
    # Of (1, x), so that two gathers make them all: joining pieces of different length is slower.
    rows, columns = np.triu_indices(INPUTS + 1)
    extended = jnp.pad(x, ((1, 0), (0, 0)), constant_values=1.0)
    return extended[rows] * extended[columns]


def _regress(gram: Array, moments: Array) -> Array:
    unit = jnp.sqrt(jnp.diagonal(gram))
    scaled = gram / unit[:, None] / unit + RIDGE * jnp.eye(FEATURES)
    return jnp.linalg.solve(scaled, moments / unit[:, None]) / unit[:, None]


def _fit(model: Model, log: Log, omega: Float[Array, "n"]) -> tuple[Model, Float[Array, ""]]:
    """Weighted least squares of s' - s and of its deviations, each pass by the last one's σ."""
    phi = quadratic(jnp.concatenate([log.states, log.actions], axis=1).T)
    differences = (log.following - log.states).T
    used = omega / jnp.max(omega)
    weighted = phi * used
    gram = weighted @ phi.T
    for _ in range(PASSES):
        precision = 1 / jnp.maximum(model.std.T @ phi, model.least[:, None]) ** 2
        apart = jnp.abs(differences - model.mean.T @ phi)
        # One dimension at a time: all at once would be a matrix eight times the log's features.
        precise = jax.lax.map(lambda p: (weighted * p) @ phi.T, precision)
        moments = (precision * differences) @ weighted.T
        mean = jax.vmap(_regress)(precise, moments[..., None])[..., 0].T
        deviation = _regress(gram, weighted @ apart.T)
        usual = (apart @ used) / jnp.sum(used)
        least = jnp.maximum(LEAST_SHARE * UNBIASED * usual, SMALLEST)
        model = Model(mean, UNBIASED * deviation, least)
    std = jnp.maximum(model.std.T @ phi, model.least[:, None])
    z = (differences - model.mean.T @ phi) / std
    cost = jnp.sum(0.5 * z * z + jnp.log(std), axis=0) + OBSERVATIONS * HALF_LOG_TAU
    return model, omega @ cost / jnp.sum(omega)


def _q_values(
    policy: Policy, model: Model, log: Log, noise: Noise, *, rollouts: int
) -> Float[Array, "n"]:
    """Mean return of the rollouts from every logged pair, a block of columns at a time."""
    starts = noise.model.shape[-1] // rollouts
    both = jnp.concatenate([model.mean, model.std], axis=1).T
    gain, offset = policy.weights[:-1].T, policy.weights[-1][:, None]
    deviation, least = jnp.exp(policy.log_std)[:, None], model.least[:, None]

    def step(carry: Any, z: Noise) -> tuple[Any, None]:
        state, action, discount, total = carry
        out = both @ quadratic(jnp.concatenate([state, action]))
        std = jnp.maximum(out[OBSERVATIONS:], least)
        following = state + out[:OBSERVATIONS] + std * z.model
        gained = 0.5 * (state[3] + following[3]) - CONTROL_COST * jnp.sum(action**2, axis=0)
        action = gain @ following + offset + deviation * z.policy
        return (following, action, discount * DISCOUNT, total + discount * gained), None

    def block(start: tuple[Array, Array]) -> Array:
        state, action = (jnp.repeat(x, rollouts, axis=-1) for x in start)
        carry = (state, action, jnp.ones(()), jnp.zeros(state.shape[-1]))
        (*_, total), _ = jax.lax.scan(step, carry, noise)
        return jnp.mean(total.reshape(starts, rollouts), axis=1)

    def blocks(x: Array) -> Array:
        return jnp.swapaxes(x.reshape(-1, starts, x.shape[1]), 1, 2)

    return jax.lax.map(block, (blocks(log.states), blocks(log.actions))).ravel()


def _ess(weights: Array) -> Array:
    return jnp.sum(weights) ** 2 / jnp.sum(weights**2)


def iterate(
    log: Log, carried: Carried, noise: Noise, *, rollouts: int
) -> tuple[Carried, Reported, Policy]:
    """One iteration with the given noise; the gradient comes with it."""
    policy = carried.policy
    shape = log.behaviour_log_prob.shape
    inputs = jnp.pad(log.states, ((0, 0), (0, 1)), constant_values=1.0)
    std = jnp.exp(policy.log_std)
    z = (log.actions - inputs @ policy.weights) / std
    log_prob = jnp.sum(-0.5 * z * z - policy.log_std - HALF_LOG_TAU, axis=1)
    log_rho = jnp.cumsum(log_prob.reshape(shape) - log.behaviour_log_prob, axis=1)
    discounted = log_rho + jnp.arange(shape[1]) * math.log(DISCOUNT)
    log_scale = jnp.max(discounted)
    rho = jnp.exp(discounted - log_scale)

    pull, spread = z / std, z * z - 1
    squares = jnp.sum(inputs**2, axis=1) * jnp.sum(pull**2, axis=1) + jnp.sum(spread**2, axis=1)
    omega = (rho * jnp.cumsum(jnp.sqrt(squares).reshape(shape), axis=1)).ravel()
    model, loss = _fit(carried.model, log, omega)
    q_values = _q_values(policy, model, log, noise, rollouts=rollouts)

    advantages = (rho.ravel() * q_values)[:, None] / shape[0]
    gradient = Policy(inputs.T @ (advantages * pull), jnp.sum(advantages * spread, axis=0))
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in gradient))
    gradient = Policy(*(g * jnp.exp(log_scale) for g in gradient))
    moments = tuple(
        Policy(*(d * m + (1 - d) * g**power for m, g in zip(old, gradient, strict=True)))
        for d, old, power in zip(DECAYS, carried.moments, (1, 2), strict=True)
    )
    count = carried.iteration + 1
    first, second = (1 - d**count for d in DECAYS)
    new = Policy(
        *(
            p + LEARNING_RATE * (m / first) / (jnp.sqrt(v / second) + EPSILON)
            for p, m, v in zip(policy, *moments, strict=True)
        )
    )
    whole = jnp.exp(log_rho[:, -1] - jnp.max(log_rho[:, -1]))
    reported = Reported(norm, loss, _ess(whole), _ess(omega))
    return Carried(new, model, (moments[0], moments[1]), count), reported, gradient


@partial(jax.jit, static_argnames=("rollouts", "horizon", "block"))
def step(
    key: Key[Array, ""], log: Log, carried: Carried, *, rollouts: int, horizon: int, block: int
) -> tuple[Carried, Reported, Policy]:
    """Draw the noise of this iteration, then iterate."""
    noise = draw(key, carried.iteration, rollouts=rollouts, horizon=horizon, block=block)
    return iterate(log, carried, noise, rollouts=rollouts)
