"""Long experiments as independent cells: each is run once and its result is kept.

A cell's result is a small JSON file in the run folder, written when the cell is finished. After any
kind of interruption, an experiment continues with the missing cells.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gamps._utils import console
from gamps._utils.atomic_io import write_file
from gamps._utils.worker_pool import share_out
from gamps.errors import OutputError


def fresh_folder(out: Path, name: str, *, overwrite: bool) -> Path:
    """Return the run folder; with `overwrite`, delete a finished result and all its cells.

    Cells without a result belong to an interrupted run, and are always kept.
    """
    finished = (out / f"{name}.json").exists()
    out = console.folder(out, name, overwrite=overwrite)
    if finished:
        (out / f"{name}.json").unlink()
        shutil.rmtree(out / "cells", ignore_errors=True)
    return out


def run_cells(
    function: Callable[[dict[str, Any]], dict[str, Any]],
    cells: Mapping[str, dict[str, Any]],
    folder: Path,
    *,
    workers: int,
    advance: Callable[[str], None],
) -> dict[str, dict[str, Any]]:
    """Return the result of every cell, from the folder or computed now.

    Args:
      function: a module-level function from a cell's arguments to its result, both JSON values.
      cells: arguments by name.
      folder: where results are kept, one file per cell.
      workers: number of processes to split the work over.
      advance: called once for each finished cell.

    Raises:
      OutputError: if the folder has a cell of that name with other arguments.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = {}
    for name, arguments in cells.items():
        result = kept(folder / f"{name}.json", arguments)
        if result is not None:
            results[name] = result
            advance(name)
    missing = [name for name in cells if name not in results]
    for i, result in share_out(function, [cells[name] for name in missing], workers=workers):
        name = missing[i]
        results[name] = result
        text = json.dumps({"arguments": cells[name], "result": result}) + "\n"
        write_file(folder / f"{name}.json", text.encode())
        advance(name)
    return {name: results[name] for name in cells}


def kept(path: Path, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The kept result of a cell with the same arguments, or None if there is none."""
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        same = content["arguments"] == json.loads(json.dumps(arguments))
        result: dict[str, Any] = content["result"]
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{path}: cannot be read ({error}). Delete it to run it again") from error
    if not same:
        raise OutputError(
            f"{path}: run with other settings. Choose another --out, or delete the folder"
        )
    return result
