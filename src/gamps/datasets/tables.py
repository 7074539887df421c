"""Logs as tables: CSV, Parquet (with pyarrow) or a data frame; one row per step, named columns.

The last row of an episode may hold observations only, with action and reward left empty, to say
where the episode ended. Otherwise columns of next observations say so. If neither does, the last
step is stored as if it led back to where it started; `trajectories.known_transitions` leaves it
out.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from gamps.datasets.from_flat import from_flat
from gamps.datasets.table_blocks import Table, blocks_of, joined
from gamps.datasets.table_columns import Account, Columns, Dropped, Labelled, names_of
from gamps.datasets.table_values import (
    choices_of,
    column_of,
    flags_of,
    is_empty,
    logarithms_of,
    times_of,
)
from gamps.errors import DatasetError
from gamps.trajectories import Episode

ROWS = 65_536  # read at a time


def read_table(table: Any, columns: Columns) -> list[Episode]:
    """Read a table of steps into episodes, in the order of the table.

    Args:
      table: a path that ends in .csv or .parquet, or a data frame of pandas or polars.
      columns: which column holds what.

    Raises:
      DatasetError: names the column and the row, counted from one without the heading.
    """
    return list(stream_table(table, columns))


def stream_table(table: Any, columns: Columns, *, rows: int = ROWS) -> Iterator[Episode]:
    """Read a table of steps that may be larger than memory, with the checks of `read_table`.

    Args:
      table: as for `read_table`.
      columns: which column holds what.
      rows: number of rows to read at a time; memory holds these and those of one episode.
    """
    return (read.episode for read in stream_labelled(table, columns, rows=rows))


def stream_labelled(
    table: Any,
    columns: Columns,
    *,
    rows: int = ROWS,
    account: Account | None = None,
    drop_bad: bool = False,
) -> Iterator[Labelled]:
    """Like `stream_table`, with controllers and groups, and an account of what became of the rows.

    Args:
      table: as for `read_table`.
      columns: which column holds what.
      rows: number of rows to read at a time.
      account: filled in while reading.
      drop_bad: leave out episodes that cannot be used, instead of raising an error.
    """
    account = Account() if account is None else account
    names = names_of(columns)
    unfinished: Table = {name: [] for name in names}  # rows of the episode that is not over yet
    first, earlier = 0, set[Any]()

    def episodes(part: Table, start: int) -> Iterator[Labelled]:
        count = len(part[columns.reward])
        account.rows += count
        try:
            yield _labelled(part, start, columns, account)
        except DatasetError as error:
            if not drop_bad:
                raise
            name = part[columns.episode][0] if columns.episode else f"from row {start + 1}"
            account.dropped.append(Dropped(f"{name}", count, f"{error}"))

    texts = (columns.episode, columns.controller, columns.group, columns.time)
    for block in blocks_of(table, names, rows, texts=texts):
        old = len(unfinished[names[0]])
        whole = {name: joined(unfinished[name], block[name]) for name in names}
        if columns.episode:
            starts = _starts(columns.episode, whole[columns.episode], old, first, earlier)
        else:
            starts = _starts_by_flags(whole, columns, first)
        for start, stop in itertools.pairwise(starts):
            part = {name: values[start:stop] for name, values in whole.items()}
            yield from episodes(part, first + start)
        unfinished = {name: values[starts[-1] :] for name, values in whole.items()}
        first += starts[-1]
    if len(unfinished[names[0]]):
        yield from episodes(unfinished, first)
    if not account.rows:
        raise DatasetError(columns.episode or columns.reward, "no rows", "Log a step", index=1)


def _starts_by_flags(table: Table, columns: Columns, first: int) -> list[int]:
    """Starts of episodes: the first row, and each row after one where a flag is set."""
    set_ = np.zeros(len(table[columns.reward]), bool)
    for name in (columns.terminated, columns.timeout):
        if name is not None:
            set_ |= flags_of(table, name, first)
    after = [int(i) + 1 for i in np.flatnonzero(set_)]
    return [0, *after]


def _labelled(table: Table, first: int, columns: Columns, account: Account) -> Labelled:
    labels = []
    for name in (columns.controller, columns.group):
        values = [] if name is None else [v for v in table[name] if not is_empty(v)]
        if name is not None and not values:
            raise DatasetError(name, "empty", "Name it in a row of the episode", index=first + 1)
        if len(set(values)) > 1:
            problem = f"both {values[0]} and {next(v for v in values if v != values[0])}"
            fix = "An episode can have only one: put the rest into another episode"
            raise DatasetError(name or "", problem, fix, index=first + 1)
        labels.append(f"{values[0]}" if values else "")
    times = _times(table, first, columns)
    episode = _episode(table, first, columns)
    count, steps = len(table[columns.reward]), len(episode.rewards)
    account.steps += steps
    account.closing += count - steps
    last, before = episode.observations[-1], episode.observations[-2]
    account.unknown_ends += count == steps and bool(np.all(last == before))
    return Labelled(episode, labels[0], labels[1], times)


def _starts(field: str, episodes: Any, old: int, first: int, earlier: set[Any]) -> list[int]:
    """Starts of episodes, whose rows must be adjacent; the first `old` rows were checked before."""
    starts = [i for i in range(old, len(episodes)) if i == 0 or episodes[i] != episodes[i - 1]]
    for start in starts:
        name, place = episodes[start], first + start + 1
        if isinstance(name, (list, dict)):
            problem = f"a {type(name).__name__}"
            raise DatasetError(field, problem, "Use a number or a text as its name", index=place)
        if is_empty(name):
            raise DatasetError(field, "empty", "Say which episode the row is in", index=place)
        if name in earlier:
            problem = f"episode {name} continues after another episode"
            raise DatasetError(field, problem, "Sort the table by episode", index=place)
        earlier.add(name)
    return [0, *starts] if old else starts


def _episode(table: Table, first: int, columns: Columns) -> Episode:
    """Build an episode from its rows; `first` rows of the table come before them."""
    rows = range(len(table[columns.reward]))
    acted = [*columns.actions, columns.reward]
    last_only_seen = all(is_empty(table[name][rows[-1]]) for name in acted)
    steps = rows[:-1] if last_only_seen else rows
    if not len(steps):
        raise DatasetError(columns.reward, "an episode without steps", "Drop it", index=first + 1)

    def numbers(name: str, count: int | None = None) -> np.ndarray:
        return column_of(table[name][:count], name, first)

    observations = np.stack([numbers(name) for name in columns.observations], axis=1)
    if columns.numbered:
        observations = choices_of(columns.observations[0], observations[:, 0], first)
    actions = np.stack([numbers(name, len(steps)) for name in columns.actions], axis=1)
    if columns.discrete:
        actions = choices_of(columns.actions[0], actions[:, 0], first)
    rewards = numbers(columns.reward, len(steps))
    log_prob = None if columns.log_prob is None else numbers(columns.log_prob, len(steps))
    if columns.propensity is not None:
        log_prob = logarithms_of(columns.propensity, numbers(columns.propensity, len(steps)), first)
    ended, cut = (
        _ended(table, name, first, last_only_seen) for name in (columns.terminated, columns.timeout)
    )
    ended = ended and not cut
    if last_only_seen:
        return Episode(observations, actions, rewards, log_prob, ended)
    following = None
    if columns.next_observations:
        following = np.stack([numbers(name) for name in columns.next_observations], axis=1)
        if columns.numbered:
            following = choices_of(columns.next_observations[0], following[:, 0], first)
    else:
        observations = np.concatenate([observations, observations[-1:]])
        return Episode(observations, actions, rewards, log_prob, ended)
    last = np.arange(len(rows)) == len(rows) - 1
    try:
        (episode,) = from_flat(
            observations, actions, rewards, last & ended, last & (not ended),
            next_observations=following, behaviour_log_prob=log_prob,
        )  # fmt: skip
    except DatasetError as error:
        place = first + 1 + (0 if error.index is None else error.index[0])
        raise DatasetError(error.field, error.problem, error.fix, index=place) from error
    return episode


def _times(table: Table, first: int, columns: Columns) -> tuple[float, ...]:
    """Times of the first and the last row; refuses times that do not increase."""
    if columns.time is None:
        return ()
    times = times_of(table[columns.time], columns.time, first)
    back = np.flatnonzero(np.diff(times) <= 0)
    if back.size:
        place = first + int(back[0]) + 2
        raise DatasetError(columns.time, "does not increase", "Sort by time", index=place)
    return float(times[0]), float(times[-1])


def _ended(table: Table, name: str | None, first: int, last_only_seen: bool) -> bool:
    """Whether a flag is set in the last row; refuses one that is set earlier."""
    if name is None:
        return False
    flags = flags_of(table, name, first)
    if last_only_seen:  # the row that only says where the episode ended may have the flag too
        flags = np.append(flags[:-2], flags[-2:].any())
    if flags[:-1].any():
        place = first + int(np.flatnonzero(flags[:-1])[0]) + 1
        fix = "Put the steps after it into another episode"
        raise DatasetError(name, "set before the last step", fix, index=place)
    return bool(flags[-1])
