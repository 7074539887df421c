"""How a training goes on, shown while it does: a live table or lines, and a picture at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.live import Live

from gamps._utils import console, figures
from gamps.runs import folder

SHOWN = ("gradient_norm", "model_loss", "ess", "pareto_k", "estimate", "lower")


@contextmanager
def shown(total: int) -> Iterator[Any]:
    """A live table on a terminal, plain lines elsewhere."""
    terminal, began = console.terminal, time.perf_counter()
    console.say("compiling …")
    first: list[int] = []

    def left(iteration: int) -> float:
        if not first:
            first.append(iteration - 1)
        passed = time.perf_counter() - began
        return passed / max(iteration - first[0], 1) * (total - iteration)

    if not terminal.is_terminal:

        def line(iteration: int, metrics: dict[str, Any]) -> None:
            numbers = [f"{k} {metrics[k]:.4g}" for k in SHOWN if k in metrics]
            text = f"{iteration}/{total} {' '.join(numbers)} left {left(iteration):.0f}s"
            if not terminal.quiet:
                print(text, flush=True)

        yield line
        return
    with Live(console=terminal, refresh_per_second=8) as live:

        def show(iteration: int, metrics: dict[str, Any]) -> None:
            table = console.rich_table(f"iteration {iteration} of {total}", ["", "now"])
            for name in SHOWN:
                if name in metrics:
                    shown = f"{metrics[name]:.4g}" if np.isfinite(metrics[name]) else "too thin"
                    table.add_row(name.replace("_", " "), shown)
            table.add_row("time left", f"{left(iteration):.0f} s")
            live.update(table)

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
            lower = [np.nan if line.get("lower") is None else line["lower"] for line in lines]
            axis.fill_between(np.arange(1, len(values) + 1), lower, values, alpha=0.2,
                              color="#c1121f")  # fmt: skip
        axis.set_title(name.replace("_", " "), fontsize=9)
        axis.set_xlabel("iteration")
    with console.atomic(out / "training.png") as path:
        figure.savefig(path, dpi=150, bbox_inches="tight")
