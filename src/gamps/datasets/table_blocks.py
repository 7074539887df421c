"""Read tables on disk one block of rows at a time."""

import contextlib
import csv
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gamps.errors import DatasetError, MissingExtraError

Table = dict[str, Any]  # by column: a list, or an array if all values are numbers


def blocks_of(
    table: Any, names: Sequence[str], rows: int, *, texts: Container[str | None] = ()
) -> Iterator[Table]:
    """Yield blocks of rows from a file, or from a data frame of pandas or polars.

    Args:
      table: the file or the frame.
      names: names of the columns to read.
      rows: number of rows in a block.
      texts: columns of a CSV file that stay text even if they look like numbers.
    """
    if not isinstance(table, (str, Path)):
        _check_heading(list(table.columns), names)
        columns = {name: table[name].to_numpy() for name in names}
        for start in range(0, len(table), rows):
            yield {name: column[start : start + rows] for name, column in columns.items()}
        return
    path = Path(table)
    if path.suffix == ".parquet":
        yield from read_parquet(path, names, rows)
    else:
        yield from read_csv(path, names, rows, texts)


def read_csv(
    path: Path, names: Sequence[str], rows: int, texts: Container[str | None] = ()
) -> Iterator[Table]:
    """Yield blocks of a CSV file: with pyarrow if installed, until it meets a value it refuses."""
    _check_first_row(path, names)
    done = 0
    with contextlib.suppress(ImportError):
        from pyarrow import ArrowException

        with contextlib.suppress(OSError, ArrowException):
            for block in _arrow_csv(path, names, rows, texts):
                yield block
                done += len(block[names[0]])
            return
    yield from _python_csv(path, names, rows, done)


def _check_first_row(path: Path, names: Sequence[str]) -> None:
    with contextlib.suppress(OSError, UnicodeDecodeError, csv.Error):  # reading says what is wrong
        with path.open(newline="", encoding="utf-8-sig") as file:
            heading = next(csv.reader(file, strict=True), [])
        _check_heading(heading, names)


def _arrow_csv(
    path: Path, names: Sequence[str], rows: int, texts: Container[str | None]
) -> Iterator[Table]:
    """Read with pyarrow, which raises an error where a value is not a finite number."""
    import pyarrow
    from pyarrow import csv as arrow

    kinds = {n: pyarrow.string() if n in texts else pyarrow.float64() for n in names}
    reader = arrow.open_csv(
        path,
        parse_options=arrow.ParseOptions(newlines_in_values=True),
        convert_options=arrow.ConvertOptions(
            include_columns=list(names), column_types=kinds, null_values=[""]
        ),
    )
    for batch in reader:
        for start in range(0, batch.num_rows, rows):
            block = {name: _plain(batch.column(name)[start : start + rows]) for name in names}
            for column in block.values():
                if isinstance(column, np.ndarray) and not np.isfinite(column).all():
                    raise pyarrow.ArrowInvalid("not finite")
            yield block


def _python_csv(path: Path, names: Sequence[str], rows: int, after: int) -> Iterator[Table]:
    """Yield blocks of text of any content, after skipping `after` rows; errors name the row."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            heading = next(reader, [])
            _check_heading(heading, names)
            places = {name: heading.index(name) for name in names}
            table: Table = {name: [] for name in names}
            for number, row in enumerate(reader, start=1):
                if not row:
                    continue  # an empty line
                if len(row) != len(heading):
                    problem = f"{len(row)} entries, but the heading has {len(heading)}"
                    raise DatasetError("row", problem, "Fix the row", index=number)
                if after:
                    after -= 1
                    continue
                for name, place in places.items():
                    table[name].append(row[place])
                if len(table[names[0]]) == rows:
                    yield table
                    table = {name: [] for name in names}
            if table[names[0]]:
                yield table
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(str(path), f"cannot be read: {error}", "Give a CSV file") from error


def read_parquet(path: Path, names: Sequence[str], rows: int) -> Iterator[Table]:
    """Yield blocks of `rows` rows of a Parquet file, across its row groups."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError(
            f'{error.name} is not installed. Do pip install "gamps[tables]"'
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            _check_heading(file.schema_arrow.names, names)
            for block in file.iter_batches(batch_size=rows, columns=list(names)):
                if block.num_rows:
                    yield {name: _plain(block.column(name)) for name in names}
    except (OSError, ValueError, ArrowException) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(str(path), f"cannot be read: {error}", "Give a Parquet file") from error


def _plain(column: Any) -> Any:
    """A column as an array if all values are numbers, which is fast; otherwise as a list."""
    from pyarrow import timestamp, types

    kind = column.type
    if column.null_count == 0 and (types.is_integer(kind) or types.is_floating(kind)):
        return column.to_numpy(zero_copy_only=False)
    if types.is_timestamp(kind):  # Python's times end at microseconds
        column = column.cast(timestamp("us", kind.tz), safe=False)
    return column.to_pylist()


def joined(one: Any, other: Any) -> Any:
    """Concatenate two blocks of one column."""
    if not len(one):
        return other
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.concatenate([one, other])
    return [*one, *other]


def _check_heading(heading: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        if heading.count(name) != 1:
            problem = "no such column" if name not in heading else "appears more than once"
            raise DatasetError(name, problem, f"The table has {', '.join(heading) or 'nothing'}")
