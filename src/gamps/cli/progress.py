"""Show a training while it runs: a live table or lines, and a picture at the end."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gamps._utils import console, figures
from gamps._utils.atomic_io import replace_file
from gamps.runs import folder

SHOWN = {  # metrics on a terminal, and their names there
    "gradient_norm": "norm of the gradient",
    "model_loss": "loss of the model",
    "ess": "effective episodes",
    "pareto_k": "Pareto-k",
    "estimate": "return, estimated",
    "promise": "return, promised",
}


class Shown:
    """What a training shows: what it is doing, then the metrics of each iteration.

    Args:
      total: iterations of the training.
      display: from `console.live`.
    """

    def __init__(self, total: int, display: Callable[[str, Any], None]) -> None:
        self.total, self.display = total, display
        self.first, self.since = 0, 0.0

    def doing(self, what: str) -> None:
        """Show a step that takes long, with its time so far."""
        self.display(f"{what} …", console.spinner(what))

    def __call__(self, iteration: int, metrics: dict[str, Any]) -> None:
        """Show the metrics of an iteration, and the time left."""
        now = time.perf_counter()
        known = {name: metrics[name] for name in SHOWN if name in metrics}
        table = console.rich_table(f"iteration {iteration} of {self.total}", ["", "now"])
        for name, value in known.items():
            text = f"{value:.4g}" if np.isfinite(value) else "too thin"
            table.add_row(SHOWN[name], text)
        line = f"{iteration}/{self.total} "
        line += " ".join(f"{name} {value:.4g}" for name, value in known.items())
        if self.first:  # the first iteration compiles: its time says nothing about the others
            each = (now - self.since) / (iteration - self.first)
            left = f"{each * (self.total - iteration):.0f}"
            table.add_row("time left", f"{left} s")
            line += f" left {left}s"
        else:
            self.first, self.since = iteration, now
        self.display(line, table)


@contextmanager
def shown(total: int) -> Iterator[Shown]:
    """Show a training while it runs."""
    with console.live() as display:
        yield Shown(total, display)


def figure(out: Path) -> None:
    """Draw how the training went, iteration by iteration."""
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
