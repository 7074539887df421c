"""The loop over logs larger than memory: the same parts, a shard of trajectories at a time.

Everything that an iteration needs of a log is a sum over trajectories: the statistics of the fit,
the gradient, the weights of an effective sample size. Each shard adds its own, on the scale of its
own largest ratio, and sums of different scales are added by `add`. One iteration reads the log once
for every pass of the fit and once for the gradient.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Key

from gamps import gradients, importance, sampling, sharding
from gamps.errors import SettingError
from gamps.fitting import ClosedForm, Keep, negative_log_likelihood
from gamps.models import ClosedFormModel
from gamps.policies import Policy
from gamps.search import Info, Search, State, nothing
from gamps.trajectories import Trajectories, flat
from gamps.weights import GradientAware, Ones


@runtime_checkable
class Parts(Protocol):
    """A log in parts, as `datasets.Shards` is."""

    @property
    def n_trajectories(self) -> int:
        """Of all parts."""

    def __len__(self) -> int:
        """How many parts."""

    def __iter__(self) -> Iterator[Trajectories]:
        """All of them, one after the other, as often as asked."""

    def only(self, indices: Sequence[int]) -> Iterable[Trajectories]:
        """Some of them."""


class Sums(NamedTuple):
    """Sums of a part of the log.

    Attributes:
      log_scale: of `scaled`, which is to be multiplied by its exponential.
      scaled: sums whose true size may be too large to represent.
      plain: sums as they are.
    """

    log_scale: Float[Array, ""]
    scaled: Any
    plain: Any


@jax.jit
def add(a: Sums, b: Sums) -> Sums:
    """Both on the larger of their scales.

    Example:
      >>> zero = jnp.zeros(())
      >>> float(add(Sums(zero + 200, zero + 1, ()), Sums(zero - 200, zero + 1, ())).scaled)
      1.0
    """
    scale = jnp.maximum(a.log_scale, b.log_scale)
    left, right = jnp.exp(a.log_scale - scale), jnp.exp(b.log_scale - scale)
    return Sums(
        scale,
        jax.tree.map(lambda x, y: left * x + right * y, a.scaled, b.scaled),
        jax.tree.map(jnp.add, a.plain, b.plain),
    )


def _weighed(search: Search, policy: Policy) -> tuple[Any, Any, Array]:
    """Ratios of the gradient, ω, and the log-scale of ω."""
    log = search.trajectories
    cumulative = importance.log_rho(policy, log)
    ratios = importance.Ratios.of(search.ratio(cumulative), log.mask, search.task.discount)
    fit_ratios = ratios
    if search.weight_ratio is not None:
        fit_log_rho = search.weight_ratio(cumulative)
        fit_ratios = importance.Ratios.of(fit_log_rho, log.mask, search.task.discount)
    weights = jnp.where(log.mask, search.weighting(policy, log, fit_ratios), 0.0)
    alike = isinstance(search.weighting, Ones)
    return ratios, weights, jnp.zeros_like(ratios.log_scale) if alike else fit_ratios.log_scale


@eqx.filter_jit
def _statistics(search: Search, policy: Policy, model: ClosedFormModel) -> Sums:
    """What one shard adds to a pass of the fit."""
    log = search.trajectories
    _, weights, log_scale = _weighed(search, policy)
    transitions = (log.states, log.actions, log.next_states, weights)
    statistics = model.statistics(*map(flat, transitions))
    return sharding.replicated(Sums(log_scale, statistics, ()))


@eqx.filter_jit
def _gradient(
    search: Search, key: Array, number: Array, policy: Policy, model: Any
) -> tuple[Sums, Sums, Float[Array, "n"]]:
    """What one shard adds to the gradient and to what is reported; and its whole-episode ratios."""
    log = search.trajectories
    key_values = jax.random.split(key)[1]
    ratios, weights, weight_scale = _weighed(search, policy)
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
    return sharding.replicated(
        (
            Sums(at_ratios.log_scale, whole, count),
            Sums(weight_scale, (total, loss), ()),
            importance.whole_episode(ratios.log_rho, log.mask),
        )
    )


def _check(search: Search) -> None:
    for name, allowed in (("fit", (ClosedForm, Keep)), ("weighting", (GradientAware, Ones))):
        if not isinstance(part := getattr(search, name), allowed):
            mend = f"Use {' or '.join(kind.__name__ for kind in allowed)}"
            finding = f"{type(part).__name__} looks at the whole log at once"
            raise SettingError(name, finding, mend)
    if search.sample is not sampling.whole:
        raise SettingError("sample", "of a log in memory", "Say how many shards, by `some`")
    if search.largest_kl is not None:
        raise SettingError("largest_kl", "needs the pairs of the whole log", "Leave it out")


def step(
    search: Search,
    key: Key[Array, ""],
    state: State,
    shards: Iterable[Trajectories],
    *,
    count: float | None = None,
    over: Mesh | None = None,
) -> tuple[State, Info]:
    """One iteration of Algorithm 1 over shards, which are gone through several times.

    Args:
      search: the assembled algorithm; its own trajectories are not looked at.
      key: of this iteration.
      state: before it.
      shards: of this iteration.
      count: trajectories that the gradient's sum is divided by; None divides by theirs.
      over: devices that each shard is laid out on; None for one.

    Returns:
      The state after it and what it reports, the effective number of transitions excepted.
    """
    policy, model = search.explore(state.policy, state.iteration), state.model
    whole: list[np.ndarray] = []

    def each() -> Iterator[tuple[Search, Array]]:
        before = jnp.asarray(0)
        for number, shard in enumerate(shards):
            log = dataclasses.replace(shard, before=before)
            before = before + jnp.sum(shard.mask)
            if over is not None:
                log = sharding.laid_out(log, over)
            yield dataclasses.replace(search, trajectories=log), jnp.asarray(number)

    def gradients_of() -> Iterator[tuple[Sums, Sums]]:
        for part, number in each():
            *sums, ratios = _gradient(part, key, number, policy, model)
            whole.append(np.asarray(ratios))
            yield sums[0], sums[1]

    with contextlib.nullcontext() if over is None else jax.set_mesh(over):
        if over is not None:
            search, key, policy, model = sharding.everywhere((search, key, policy, model), over)
        if isinstance(search.fit, ClosedForm):
            for _ in range(model.passes):
                (statistics,) = _totals((_statistics(p, policy, model),) for p, _ in each())
                model = _fitted(model, statistics.scaled)
        gradient, reported = _totals(gradients_of())
    if over is not None:
        policy, model, gradient, reported = sharding.here((policy, model, gradient, reported))
    ratios = jnp.asarray(np.concatenate(whole))
    if count is not None:
        gradient = gradient._replace(plain=jnp.asarray(count))
    state, info = _climbed(search, state, policy, gradient, reported, ratios)
    return state._replace(model=model), info


def _totals(sums: Iterable[tuple[Sums, ...]]) -> tuple[Sums, ...]:
    """Added as they come; waited for, or shards would gather in memory before they are used."""
    total: tuple[Sums, ...] = ()
    for more in sums:
        total = tuple(add(a, b) for a, b in zip(total, more, strict=True)) if total else more
        jax.block_until_ready(total)
    return total


@eqx.filter_jit
def _fitted(model: ClosedFormModel, statistics: Any) -> ClosedFormModel:
    return model.from_statistics(statistics)


@eqx.filter_jit
def _climbed(
    search: Search,
    state: State,
    policy: Policy,
    gradient: Sums,
    reported: Sums,
    ratios: Float[Array, "N"],
) -> tuple[State, Info]:
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


def run(
    search: Search,
    shards: Parts,
    key: Key[Array, ""],
    state: State,
    *,
    iterations: int,
    some: int | None = None,
    over: Mesh | None = None,
    measure: Callable[[State], Any] = nothing,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> tuple[State, Info, Any]:
    """`search.run` for a log that is not in memory.

    Args:
      search: the assembled algorithm, of any shard.
      shards: the log.
      key: one key.
      state: from `search.init`.
      iterations: how many steps.
      some: shards that an iteration takes, drawn anew without repetition; None takes all. What
        they add up to is then an estimate, of the fit as of the gradient, at a cost that does not
        grow with the log.
      over: devices that each shard is laid out on; None for one.
      measure: called on each new state.
      progress: wraps the range of iterations.

    Returns:
      As `search.run`.
    """
    _check(search)
    if iterations < 1:
        raise SettingError("iterations", f"{iterations}", "Run at least one")
    if some is not None and not 1 <= some <= len(shards):
        raise SettingError("some", f"{some} of {len(shards)} shards", "Take fewer, at least one")
    history = []
    for _ in progress(range(iterations)):
        now = jax.random.fold_in(key, state.iteration)
        taken: Iterable[Trajectories] = shards
        count = None
        if some is not None and some < len(shards):
            order = jax.random.permutation(jax.random.fold_in(now, 3), len(shards))
            taken = shards.only(sorted(int(i) for i in order[:some]))
            # By what they would have on average: shards differ, and the mean must not.
            count = shards.n_trajectories * some / len(shards)
        state, info = step(search, now, state, taken, count=count, over=over)
        history.append((info, measure(state)))
    infos, measured = jax.tree.map(lambda *leaves: np.stack(leaves), *history)
    return state, infos, measured
