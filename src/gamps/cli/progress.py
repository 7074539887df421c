"""How a training goes on, shown while it does: a live table or lines, and a picture at the end."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gamps._utils import console, figures
from gamps._utils.atomic_io import replace_file
from gamps.runs import folder

SHOWN = ("gradient_norm", "model_loss", "ess", "pareto_k", "estimate", "promise")


@contextmanager
def shown(total: int) -> Iterator[Callable[[int, dict[str, Any]], None]]:
    """The metrics of each iteration, and the time that is left."""
    console.say("compiling …")
    began, before = time.perf_counter(), -1
    with console.live() as display:

        def show(iteration: int, metrics: dict[str, Any]) -> None:
            nonlocal before
            before = iteration - 1 if before < 0 else before
            each = (time.perf_counter() - began) / max(iteration - before, 1)
            left = f"{each * (total - iteration):.0f}"
            known = {name: metrics[name] for name in SHOWN if name in metrics}
            table = console.rich_table(f"iteration {iteration} of {total}", ["", "now"])
            for name, value in known.items():
                text = f"{value:.4g}" if np.isfinite(value) else "too thin"
                table.add_row(name.replace("_", " "), text)
            table.add_row("time left", f"{left} s")
            numbers = " ".join(f"{name} {value:.4g}" for name, value in known.items())
            display(f"{iteration}/{total} {numbers} left {left}s", table)

        yield show


def figure(out: Path) -> None:
    """How it went, iteration by iteration."""
    lines = folder.metrics(out)
    if not lines:
        return
    names = [n for n in ("estimate", "ess", "gradient_norm", "model_loss") if n in lines[-1]]
    figure, axes = figures.panels(1, len(names))
    for axis, name in zip(axes[0], names, strict=True):
        values = [np.nan if line.get(name) is None else line[name] for line in lines]
        axis.plot(np.arange(1, len(values) + 1), values, color="#c1121f")
        if name == "estimate":
            promise = [np.nan if line.get("promise") is None else line["promise"] for line in lines]
            axis.fill_between(np.arange(1, len(values) + 1), promise, values, alpha=0.2,
                              color="#c1121f")  # fmt: skip
        axis.set_title(name.replace("_", " "), fontsize=9)
        axis.set_xlabel("iteration")
    with replace_file(out / "training.png") as path:
        figure.savefig(path, dpi=150, bbox_inches="tight")
