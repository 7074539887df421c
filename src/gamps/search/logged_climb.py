"""Climb on the logged actions, as far as the log supports it, and estimate the gain.

No model is used: where models cannot be trusted, this is what the log alone supports.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from gamps.policies import Policy, log_probs
from gamps.search.values import logged_advantages, value_network, value_of
from gamps.trajectories import Trajectories, flat

SIZE = 1024  # logged steps per update
PASSES, UPDATES = 40, 4_000  # at most
RATE = 1.5e-3  # of Adam, in units
TIMES = 4  # climbs, each from where the one before ended
FARTHEST = 1.0  # stop climbing beyond this mean divergence of logged steps
HELD_OUT = 5  # every fifth episode is used to estimate the gain of learning from the others


class LoggedClimb(NamedTuple):
    """The result of climbing on the log.

    Attributes:
      policy: the mean over the later half of the updates.
      gain: in discounted return, on episodes that it did not learn from; states are the log's.
      error: standard error of the gain.
    """

    policy: Policy
    gain: float
    error: float


def climb_on_log(
    key: Key[Array, ""],
    policy: Policy,
    units: Any,
    log: Trajectories,
    discount: float,
    *,
    trace: float,
    clip: float,
) -> LoggedClimb:
    """Raise the ratio of actions that turned out better than usual, and lower that of others.

    Then estimate from the same log how much better they are than the new policy's actions, and
    climb again. A step's ratio is not raised beyond 1 + `clip`, nor lowered beyond 1 - `clip`.

    Args:
      key: for V and for minibatches.
      policy: where to start; the log's densities are those of the policy that made it.
      units: size of one step in each parameter.
      log: the log; its advantages are those of the logging policy.
      discount: of returns.
      trace: λ of the advantages.
      clip: limit on how far ratios move.
    """
    key, key_value = jax.random.split(key)
    value = value_network(key_value, log, discount)
    advantages = logged_advantages(value, log, discount, trace)
    learned = jnp.arange(len(log.mask)) % HELD_OUT != HELD_OUT - 1
    updates = min(PASSES * max(int(log.mask.sum()) // SIZE, 1), UPDATES)
    gains, before = np.zeros(int((~learned).sum())), None
    for again in range(TIMES):
        key, key_value, key_climb = jax.random.split(key, 3)
        if again:
            value = value_of(key_value, value, log, discount, policy)
            advantages = logged_advantages(value, log, discount, trace, policy)
            before = policy
        policy = _climb(key_climb, policy, units, log, advantages, learned, clip, updates)
        each, divergence = _gains(policy, before, log, advantages, discount)
        gains += np.asarray(each, np.float64)[~np.asarray(learned)]
        if not divergence < FARTHEST:
            break
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return LoggedClimb(policy, float(gains.mean()), float(error))


@eqx.filter_jit
def _climb(
    key: Array,
    policy: Policy,
    units: Any,
    log: Trajectories,
    advantages: Float[Array, "N T"],
    learned: Array,
    clip: float,
    updates: int,
) -> Policy:
    parameters, static = eqx.partition(policy, eqx.is_inexact_array)
    used = flat(log.mask & learned[:, None])
    rows, count = jnp.argsort(~used, stable=True), jnp.sum(used)
    pairs = (flat(log.states), flat(log.actions), flat(log.behaviour_log_prob))
    scaled = flat(advantages)
    usual = jnp.sum(jnp.where(used, scaled, 0.0)) / count
    deviation = jnp.sqrt(jnp.sum(jnp.where(used, (scaled - usual) ** 2, 0.0)) / count)
    scaled = (scaled - usual) / jnp.maximum(deviation, jnp.finfo(deviation.dtype).tiny)
    adam = optax.scale_by_adam()

    def update(carry: Any, drawn: tuple[Array, Array]) -> tuple[Any, None]:
        (parameters, moments, mean), (key, share) = carry, drawn
        at = rows[jax.random.randint(key, (SIZE,), 0, count)]
        states, actions, before = (x[at] for x in pairs)

        def surrogate(parameters: Any) -> Array:
            now = jax.vmap(eqx.combine(parameters, static).log_prob)(states, actions)
            ratio = jnp.exp(now - before)
            kept = jnp.clip(ratio, 1 - clip, 1 + clip)
            return -jnp.mean(jnp.minimum(ratio * scaled[at], kept * scaled[at]))

        steps, moments = adam.update(jax.grad(surrogate)(parameters), moments)
        parameters = jax.tree.map(
            lambda p, step, unit: p - RATE * unit * step, parameters, steps, units
        )
        mean = jax.tree.map(lambda m, p: m + share.astype(p.dtype) * (p - m), mean, parameters)
        return (parameters, moments, mean), None

    later = jnp.arange(updates) - updates // 2
    drawn = (jax.random.split(key, updates), 1.0 / jnp.maximum(later, 1))
    carry = (parameters, adam.init(parameters), parameters)
    (*_, mean), _ = jax.lax.scan(update, carry, drawn)
    return eqx.combine(mean, static)


@eqx.filter_jit
def _gains(
    policy: Policy,
    before: Policy | None,
    log: Trajectories,
    advantages: Float[Array, "N T"],
    discount: float,
) -> tuple[Float[Array, "N"], Float[Array, ""]]:
    """Σ_t γ^t (ratio - ratio before) advantage of each episode, and the divergence from the log."""
    far = jnp.where(log.mask, log_probs(policy, log) - log.behaviour_log_prob, 0.0)
    ratios = jnp.exp(far)
    if before is None:
        earlier = jnp.ones_like(ratios)
    else:
        earlier = jnp.exp(log_probs(before, log) - log.behaviour_log_prob)
    powers = jnp.asarray(discount, ratios.dtype) ** jnp.arange(log.n_steps)
    gained = jnp.where(log.mask, powers * (ratios - earlier) * advantages, 0.0)
    return jnp.sum(gained, axis=1), -jnp.sum(far) / jnp.sum(log.mask)
