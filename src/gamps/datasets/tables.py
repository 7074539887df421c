"""Logs as tables: CSV, and Parquet through pyarrow; one row a step, columns by name.

An episode's last row may hold observations only, its action and reward left empty: where the
episode ended. Otherwise columns of next observations say it, or the last row is used up for it.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gamps.datasets.from_flat import from_flat
from gamps.datasets.table_blocks import Table, joined, read_csv, read_parquet
from gamps.errors import DatasetError
from gamps.trajectories import Episode

ROWS = 65_536  # read at a time


class Columns(NamedTuple):
    """Which column holds what.

    Attributes:
      episode: a number or a name, the same in all rows of an episode, which stand together.
      observations: one column a dimension.
      actions: one column a dimension, as drawn, before any clipping.
      reward: of the step.
      log_prob: log-density of the action under the logging policy; None if it was not logged.
      next_observations: one column a dimension; none if the following row says it.
      terminated: not zero in the last row of an episode that the environment ended.
      time: if given, it must grow within an episode.
      discrete: whether actions are choices, numbered from zero, in one column.
    """

    episode: str
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str
    log_prob: str | None = None
    next_observations: tuple[str, ...] = ()
    terminated: str | None = None
    time: str | None = None
    discrete: bool = False


def read_table(path: Path, columns: Columns) -> list[Episode]:
    """Read a table of steps, .csv or .parquet, into episodes in the order of the table.

    Raises:
      DatasetError: naming the column and the row, counted from one without the heading.
    """
    return list(stream_table(path, columns))


def stream_table(path: Path, columns: Columns, *, rows: int = ROWS) -> Iterator[Episode]:
    """Read a table of steps that may be larger than memory, with the checks of `read_table`.

    Args:
      path: ends in .csv or .parquet.
      columns: which hold what.
      rows: to read at a time; so many are held, and those of one episode.
    """
    chosen = (
        columns.episode, *columns.observations, *columns.actions, columns.reward, columns.log_prob,
        *columns.next_observations, columns.terminated, columns.time,
    )  # fmt: skip
    names = list(dict.fromkeys(name for name in chosen if name is not None))
    for name in ("observations", "actions"):
        if not getattr(columns, name):
            raise DatasetError(name, "no column", "Name at least one")
    if columns.next_observations and len(columns.next_observations) != len(columns.observations):
        problem = f"{len(columns.next_observations)} for {len(columns.observations)} observations"
        raise DatasetError("next_observations", problem, "Name one for each, in the same order")
    if columns.discrete and len(columns.actions) != 1:
        raise DatasetError("actions", f"{len(columns.actions)} columns", "A choice has one column")
    read = read_parquet if path.suffix == ".parquet" else read_csv
    unfinished: Table = {name: [] for name in names}  # of the episode that is not over yet
    first, earlier = 0, set[Any]()
    for block in read(path, names, rows):
        old = len(unfinished[columns.episode])
        table = {name: joined(unfinished[name], block[name]) for name in names}
        starts = _starts(columns.episode, table[columns.episode], old, first, earlier)
        for start, stop in itertools.pairwise(starts):
            part = {name: values[start:stop] for name, values in table.items()}
            yield _episode(part, first + start, columns)
        unfinished = {name: values[starts[-1] :] for name, values in table.items()}
        first += starts[-1]
    if not len(unfinished[columns.episode]):
        raise DatasetError(columns.episode, "no row", "Log at least one step", index=1)
    yield _episode(unfinished, first, columns)


def _starts(field: str, episodes: Any, old: int, first: int, earlier: set[Any]) -> list[int]:
    """Where episodes start, whose rows have to stand together; the first `old` rows are known."""
    starts = [i for i in range(old, len(episodes)) if i == 0 or episodes[i] != episodes[i - 1]]
    for start in starts:
        name, place = episodes[start], first + start + 1
        if isinstance(name, (list, dict)):
            problem = f"a {type(name).__name__}"
            raise DatasetError(field, problem, "Name it by a number or a text", index=place)
        if name in (None, ""):
            raise DatasetError(field, "empty", "Say which episode it is of", index=place)
        if name in earlier:
            problem = f"episode {name} goes on after another"
            raise DatasetError(field, problem, "Sort the table by episode", index=place)
        earlier.add(name)
    return [0, *starts] if old else starts


def _episode(table: Table, first: int, columns: Columns) -> Episode:
    """The episode of a table of its own, whose rows start after `first` others."""
    rows = range(len(table[columns.reward]))
    acted = [*columns.actions, columns.reward]
    last_only_seen = all(table[name][rows[-1]] in (None, "") for name in acted)
    steps = rows[:-1] if last_only_seen else rows
    if not len(steps):
        raise DatasetError(columns.reward, "an episode without a step", "Drop it", index=first + 1)

    def numbers(name: str, count: int | None = None) -> np.ndarray:
        return _column(table[name][:count], name, first)

    observations = np.stack([numbers(name) for name in columns.observations], axis=1)
    actions = np.stack([numbers(name, len(steps)) for name in columns.actions], axis=1)
    if columns.discrete:
        actions = _choices(columns.actions[0], actions[:, 0], first)
    rewards = numbers(columns.reward, len(steps))
    log_prob = None if columns.log_prob is None else numbers(columns.log_prob, len(steps))
    if columns.time is not None:
        back = np.flatnonzero(np.diff(numbers(columns.time)) <= 0)
        if back.size:
            place = first + int(back[0]) + 2
            raise DatasetError(columns.time, "does not grow", "Sort by time", index=place)
    ended = False
    if columns.terminated is not None:
        # The row that only says where the episode ended may say so here, or be left empty.
        filled = [0 if flag in (None, "") else flag for flag in table[columns.terminated]]
        flags = _column(filled, columns.terminated, first) != 0
        if last_only_seen:
            flags = np.append(flags[:-2], flags[-2:].any())
        if flags[:-1].any():
            place = first + int(np.flatnonzero(flags[:-1])[0]) + 1
            fix = "Give the steps after it another episode"
            raise DatasetError(columns.terminated, "set before the last step", fix, index=place)
        ended = bool(flags[-1])
    if last_only_seen:
        return Episode(observations, actions, rewards, log_prob, ended)
    following = None
    if columns.next_observations:
        following = np.stack([numbers(name) for name in columns.next_observations], axis=1)
    elif len(rows) == 1:
        fix = "Add a row with the last observation, or name the columns of next observations"
        raise DatasetError(columns.reward, "a single row", fix, index=first + 1)
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


def _column(values: Any, name: str, first: int) -> np.ndarray:
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        numbers = np.asarray([_number(name, v, first + i) for i, v in enumerate(values, 1)])
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        place, value = first + int(bad[0]) + 1, values[int(bad[0])]
        value = value.item() if isinstance(value, np.generic) else value
        fix = "Fix it or drop the episode"
        raise DatasetError(name, f"{value!r} is no finite number", fix, index=place)
    return numbers


def _number(name: str, value: Any, row: int) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        problem = "empty" if value in (None, "") else f"{str(value)[:40]!r} is no number"
        fix = "Fix it or drop the episode"
        raise DatasetError(name, problem, fix, index=row) from error


def _choices(name: str, values: np.ndarray, first: int) -> np.ndarray:
    wrong = np.flatnonzero((values != np.round(values)) | (values < 0))
    if wrong.size:
        place = first + int(wrong[0]) + 1
        problem = f"{values[wrong[0]]:g} is no choice"
        raise DatasetError(name, problem, "Number choices from 0", index=place)
    return values.astype(int)
