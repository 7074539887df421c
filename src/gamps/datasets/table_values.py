"""Convert columns of a table to numbers; errors name the column and the row."""

import contextlib
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np

from gamps.datasets.table_blocks import Table
from gamps.errors import DatasetError
from gamps.trajectories import Episode

FLOATS = (float, np.floating)
LONG, SMOOTH, SHUFFLED = 20, 0.2, 0.5  # steps of an episode; two von Neumann ratios


def is_empty(value: Any) -> bool:
    """Whether a cell of the table is empty."""
    return value in (None, "") or (isinstance(value, FLOATS) and bool(np.isnan(value)))


def flags_of(table: Table, name: str | None, first: int) -> np.ndarray:
    """Where a flag is set; an empty cell means it is not."""
    if name is None:
        raise DatasetError("flags", "no column", "Name one")
    values = table[name]
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return np.nan_to_num(values, nan=0.0) != 0
    return column_of([_flag(value) for value in values], name, first) != 0


def _flag(value: Any) -> Any:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return 0
    if isinstance(value, str):
        words = {"": 0, "true": 1, "false": 0, "yes": 1, "no": 0}
        return words.get(value.strip().lower(), value)
    return value


def times_of(values: Any, name: str, first: int) -> np.ndarray:
    """Times as numbers: dates and times become seconds, also when written as text.

    A time without a zone is taken as UTC: nothing may depend on where the table is read.
    """

    def seconds(value: Any) -> Any:
        if isinstance(value, str):
            value = _time(value.strip())
        if isinstance(value, time):
            value = datetime.combine(date(1970, 1, 1), value)
        if isinstance(value, np.datetime64):
            return (value - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        return value.toordinal() * 86_400.0 if isinstance(value, date) else value

    return column_of([seconds(value) for value in values], name, first)


def _time(text: str) -> Any:
    """A number, a date with or without a time, or a time; other text unchanged."""
    for read in (float, datetime.fromisoformat, time.fromisoformat):
        with contextlib.suppress(ValueError):
            return read(text)
    return text  # `column_of` refuses it


def logarithms_of(name: str, values: np.ndarray, first: int) -> np.ndarray:
    """Logarithms of probabilities; refuses values that are not in (0, 1]."""
    wrong = np.flatnonzero((values <= 0) | (values > 1))
    if wrong.size:
        place = first + int(wrong[0]) + 1
        problem = f"{values[wrong[0]]:g} cannot be the probability of the choice taken"
        raise DatasetError(name, problem, "It must be above 0 and at most 1", index=place)
    return np.log(values)


def check_precision(names: tuple[str, ...], episodes: list[Episode]) -> None:
    """Refuse columns whose values single precision cannot tell apart, such as seconds since 1970.

    Raises:
      DatasetError: names the column.
    """
    values = np.concatenate([np.asarray(e.observations, np.float64) for e in episodes])
    for name, column in zip(names, values.T, strict=True):
        spread = float(column.std())
        if spread > 0 and np.abs(column).max() * 2.0**-24 > 1e-3 * spread:
            problem = f"values around {column.mean():.6g} that differ by {spread:.3g}: too close "
            fix = f"Subtract {column.mean():.6g} from the column first, or leave it out"
            raise DatasetError(name, problem + "together for single precision", fix)


def out_of_order(episodes: list[Episode]) -> list[int]:
    """Numbers of episodes whose rows look shuffled, in a log that otherwise changes smoothly.

    The von Neumann ratio is near one if neighbouring rows differ as much as any two rows.
    """

    def ratio(episode: Episode) -> float:
        x = np.asarray(episode.observations, np.float64)[:-1]
        spread = x.var(axis=0)
        steps = (np.diff(x, axis=0) ** 2).mean(axis=0)
        return float((steps[spread > 0] / (2 * spread[spread > 0])).min(initial=np.inf))

    long = [i for i, e in enumerate(episodes) if len(e.rewards) >= LONG]
    ratios = np.array([ratio(episodes[i]) for i in long])
    if not len(ratios) or np.median(ratios) > SMOOTH:
        return []
    return [long[i] for i in np.flatnonzero((ratios > SHUFFLED) & np.isfinite(ratios))]


def column_of(values: Any, name: str, first: int) -> np.ndarray:
    """Convert values to finite numbers; `first` rows of the table come before them."""
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        numbers = np.asarray([_number(name, v, first + i) for i, v in enumerate(values, 1)], float)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        place, value = first + int(bad[0]) + 1, values[int(bad[0])]
        value = value.item() if isinstance(value, np.generic) else value
        problem = "empty" if value is None else f"{value!r} is not a finite number"
        raise DatasetError(name, problem, "Fix it or drop the episode", index=place)
    return numbers


def _number(name: str, value: Any, row: int) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        problem = "empty" if value in (None, "") else f"{str(value)[:40]!r} is not a number"
        fix = "Fix it or drop the episode"
        raise DatasetError(name, problem, fix, index=row) from error


def choices_of(name: str, values: np.ndarray, first: int) -> np.ndarray:
    """Convert to whole numbers from zero; refuses anything else."""
    wrong = np.flatnonzero((values != np.round(values)) | (values < 0))
    if wrong.size:
        place = first + int(wrong[0]) + 1
        problem = f"{values[wrong[0]]:g} is not a choice"
        raise DatasetError(name, problem, "Number choices from 0", index=place)
    return values.astype(int)
