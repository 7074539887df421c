"""How much better a logged action turned out than its policy's average action there.

V of the logging policy is a network of the observation and the number of steps left, fitted to the
log's own returns; no transition model is used. Q - V is then a trace: logged rewards for some
steps, V after them. As in the return, nothing follows an episode's last step.

For another policy both are traces in which each step is weighted by its ratio, truncated if large
(V-trace, Espeholt and others 2018). V is fitted to them repeatedly, each time from the last fit.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from gamps._utils.networks import MLP
from gamps.policies import Policy, log_probs
from gamps.trajectories import Trajectories, flat, real_steps

HIDDEN = (64, 64)
SIZE, UPDATES, RATE = 512, 4_800, 3e-3  # for the fit to returns
REFITS, REFIT_UPDATES, REFIT_RATE = 5, 800, 2e-3  # for the fits to another policy's traces
TRACE = 0.9  # λ of those traces
LARGEST = 1.5  # largest ratio for a step's surprise; for what follows it, the largest is one


class ValueNetwork(eqx.Module):
    """V̂(s, steps left) of the policy that made a log.

    Attributes:
      network: maps scaled inputs to a scaled value.
      inputs: mean and standard deviation, as two rows; the last input is the discounted steps left.
      values: mean and standard deviation of returns.
    """

    network: MLP
    inputs: Float[Array, "2 I"]
    values: Float[Array, "2"]

    def __call__(self, inputs: Float[Array, "I"]) -> Float[Array, ""]:
        """The value at one observation, with its steps left."""
        scaled = (inputs - self.inputs[0]) / self.inputs[1]
        return self.values[0] + self.values[1] * self.network(scaled)[0]


@eqx.filter_jit
def value_network(
    key: Key[Array, ""], log: Trajectories, discount: Float[Array, ""] | float
) -> ValueNetwork:
    """Fit V to the return that followed each logged step."""
    key_network, key_fit = jax.random.split(key)
    mask, inputs = flat(log.mask), flat(_inputs(log, discount)[:, :-1])
    targets = _sums(log.rewards, log, discount)
    share = mask / jnp.sum(mask)
    sizes = (inputs.shape[1], *HIDDEN, 1)
    moments = (_moments(inputs, share), _moments(flat(targets), share))
    start = ValueNetwork(MLP(key_network, sizes), *moments)
    return _fitted(key_fit, start, log, discount, targets, UPDATES, RATE)


def value_of(
    key: Key[Array, ""],
    value: ValueNetwork,
    log: Trajectories,
    discount: Float[Array, ""] | float,
    policy: Policy,
) -> ValueNetwork:
    """V of a policy close to the logging policy, starting from V of an earlier policy."""
    return _value_of(key, value, log, real_steps(log), discount, policy)


@eqx.filter_jit
def _value_of(
    key: Array,
    value: ValueNetwork,
    log: Trajectories,
    real: Int[Array, "M"],
    discount: Any,
    policy: Policy,
) -> ValueNetwork:
    ratios = _ratios(policy, log)
    parameters, static = eqx.partition(value, eqx.is_array)

    def refit(parameters: Any, key: Array) -> tuple[Any, None]:
        value = eqx.combine(parameters, static)
        values, surprises = _surprises(value, log, real, discount)
        targets = values + _trace(surprises, ratios, log, discount, TRACE)
        value = _fitted(key, value, log, discount, targets, REFIT_UPDATES, REFIT_RATE)
        return eqx.filter(value, eqx.is_array), None

    parameters, _ = jax.lax.scan(refit, parameters, jax.random.split(key, REFITS))
    return eqx.combine(parameters, static)


def logged_advantages(
    value: ValueNetwork,
    log: Trajectories,
    discount: Float[Array, ""] | float,
    trace: Float[Array, ""] | float,
    policy: Policy | None = None,
) -> Float[Array, "N T"]:
    """Σ_k (γλ)^k δ_{t+k}, where δ = r + γ V(s') - V(s); zero where padded.

    Args:
      value: V of the policy.
      log: the logged steps.
      discount: γ.
      trace: λ; zero uses V after one step, one uses only logged rewards.
      policy: the policy whose advantages these are; None means the one that made the log.
    """
    return _advantages(value, log, real_steps(log), discount, trace, policy)


@eqx.filter_jit
def _advantages(
    value: ValueNetwork,
    log: Trajectories,
    real: Int[Array, "M"],
    discount: Any,
    trace: Any,
    policy: Policy | None,
) -> Float[Array, "N T"]:
    ratios = jnp.ones_like(log.rewards) if policy is None else _ratios(policy, log)
    _, surprises = _surprises(value, log, real, discount)
    later = _trace(surprises, ratios, log, discount, trace)
    later = jnp.pad(later, ((0, 0), (0, 1)))[:, 1:]
    return jnp.where(log.mask, surprises + discount * trace * later, 0.0)


def _ratios(policy: Policy, log: Trajectories) -> Float[Array, "N T"]:
    return jnp.where(log.mask, jnp.exp(log_probs(policy, log) - log.behaviour_log_prob), 1.0)


def _surprises(
    value: ValueNetwork, log: Trajectories, real: Int[Array, "M"], discount: Any
) -> tuple[Float[Array, "N T"], Float[Array, "N T"]]:
    """V at each state where an action was taken, and δ there; zero where padded."""
    inputs = flat(_inputs(log, discount)[:, :-1])[real]
    values = jnp.zeros(log.mask.size, inputs.dtype).at[real].set(jax.vmap(value)(inputs))
    values = values.reshape(log.mask.shape)
    following = jnp.pad(values, ((0, 0), (0, 1)))[:, 1:]  # nothing follows the last step
    return values, jnp.where(log.mask, log.rewards + discount * following - values, 0.0)


def _trace(
    surprises: Float[Array, "N T"],
    ratios: Float[Array, "N T"],
    log: Trajectories,
    discount: Any,
    trace: Any,
) -> Float[Array, "N T"]:
    """The error of V at each state, from all that followed; truncated ratios weight each step."""
    counted = jnp.minimum(ratios, LARGEST) * surprises
    return _sums(counted, log, discount * trace * jnp.minimum(ratios, 1.0))


def _fitted(
    key: Array,
    start: ValueNetwork,
    log: Trajectories,
    discount: Any,
    targets: Float[Array, "N T"],
    updates: int,
    rate: float,
) -> ValueNetwork:
    """Fit V by least squares, starting from `start`."""
    mask, inputs, targets = flat(log.mask), flat(_inputs(log, discount)[:, :-1]), flat(targets)
    real, count = jnp.argsort(~mask, stable=True), jnp.sum(mask)
    parameters, static = eqx.partition(start.network, eqx.is_array)
    adam = optax.adam(optax.cosine_decay_schedule(rate, updates))

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

        steps, moments = adam.update(jax.grad(loss)(parameters), moments)
        return (eqx.apply_updates(parameters, steps), moments), None

    keys = jax.random.split(key, updates)
    (parameters, _), _ = jax.lax.scan(update, (parameters, adam.init(parameters)), keys)
    return whole(parameters)


def _inputs(log: Trajectories, discount: Any) -> Float[Array, "N times I"]:
    """Observations, each with the discounted number of steps that a whole episode has left."""
    observations = log.observations.astype(jnp.result_type(float))
    powers = jnp.asarray(discount, observations.dtype) ** jnp.arange(log.n_steps)
    left = jnp.append(jnp.cumsum(powers)[::-1], 0.0)
    left = jnp.broadcast_to(left[:, None], (*observations.shape[:2], 1))
    return jnp.concatenate([observations, left], axis=-1)


def _moments(x: Float[Array, "n ..."], share: Float[Array, "n"]) -> Float[Array, "2 ..."]:
    """Mean and standard deviation over rows; the deviation is one for a constant column."""
    mean = jnp.tensordot(share, x, axes=1)
    std = jnp.sqrt(jnp.tensordot(share, (x - mean) ** 2, axes=1))
    return jnp.stack([mean, jnp.where(std > 1e-6 * (1 + jnp.abs(mean)), std, 1.0)])


def _sums(x: Float[Array, "N T"], log: Trajectories, factors: Any) -> Float[Array, "N T"]:
    """x_t + factor_t (x_{t+1} + factor_{t+1} ...), over real steps."""

    def back(after: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        total = now[0] + now[1] * after
        return total, total

    real = jnp.where(log.mask, x, 0.0)
    each = (real.T, jnp.broadcast_to(factors, real.shape).T)
    return jax.lax.scan(back, jnp.zeros_like(real[:, 0]), each, reverse=True)[1].T
