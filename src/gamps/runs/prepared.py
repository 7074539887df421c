"""The log of a training, in memory or on disk, and what builds the training on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh

from gamps import datasets
from gamps.search import placement, streaming
from gamps.errors import SettingError
from gamps.search import Search
from gamps.runs.search_training import Climbing
from gamps.runs.resolve import check_named, features_of, policy_of, task_of
from gamps.runs.build import assembled, build
from gamps.runs.state import Training
from gamps.runs.spec import Words, check

SAMPLE = 500_000  # steps of a log on disk that are held in memory, to judge and to inspect by


def _untold(doing: str) -> None:
    del doing


def streamed(words: Words, shards: datasets.Shards, over: Mesh | None = None) -> Training:
    """As `build`, on a log that is read from disk, a shard at a time."""
    check(words)
    task = task_of(words.task)
    learned, _ = shards.split(words.held_out, words.seed)
    learned, judged = learned.split(words.held_out, words.seed)
    if words.some > len(learned):
        raise SettingError("some", f"{words.some} of {len(learned)} shards", "Take fewer, or all")
    some = learned.sample(SAMPLE)
    start = policy_of(words.policy, described(shards)._replace(trajectories=some), words.seed)
    features = features_of(words.features, some)
    key = jax.random.fold_in(jax.random.key(words.seed), 1)
    search, model = assembled(words, key, task, features, some)
    streaming.check(search)

    def run(search: Search, key: Any, state: Any, *, iterations: int) -> Any:
        taken = words.some or None
        return streaming.run(
            search, learned, key, state, iterations=iterations, some=taken, over=over
        )

    number = words.iterations
    return Climbing(
        key, search, start, model, iterations=number, judged=judged.sample(SAMPLE), run=run
    )


def described(shards: datasets.Shards) -> datasets.Dataset:
    """Some of the log, with what is known of the whole."""
    known = (shards.behaviour, shards.discount, None, shards.densities)
    return datasets.Dataset(shards.sample(SAMPLE), *known)


def prepared(
    words: Words, over: Mesh | None = None, advance: Callable[[str], None] = _untold
) -> tuple[datasets.Dataset, Callable[[], Training]]:
    """The log, or some of it, and what builds the training on all of it.

    Args:
      words: of the user.
      over: devices to share the log out among; None for one.
      advance: told of each episode of a log that is cut into shards first.

    Raises:
      SettingError: before the log is read, if something that the words name cannot be used.
    """
    check_named(words)
    if not words.stream:
        data = datasets.load(words.log)
        return data, lambda: build(words, data, over)
    if jax.process_index() == 0:  # the others take what it has cut
        datasets.shards_of(words.log, advance=advance)
    placement.wait("cut into shards")
    shards = datasets.shards_of(words.log)
    return described(shards), lambda: streamed(words, shards, over)
