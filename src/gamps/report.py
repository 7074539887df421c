"""What a user looks at: summaries, tables, figures, and the folder they are written to."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.special import stdtrit

from gamps.errors import OutputError

console = Console()
if not console.is_terminal:
    console = Console(width=120)  # a table in a file or a pipe need not fold at 80

COLOURS = {"gamps": "#c1121f", "ml": "#1d6fa5", "pgt": "#2a9d5c", "reinforce": "#8a6d3b"}
LABELS = {"gamps": "GAMPS", "ml": "ML", "pgt": "PGT", "reinforce": "REINFORCE"}


def summary(values: Any) -> dict[str, float | int]:
    """Mean, standard deviation over runs, and the 95 % Student interval of the mean.

    Example:
      >>> {k: round(v, 2) for k, v in summary([1.0, 2.0, 3.0]).items()}
      {'mean': 2.0, 'std': 1.0, 'low': -0.48, 'high': 4.48, 'n': 3}
    """
    array = np.asarray(values, dtype=float).ravel()
    n, mean = len(array), float(array.mean())
    if not math.isfinite(mean):
        return {"mean": mean, "std": math.nan, "low": mean, "high": mean, "n": n}
    std = float(array.std(ddof=1)) if n > 1 else 0.0
    # A percentile of Student's t; the whole of scipy.stats would cost every command a second.
    half = float(stdtrit(n - 1, 0.975)) * std / math.sqrt(n) if n > 1 else 0.0
    return {"mean": mean, "std": std, "low": mean - half, "high": mean + half, "n": n}


def standard_error(number: Mapping[str, float]) -> float:
    """Standard error of the mean of a `summary`."""
    return number["std"] / math.sqrt(number["n"])


def folder(out: Path, name: str, *, overwrite: bool) -> Path:
    """Make the run folder, refusing to replace an earlier result unasked.

    Raises:
      OutputError: if `out` already holds a result of that name.
    """
    if (out / f"{name}.json").exists() and not overwrite:
        raise OutputError(
            f"{out / name}.json: exists already. Choose another --out, or add --overwrite"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: {error.strerror}. Choose another --out") from error
    return out


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, flushed to disk and renamed over it on success."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _finite(content: Any) -> Any:
    """JSON knows no infinity: null stands for what is not finite."""
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def save(
    out: Path,
    name: str,
    *,
    settings: Mapping[str, Any],
    results: Mapping[str, Any],
    paper: Mapping[str, Any],
    figure: Any,
    table: Table,
) -> None:
    """Write `name.json` and `name.png` into the run folder and print the table."""
    with atomic(out / f"{name}.json") as path:
        content = {"settings": settings, "results": results, "paper": paper}
        text = json.dumps(_finite(content), indent=1, default=str, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
    with atomic(out / f"{name}.png") as path:
        figure.savefig(path, dpi=150, bbox_inches="tight")
    console.print(table)
    console.print(f"written: {out / name}.json and {out / name}.png", soft_wrap=True)


def bar(description: str, total: int) -> contextlib.AbstractContextManager[Callable[[str], None]]:
    """A progress bar as a context; calling what it yields advances it by one."""

    @contextlib.contextmanager
    def context() -> Iterator[Callable[[str], None]]:
        # In a pipe or a file a bar would only leave blank lines.
        hidden = not console.is_terminal
        with Progress(console=console, transient=True, disable=hidden) as progress:
            task = progress.add_task(description, total=total)

            def advance(doing: str) -> None:
                progress.update(task, advance=1, description=f"{description}: {doing}")

            yield advance

    return context()


def ticking(advance: Callable[[str], None], doing: str) -> Callable[[Iterable[int]], Iterator[int]]:
    """Wrap a range so that each element advances a `bar`."""

    def wrap(iterations: Iterable[int]) -> Iterator[int]:
        for iteration in iterations:
            yield iteration
            advance(doing)

    return wrap


def say_estimated(densities: str) -> None:
    """Everything that rests on estimated densities says so."""
    if densities == "estimated":
        console.print("[yellow]densities of the log are estimated: ratios are as good as that fit")


def cell(number: Mapping[str, float], digits: int = 3) -> str:
    """Mean and half-width of the interval, for a table."""
    return f"{number['mean']:.{digits}f} ± {(number['high'] - number['low']) / 2:.{digits}f}"


def spread(number: Mapping[str, float], digits: int = 2) -> str:
    """Mean and standard deviation over runs, for a table."""
    return f"{number['mean']:.{digits}f} ± {number['std']:.{digits}f}"


def rich_table(title: str, columns: Sequence[str], caption: str = "") -> Table:
    """An empty table, numbers to the right."""
    table = Table(title=title, caption=caption or None, caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    return table


def panels(rows: int, columns: int, *, width: float = 3.4, height: float = 2.7) -> tuple[Any, Any]:
    """A figure of `rows` × `columns` axes, always as a 2-D array."""
    from matplotlib.figure import Figure  # a second that commands without a picture do not need

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def curve(axis: Any, values: np.ndarray, *, label: str, colour: str) -> None:
    """Mean ± standard deviation over seeds of `[iterations, seeds]`."""
    mean, std = values.mean(axis=1), values.std(axis=1)
    steps = np.arange(len(mean))
    axis.plot(steps, mean, label=label, color=colour, linewidth=1.6)
    axis.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)


def on_grid(axis: Any, values: np.ndarray, *, title: str, lower: np.ndarray) -> Any:
    """One number a cell, drawn on the square grid, with the border between the areas."""
    size = math.isqrt(len(values))
    grid = values.reshape(size, size)
    image = axis.imshow(grid, cmap="magma_r", vmin=0)
    for (row, column), value in np.ndenumerate(grid):
        shade = "white" if value > 0.6 * max(grid.max(), 1e-12) else "black"
        axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade, fontsize=7)
    inside = lower.reshape(size, size)
    for row, column in np.argwhere(inside[:-1] != inside[1:]):
        axis.plot([column - 0.5, column + 0.5], [row + 0.5] * 2, color="#1d6fa5", linewidth=3)
    for row, column in np.argwhere(inside[:, :-1] != inside[:, 1:]):
        axis.plot([column + 0.5] * 2, [row - 0.5, row + 0.5], color="#1d6fa5", linewidth=3)
    axis.set_title(title, fontsize=9)
    axis.set_xticks([])
    axis.set_yticks([])
    return image
