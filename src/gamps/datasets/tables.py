"""Logs as tables: CSV, and Parquet through pyarrow; one row a step, columns by name.

An episode's last row may hold observations only, its action and reward left empty: where the
episode ended. Otherwise columns of next observations say it, or the last row is used up for it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gamps.datasets.flat import from_flat
from gamps.errors import DatasetError, MissingExtraError
from gamps.trajectories import Episode

Table = dict[str, list[Any]]


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
    """Read a table of steps.

    Args:
      path: ends in .csv or .parquet.
      columns: which hold what.

    Returns:
      Episodes in the order of the table.

    Raises:
      DatasetError: naming the column and the row, counted from one without the heading.
    """
    wanted = list(
        dict.fromkeys(
            name
            for name in (
                columns.episode,
                *columns.observations,
                *columns.actions,
                columns.reward,
                columns.log_prob,
                *columns.next_observations,
                columns.terminated,
                columns.time,
            )
            if name is not None
        )
    )
    for name in ("observations", "actions"):
        if not getattr(columns, name):
            raise DatasetError(name, "no column", "Name at least one")
    if columns.next_observations and len(columns.next_observations) != len(columns.observations):
        finding = f"{len(columns.next_observations)} for {len(columns.observations)} observations"
        raise DatasetError("next_observations", finding, "Name one for each, in the same order")
    if columns.discrete and len(columns.actions) != 1:
        raise DatasetError("actions", f"{len(columns.actions)} columns", "A choice has one column")
    table = _parquet(path, wanted) if path.suffix == ".parquet" else _csv(path, wanted)
    if not table[columns.episode]:
        raise DatasetError(columns.episode, "no row", "Log at least one step", index=1)
    return [
        _episode(table, rows, columns) for rows in _rows_of(columns.episode, table[columns.episode])
    ]


def _csv(path: Path, wanted: Sequence[str]) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            heading = next(reader, [])
            _check_heading(heading, wanted)
            places = {name: heading.index(name) for name in wanted}
            table: Table = {name: [] for name in wanted}
            for number, row in enumerate(reader, start=1):
                if not row:
                    continue  # an empty line
                if len(row) != len(heading):
                    finding = f"{len(row)} entries, but the heading has {len(heading)}"
                    raise DatasetError("row", finding, "Mend the row", index=number)
                for name, place in places.items():
                    table[name].append(row[place])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(str(path), f"cannot be read: {error}", "Give a CSV file") from error
    return table


def _parquet(path: Path, wanted: Sequence[str]) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError(
            f'{error.name} is not installed. Do pip install "gamps[tables]"'
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            _check_heading(file.schema_arrow.names, wanted)
            read = file.read(columns=list(wanted))
            return {name: read.column(name).to_pylist() for name in wanted}
    except (OSError, ArrowException) as error:
        raise DatasetError(str(path), f"cannot be read: {error}", "Give a Parquet file") from error


def _check_heading(heading: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if heading.count(name) != 1:
            finding = "no such column" if name not in heading else "stands there twice"
            raise DatasetError(name, finding, f"The table has {', '.join(heading) or 'nothing'}")


def _rows_of(field: str, episodes: list[Any]) -> list[range]:
    """The rows of each episode, which have to stand together."""
    starts = [i for i in range(len(episodes)) if i == 0 or episodes[i] != episodes[i - 1]]
    seen = set()
    for start in starts:
        if isinstance(episodes[start], (list, dict)):
            finding = f"a {type(episodes[start]).__name__}"
            raise DatasetError(field, finding, "Name it by a number or a text", index=start + 1)
        if episodes[start] in (None, ""):
            raise DatasetError(field, "empty", "Say which episode it is of", index=start + 1)
        if episodes[start] in seen:
            finding = f"episode {episodes[start]} goes on after another"
            raise DatasetError(field, finding, "Sort the table by episode", index=start + 1)
        seen.add(episodes[start])
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(episodes)], strict=True)]


def _episode(table: Table, rows: range, columns: Columns) -> Episode:
    first = rows.start
    acted = [*columns.actions, columns.reward]
    last_only_seen = all(table[name][rows[-1]] in (None, "") for name in acted)
    steps = rows[:-1] if last_only_seen else rows
    if not len(steps):
        raise DatasetError(columns.reward, "an episode without a step", "Drop it", index=first + 1)
    seen = np.stack([_column(table, name, rows) for name in columns.observations], axis=1)
    actions = np.stack([_column(table, name, steps) for name in columns.actions], axis=1)
    if columns.discrete:
        actions = _choices(columns.actions[0], actions[:, 0], first)
    rewards = _column(table, columns.reward, steps)
    log_prob = None if columns.log_prob is None else _column(table, columns.log_prob, steps)
    if columns.time is not None:
        back = np.flatnonzero(np.diff(_column(table, columns.time, rows)) <= 0)
        if back.size:
            place = first + int(back[0]) + 2
            raise DatasetError(columns.time, "does not grow", "Sort by time", index=place)
    ended = False
    if columns.terminated is not None:
        # The row that only says where the episode ended may say so here, or be left empty.
        said = [0 if table[columns.terminated][i] in (None, "") else table[columns.terminated][i]
                for i in rows]  # fmt: skip
        flags = _column({columns.terminated: said}, columns.terminated, range(len(rows))) != 0
        if last_only_seen:
            flags = np.append(flags[:-2], flags[-2:].any())
        if flags[:-1].any():
            place = first + int(np.flatnonzero(flags[:-1])[0]) + 1
            mend = "Give the steps after it another episode"
            raise DatasetError(columns.terminated, "set before the last step", mend, index=place)
        ended = bool(flags[-1])
    if last_only_seen:
        return Episode(seen, actions, rewards, log_prob, ended)
    following = None
    if columns.next_observations:
        each = [_column(table, name, rows) for name in columns.next_observations]
        following = np.stack(each, axis=1)
    elif len(rows) == 1:
        mend = "Add a row with the last observation, or name the columns of next observations"
        raise DatasetError(columns.reward, "a single row", mend, index=first + 1)
    last = np.arange(len(rows)) == len(rows) - 1
    try:
        (episode,) = from_flat(
            seen, actions, rewards, last & ended, last & (not ended),
            next_observations=following, behaviour_log_prob=log_prob,
        )  # fmt: skip
    except DatasetError as error:
        place = first + 1 + (0 if error.index is None else error.index[0])
        raise DatasetError(error.field, error.finding, error.mend, index=place) from error
    return episode


def _column(table: Table, name: str, rows: range) -> np.ndarray:
    values = table[name][rows.start : rows.stop]
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        found = np.asarray([_number(name, v, rows.start + i) for i, v in enumerate(values, 1)])
    bad = np.flatnonzero(~np.isfinite(found))
    if bad.size:
        place = rows.start + int(bad[0]) + 1
        mend = "Mend it or drop the episode"
        raise DatasetError(name, f"{values[int(bad[0])]!r} is no finite number", mend, index=place)
    return found


def _number(name: str, value: Any, row: int) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        finding = "empty" if value in (None, "") else f"{str(value)[:40]!r} is no number"
        mend = "Mend it or drop the episode"
        raise DatasetError(name, finding, mend, index=row) from error


def _choices(name: str, values: np.ndarray, first: int) -> np.ndarray:
    wrong = np.flatnonzero((values != np.round(values)) | (values < 0))
    if wrong.size:
        place = first + int(wrong[0]) + 1
        finding = f"{values[wrong[0]]:g} is no choice"
        raise DatasetError(name, finding, "Number choices from 0", index=place)
    return values.astype(int)
