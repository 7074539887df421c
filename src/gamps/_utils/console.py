"""Output of commands: lines and tables on the console, a progress bar, files in one folder."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from gamps._utils.atomic_io import replace_file
from gamps._utils.summaries import plain
from gamps.errors import OutputError


def plain_console(**settings: Any) -> Console:
    """A console that shows every text unchanged, including brackets and colons.

    Names, paths and messages come from users and files, where `[red]` does not mean a colour. To
    colour something, pass a style to `say` or use a `rich.text.Text`.
    """
    return Console(markup=False, emoji=False, **settings)


terminal = plain_console()
"""Where commands print; 120 columns wide in a file or a pipe."""
if not terminal.is_terminal:
    terminal = plain_console(width=120)  # a table in a file or a pipe need not wrap at 80


def say(content: str | Text | Table, style: str | None = None) -> None:
    """Print a table, or a line unchanged and unwrapped; a `Text` may have several styles."""
    terminal.print(
        content, style=style, markup=False, emoji=False, soft_wrap=not isinstance(content, Table)
    )


def silent(*ignored: Any) -> None:
    """Ignore the arguments: the default for every callback."""
    del ignored


def folder(out: Path, name: str, *, overwrite: bool) -> Path:
    """Make the run folder; refuses to replace an earlier result unless `overwrite` is set."""
    if (out / f"{name}.json").exists() and not overwrite:
        raise OutputError(
            f"{out / name}.json: exists already. Choose another --out, or add --overwrite"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: {error.strerror}. Choose another --out") from error
    return out


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
    with replace_file(out / f"{name}.json") as path:
        content = {"settings": settings, "results": results, "paper": paper}
        text = json.dumps(plain(content), indent=1, default=str, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
    with replace_file(out / f"{name}.png") as path:
        figure.savefig(path, dpi=150, bbox_inches="tight")
    terminal.print(table)
    say(f"written: {out / name}.json and {out / name}.png")


@contextlib.contextmanager
def bar(description: str, total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar as a context; it yields a function that advances the bar by one."""
    # In a pipe or a file a bar would only leave blank lines.
    hidden = not terminal.is_terminal
    text = TextColumn("{task.description}", style="progress.description", markup=False)
    columns = (text, *Progress.get_default_columns()[1:])
    with Progress(*columns, console=terminal, transient=True, disable=hidden) as progress:
        task = progress.add_task(description, total=total)
        yield lambda doing: progress.update(task, advance=1, description=f"{description}: {doing}")


def spinner(what: str) -> Progress:
    """A line that moves, with the seconds it has been shown."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    progress = Progress(*columns, console=terminal)
    progress.add_task(what, total=None)
    return progress


@contextlib.contextmanager
def live() -> Iterator[Callable[[str, Any], None]]:
    """Show progress: updated in place on a terminal, elsewhere one line for each change.

    Yields:
      A function that takes the line, and what a terminal shows instead.
    """
    if terminal.is_terminal:
        with Live(console=terminal, refresh_per_second=8) as display:
            yield lambda _, shown: display.update(shown)
        return
    last = ""

    def line_alone(line: str, _: Any) -> None:
        nonlocal last
        if line != last and not terminal.quiet:
            print(line, flush=True)
        last = line

    yield line_alone


def ticking(advance: Callable[[str], None], doing: str) -> Callable[[Iterable[int]], Iterator[int]]:
    """Wrap a range so that each element advances a `bar`."""

    def wrap(iterations: Iterable[int]) -> Iterator[int]:
        for iteration in iterations:
            yield iteration
            advance(doing)

    return wrap


def say_estimated(densities: str) -> None:
    """Say that densities are estimated; every result that depends on them must say so."""
    if densities == "estimated":
        say("densities of the log are estimated: ratios are only as good as that fit", "yellow")


def rich_table(title: str, columns: Sequence[str], caption: str = "") -> Table:
    """An empty table with right-aligned numbers; `say` shows its cells unchanged."""
    table = Table(title=title, caption=caption or None, caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    return table
