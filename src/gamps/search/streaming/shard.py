"""What one shard adds to an iteration; each function is one compiled program a shape."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps.models import ClosedFormModel
from gamps.policies import Policy
from gamps.search import Info, Search, State, gradients, importance, placement
from gamps.search.fitting import Keep, negative_log_likelihood
from gamps.search.streaming.sums import Sums
from gamps.search.weights import Ones
from gamps.trajectories import flat


def _ratios(search: Search, policy: Policy, part: Any) -> importance.Ratios:
    log = search.trajectories
    log_rho = part(importance.log_rho(policy, log))
    return importance.Ratios.of(log_rho, log.mask, search.task.discount)


@eqx.filter_jit
def weights_of(search: Search, policy: Policy) -> tuple[Float[Array, "N T"], Float[Array, ""]]:
    """ω of one shard, and its log-scale."""
    log, part = search.trajectories, search.weight_ratio or search.ratio
    ratios = _ratios(search, policy, part)
    weights = jnp.where(log.mask, search.weighting(policy, log, ratios), 0.0)
    alike = isinstance(search.weighting, Ones)
    return weights, jnp.zeros_like(ratios.log_scale) if alike else ratios.log_scale


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
    """What one shard adds to the gradient and to what is reported; and its whole-episode ratios."""
    log = search.trajectories
    key_values = jax.random.split(key)[1]
    ratios = _ratios(search, policy, search.ratio)
    key_pairs = jax.random.fold_in(jax.random.fold_in(key, 2), number)
    at, at_ratios = search.pairs(key_pairs, policy, model, search.task, log, ratios)
    values = search.values(key_values, policy, model, search.task, at, at_ratios)
    baseline = search.baseline(policy, at, at_ratios, values)
    gradient = gradients.off_policy(policy, at, values.weighted_q_values - baseline)
    count = jnp.sum(log.mask[:, 0])
    whole = jax.tree.map(lambda g: g * count, gradient)
    total = jnp.sum(weights)
    loss = jnp.zeros_like(total)
    if not isinstance(search.fit, Keep):
        loss = total * negative_log_likelihood(model, log, weights)
    return placement.replicated(
        (
            Sums(at_ratios.log_scale, whole, count),
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
    gradient: Sums,
    reported: Sums,
    ratios: Float[Array, "N"],
) -> tuple[State, Info]:
    """The end of an iteration, from the sums over all shards."""
    ess = importance.effective_sample_size(ratios)
    mean = jax.tree.map(lambda g: g / gradient.plain, gradient.scaled)
    new, norm = search.climb(state, policy, mean, gradient.log_scale, ess)
    total, loss = reported.scaled
    info = Info(
        gradient_norm=norm,
        log_scale=gradient.log_scale,
        model_loss=loss / jnp.where(total > 0, total, 1.0),
        ess=ess,
        pareto_k=importance.pareto_k(importance.some(ratios)),
        weights_ess=jnp.full((), jnp.nan, ess.dtype),
    )
    return new, info
