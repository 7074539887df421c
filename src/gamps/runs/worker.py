"""One process of several that train together."""

from __future__ import annotations

from pathlib import Path

from gamps.cluster import joining
from gamps.runs import loop
from gamps.runs.loop import Callback, silent
from gamps.runs.prepared import prepared
from gamps.runs.spec import words_in


def work(
    run: Path,
    *,
    coordinator: str,
    processes: int,
    process: int,
    callback: Callback = silent,
) -> None:
    """Join the others, and go on with a run from its last checkpoint to its end.

    Args:
      run: the run folder, the same for all; process 0 writes to it.
      coordinator: host:port of process 0.
      processes: how many there are; a single one joins nobody.
      process: the number of this one, from 0.
      callback: called after every iteration with its number, metrics and progress.
    """
    over = joining.chosen("1", coordinator if processes > 1 else "", processes, process)
    _, training = prepared(words_in(run), over)
    loop.resume(training(), run, callback=callback)
