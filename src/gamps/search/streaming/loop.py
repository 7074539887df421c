"""Iterations over shards."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Key

from gamps.errors import SettingError
from gamps.search import Info, Search, State, placement, sampling
from gamps.search.algorithm import nothing
from gamps.search.fitting import ClosedForm, Keep
from gamps.search.gradients import Logged, SubsampledPairs
from gamps.search.importance import self_normalise
from gamps.search.streaming.shard import climbed, fitted, gradient_of, statistics_of, weights_of
from gamps.search.streaming.sums import Sums, totals
from gamps.search.values import FittedQ
from gamps.search.weights import GradientAware, Ones
from gamps.trajectories import Trajectories

KEPT = 2**28  # bytes of ω that are kept between passes over the log


@runtime_checkable
class Parts(Protocol):
    """A log in parts, such as `datasets.Shards`."""

    @property
    def n_trajectories(self) -> int:
        """The number of trajectories in all parts."""

    def __len__(self) -> int:
        """The number of parts."""

    def __iter__(self) -> Iterator[Trajectories]:
        """All parts in order; the log can be read any number of times."""

    def only(self, indices: Sequence[int]) -> Iterable[Trajectories]:
        """The parts with these indices."""


def check(search: Search) -> None:
    """Raise if a part of the search needs the whole log at once."""
    for name, allowed in (
        ("fit", (ClosedForm, Keep)),
        ("weighting", (GradientAware, Ones)),
        ("pairs", (Logged, SubsampledPairs)),
    ):
        if not isinstance(part := getattr(search, name), allowed):
            fix = f"Use {' or '.join(kind.__name__ for kind in allowed)}"
            problem = f"{type(part).__name__} needs the whole log at once"
            raise SettingError(name, problem, fix)
    if isinstance(search.values, FittedQ) or getattr(search.values, "tail", None) is not None:
        raise SettingError("values", "FittedQ is fitted to the whole log", "Leave the tail out")
    if self_normalise in (search.ratio, search.weight_ratio):
        raise SettingError("ratio", "self_normalise needs the whole log", "Use importance.Clip")
    if search.sample is not sampling.whole:
        raise SettingError("sample", "needs a log in memory", "Set the number of shards, `some`")
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
    """One iteration of Algorithm 1 over shards, which are read several times.

    Args:
      search: the assembled algorithm; its own trajectories are not used.
      key: the key of this iteration.
      state: the state before the iteration.
      shards: the shards of this iteration.
      count: number of trajectories to divide the gradient's sum by; the shards' number if None.
      over: devices to split each shard over; None for a single device.

    Returns:
      The new state and the report, without the effective number of transitions.
    """
    policy, model = search.explore(state.policy, state.iteration), state.model
    episode_ratios: list[np.ndarray] = []
    cache: dict[int, Any] = {}

    def weights(part: Search, number: int) -> Any:
        """ω of one shard; kept for the next pass as far as `KEPT` allows."""
        weighed = cache.get(number) or weights_of(part, policy)
        if (number + 1) * weighed[0].nbytes <= KEPT:
            cache[number] = weighed
        return weighed

    def each() -> Iterator[tuple[Search, int]]:
        before = jnp.asarray(0)
        for number, shard in enumerate(shards):
            log = dataclasses.replace(shard, before=before)
            before = before + jnp.sum(shard.mask)
            if over is not None:
                log = placement.laid_out(log, over)
            yield dataclasses.replace(search, trajectories=log), number

    def gradients_of() -> Iterator[tuple[Sums, Sums]]:
        for part, number in each():
            weighed = weights(part, number)
            *sums, ratios = gradient_of(part, key, jnp.asarray(number), policy, model, *weighed)
            episode_ratios.append(np.asarray(ratios))
            yield sums[0], sums[1]

    with contextlib.nullcontext() if over is None else jax.set_mesh(over):
        if over is not None:
            search, key, policy, model = placement.everywhere((search, key, policy, model), over)
        if isinstance(search.fit, ClosedForm):
            for _ in range(model.passes):
                (sums,) = totals((statistics_of(p, model, *weights(p, i)),) for p, i in each())
                model = fitted(model, sums.scaled)
        gradient, reported = totals(gradients_of())
    if over is not None:
        policy, model, gradient, reported = placement.here((policy, model, gradient, reported))
    ratios = jnp.asarray(np.concatenate(episode_ratios))
    if count is not None:
        gradient = gradient._replace(plain=jnp.asarray(count))
    return climbed(search, state, policy, model, gradient, reported, ratios)


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
    """`search.run` for a log that is not in memory; each shard is split over the devices `over`.

    An iteration uses `some` shards, drawn anew without replacement; None uses all. With `some`,
    both the fit and the gradient are estimates, at a cost that does not grow with the log.
    """
    check(search)
    if iterations < 1:
        raise SettingError("iterations", f"{iterations}", "Run at least one")
    if some is not None and not 1 <= some <= len(shards):
        raise SettingError("some", f"{some} of {len(shards)} shards", "Use fewer, at least one")
    history = []
    for _ in progress(range(iterations)):
        now = jax.random.fold_in(key, state.iteration)
        chosen: Iterable[Trajectories] = shards
        count = None
        if some is not None and some < len(shards):
            order = jax.random.permutation(jax.random.fold_in(now, 3), len(shards))
            chosen = shards.only(sorted(int(i) for i in order[:some]))
            # Divide by their average number: shards differ in size, and the mean must stay exact.
            count = shards.n_trajectories * some / len(shards)
        state, info = step(search, now, state, chosen, count=count, over=over)
        history.append((info, measure(state)))
    infos, measured = jax.tree.map(lambda *leaves: np.stack(leaves), *history)
    return state, infos, measured
