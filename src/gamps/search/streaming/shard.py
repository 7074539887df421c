"""What one shard adds to an iteration; each function compiles once for each shape."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps.models import ClosedFormModel
from gamps.policies import Policy
from gamps.search import importance, placement
from gamps.search.algorithm import Gradient, Info, Search, State
from gamps.search.fitting import Keep, negative_log_likelihood
from gamps.search.streaming.sums import Sums
from gamps.search.weights import Ones
from gamps.trajectories import flat


@eqx.filter_jit
def weights_of(search: Search, policy: Policy) -> tuple[Float[Array, "N T"], Float[Array, ""]]:
    """ω of one shard, and its log-scale."""
    log = search.trajectories
    _, weights, log_scale = search.weigh(policy, log)
    alike = isinstance(search.weighting, Ones)
    return weights, jnp.zeros_like(log_scale) if alike else log_scale


@eqx.filter_jit
def statistics_of(
    search: Search, model: ClosedFormModel, weights: Float[Array, "N T"], log_scale: Array
) -> Sums:
    """What one shard adds to a pass of the fit."""
    log = search.trajectories
    transitions = (log.states, log.actions, log.next_states, weights)
    statistics = model.statistics(*map(flat, transitions))
    return placement.replicated(Sums(log_scale, statistics, ()))


@eqx.filter_jit
def gradient_of(
    search: Search,
    key: Array,
    number: Array,
    policy: Policy,
    model: Any,
    weights: Float[Array, "N T"],
    log_scale: Array,
) -> tuple[Sums, Sums, Float[Array, "n"]]:
    """What one shard adds to the gradient and to the report, and its whole-episode ratios."""
    log = search.trajectories
    keys = jax.random.fold_in(jax.random.fold_in(key, 2), number), jax.random.split(key)[1]
    ratios = search.weigh(policy, log).ratios
    gradient = search.gradient(keys, policy, model, log, ratios)
    count = jnp.sum(log.mask[:, 0])
    ascent = jax.tree.map(lambda g: g * count, gradient.ascent)
    total = jnp.sum(weights)
    loss = jnp.zeros_like(total)
    if not isinstance(search.fit, Keep):
        loss = total * negative_log_likelihood(model, log, weights)
    return placement.replicated(
        (
            Sums(gradient.log_scale, ascent, count),
            Sums(log_scale, (total, loss), ()),
            importance.whole_episode(ratios.log_rho, log.mask),
        )
    )


@eqx.filter_jit
def fitted(model: ClosedFormModel, statistics: Any) -> ClosedFormModel:
    """The model after a pass over all shards."""
    return model.from_statistics(statistics)


@eqx.filter_jit
def climbed(
    search: Search,
    state: State,
    policy: Policy,
    model: Any,
    gradient: Sums,
    reported: Sums,
    ratios: Float[Array, "N"],
) -> tuple[State, Info]:
    """The end of an iteration, from the sums over all shards."""
    mean = jax.tree.map(lambda g: g / gradient.plain, gradient.scaled)
    total, loss = reported.scaled
    loss = loss / jnp.where(total > 0, total, 1.0)
    unknown = jnp.full((), jnp.nan, ratios.dtype)
    sums = Gradient(mean, gradient.log_scale, None)
    return search.climb(state, policy, model, sums, ratios, loss, unknown)
