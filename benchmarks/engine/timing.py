"""Times that mean something on a shared machine: the best of several, taken in turns."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from gamps.errors import SettingError

AsJson = Annotated[bool, tyro.conf.arg(name="json")]


def _silent(name: str) -> None:
    del name


def best_times(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int,
    advance: Callable[[str], None] = _silent,
) -> dict[str, float]:
    """The shortest of `repeats` runs of each function, in seconds; compilation left out.

    Args:
      functions: what to time, by name.
      repeats: rounds; in each, all functions run once, so that a slow spell hits them alike.
      advance: told the name after each run, for a progress bar.

    Returns:
      Seconds by name.
    """
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        jax.block_until_ready(function())
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function())
            best[name] = min(best[name], time.perf_counter() - start)
            advance(name)
    return best


def by_torch(script: str, python: Path, arrays: Mapping[str, Any], *numbers: int) -> Any:
    """What a script beside this file prints as JSON, run by an interpreter that has PyTorch.

    Args:
      script: its name; it is given a file of arrays and the numbers.
      python: the interpreter.
      arrays: by name.
      numbers: sizes and repeats.

    Raises:
      SettingError: if it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, allow_pickle=False, **jax.tree.map(np.asarray, dict(arrays)))
        done = subprocess.run(  # noqa: S603 (the user's own interpreter)
            [str(python), str(Path(__file__).with_name(script)), str(path), *map(str, numbers)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SettingError("torch-python", f"{python} failed: {last}", "Install torch there")
    return json.loads(done.stdout)
