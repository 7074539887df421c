"""How much better a logged action turned out than what its policy does there on average.

V of the logging policy is a network of the observation and of the steps that are left, fitted to
the log's own returns; no model of transitions is asked. Q - V is then a trace: rewards as they were
logged for some steps, V after them. Nothing follows an episode's last step, as in its return.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from gamps._utils.networks import MLP
from gamps.trajectories import Trajectories, flat

HIDDEN = (64, 64)
UPDATES, SIZE, RATE = 4_800, 512, 3e-3  # of the fit


class ValueNetwork(eqx.Module):
    """V̂(s, steps left) of the policy that made a log.

    Attributes:
      network: of scaled inputs, to a scaled value.
      inputs: mean and deviation, as two rows; the last input is the discounted steps left.
      values: the same of returns.
    """

    network: MLP
    inputs: Float[Array, "2 I"]
    values: Float[Array, "2"]

    def __call__(self, inputs: Float[Array, "I"]) -> Float[Array, ""]:
        """At one observation, with its steps left."""
        scaled = (inputs - self.inputs[0]) / self.inputs[1]
        return self.values[0] + self.values[1] * self.network(scaled)[0]


@eqx.filter_jit
def value_network(
    key: Key[Array, ""], log: Trajectories, discount: Float[Array, ""] | float
) -> ValueNetwork:
    """Regress what followed each logged step."""
    key_network, key_fit = jax.random.split(key)
    mask, inputs = flat(log.mask), flat(_inputs(log, discount)[:, :-1])
    targets = flat(_discounted_sums(log.rewards, log, discount))
    real, count = jnp.argsort(~mask, stable=True), jnp.sum(mask)
    share = mask / count
    sizes = (inputs.shape[1], *HIDDEN, 1)
    start = ValueNetwork(MLP(key_network, sizes), _moments(inputs, share), _moments(targets, share))
    parameters, static = eqx.partition(start.network, eqx.is_array)
    adam = optax.adam(optax.cosine_decay_schedule(RATE, UPDATES))

    def whole(parameters: Any) -> ValueNetwork:
        network: ValueNetwork = eqx.tree_at(
            lambda v: v.network, start, eqx.combine(parameters, static)
        )
        return network

    def update(carry: Any, key: Array) -> tuple[Any, None]:
        parameters, moments = carry
        at = real[jax.random.randint(key, (SIZE,), 0, count)]

        def loss(parameters: Any) -> Array:
            off = jax.vmap(whole(parameters))(inputs[at]) - targets[at]
            return jnp.mean((off / start.values[1]) ** 2)

        updates, moments = adam.update(jax.grad(loss)(parameters), moments)
        return (eqx.apply_updates(parameters, updates), moments), None

    keys = jax.random.split(key_fit, UPDATES)
    (parameters, _), _ = jax.lax.scan(update, (parameters, adam.init(parameters)), keys)
    return whole(parameters)


@eqx.filter_jit
def logged_advantages(
    value: ValueNetwork,
    log: Trajectories,
    discount: Float[Array, ""] | float,
    trace: Float[Array, ""] | float,
) -> Float[Array, "N T"]:
    """Σ_k (γλ)^k δ_{t+k}, where δ = r + γ V(s') - V(s); zero where padded.

    Args:
      value: V of the policy that made the log.
      log: where.
      discount: γ.
      trace: λ; zero believes V after one step, one believes logged rewards alone.
    """
    values = jax.vmap(jax.vmap(value))(_inputs(log, discount))
    last = jnp.arange(log.n_steps) == log.lengths[:, None] - 1
    following = jnp.where(last, 0.0, values[:, 1:])
    surprises = log.rewards + discount * following - values[:, :-1]
    return jnp.where(log.mask, _discounted_sums(surprises, log, discount * trace), 0.0)


def _inputs(log: Trajectories, discount: Any) -> Float[Array, "N times I"]:
    """Observations, each with the discounted number of steps that a whole episode has left."""
    observations = log.observations.astype(jnp.result_type(float))
    powers = jnp.asarray(discount, observations.dtype) ** jnp.arange(log.n_steps)
    left = jnp.append(jnp.cumsum(powers)[::-1], 0.0)
    left = jnp.broadcast_to(left[:, None], (*observations.shape[:2], 1))
    return jnp.concatenate([observations, left], axis=-1)


def _moments(x: Float[Array, "n ..."], share: Float[Array, "n"]) -> Float[Array, "2 ..."]:
    """Mean and standard deviation of rows; one for what does not vary."""
    mean = jnp.tensordot(share, x, axes=1)
    std = jnp.sqrt(jnp.tensordot(share, (x - mean) ** 2, axes=1))
    return jnp.stack([mean, jnp.where(std > 1e-6 * (1 + jnp.abs(mean)), std, 1.0)])


def _discounted_sums(x: Float[Array, "N T"], log: Trajectories, factor: Any) -> Float[Array, "N T"]:
    """Σ_k factor^k x_{t+k}, of real steps."""

    def back(after: Array, now: Array) -> tuple[Array, Array]:
        total = now + factor * after
        return total, total

    real = jnp.where(log.mask, x, 0.0)
    return jax.lax.scan(back, jnp.zeros_like(real[:, 0]), real.T, reverse=True)[1].T
