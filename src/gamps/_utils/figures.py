"""Axes, and the drawings that several figures share."""

import math
from typing import Any

import numpy as np

COLOURS = {"gamps": "#c1121f", "ml": "#1d6fa5", "pgt": "#2a9d5c", "reinforce": "#8a6d3b"}
"""The colour of each recipe, the same in every figure."""
LABELS = {"gamps": "GAMPS", "ml": "ML", "pgt": "PGT", "reinforce": "REINFORCE"}
"""The name of each recipe in figures and tables."""


def panels(rows: int, columns: int, *, width: float = 3.4, height: float = 2.7) -> tuple[Any, Any]:
    """A figure of `rows` × `columns` axes, always as a 2-D array."""
    from matplotlib.figure import Figure  # takes a second; commands without figures skip it

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def curve(axis: Any, values: np.ndarray, *, label: str, colour: str) -> None:
    """Draw mean ± standard deviation over seeds of `[iterations, seeds]`."""
    mean, std = values.mean(axis=1), values.std(axis=1)
    steps = np.arange(len(mean))
    axis.plot(steps, mean, label=label, color=colour, linewidth=1.6)
    axis.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)


def recipe_curves(axis: Any, curves: dict[str, np.ndarray]) -> None:
    """Draw the `curve` of every recipe in its colour, the first on top."""
    for name, values in reversed(curves.items()):
        curve(axis, values, label=LABELS[name], colour=COLOURS[name])


def legend_below(figure: Any, axes: Any, title: str, *, fontsize: int = 10) -> None:
    """Draw one legend below all axes, and a title above them."""
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, fontsize=fontsize)


def on_grid(axis: Any, values: np.ndarray, *, title: str, lower: np.ndarray) -> Any:
    """Draw one number per cell on the square grid, with the border between the areas."""
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
