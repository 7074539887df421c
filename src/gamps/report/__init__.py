"""What a user looks at: numbers and tables, figures, and the page of a run.

`output` writes to the console and to one folder, `numbers` and `figures` are shared by every
command; `page` is the HTML of `gamps report`, `sections` what it says, `pictures` what it shows.
"""

from gamps.report.figures import COLOURS, LABELS, curve, on_grid, panels
from gamps.report.numbers import cell, spread, standard_error, summary
from gamps.report.output import (
    atomic,
    bar,
    console,
    folder,
    plain_console,
    rich_table,
    save,
    say,
    say_estimated,
    ticking,
)

__all__ = [
    "COLOURS",
    "LABELS",
    "atomic",
    "bar",
    "cell",
    "console",
    "curve",
    "folder",
    "on_grid",
    "panels",
    "plain_console",
    "rich_table",
    "save",
    "say",
    "say_estimated",
    "spread",
    "standard_error",
    "summary",
    "ticking",
]
