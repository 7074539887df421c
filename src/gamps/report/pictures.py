"""The pictures of a run's report, each from plain arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gamps._utils.figures import COLOURS, panels
from gamps.evaluation import Evaluation, Rung
from gamps.evaluation.support import FAIR, LIMITS
from gamps.report.diagnostics import Predictions, Weighing

NEW, OLD, GREY, CERTIFIED = COLOURS["gamps"], COLOURS["ml"], "#5b6875", "#2a9d5c"
MOST = 4  # dimensions to draw, at most


def ladder(
    rungs: Sequence[Rung], evaluated: Evaluation, promised: Sequence[float] | None = None
) -> Any:
    """Draw each rung's estimate and bound, its effective episodes, and what the models promise."""
    figure, axes = panels(2, 1, width=6.4, height=2.4)
    for k, one in enumerate(evaluated.judged):
        certified = k == evaluated.chosen and evaluated.policy is not None
        gain, colour = one.improvement, CERTIFIED if certified else GREY
        if one.refusal is None:
            axes[0, 0].plot([k, k], [gain.low, gain.estimate], color=colour, linewidth=2.5)
        filled = "none" if one.refusal is not None else colour
        axes[0, 0].plot(k, gain.estimate, "o", color=colour, markerfacecolor=filled)
        axes[1, 0].bar(k, one.support.ess, color=colour, fill=one.refusal is None, width=0.5)
    if promised is not None:
        axes[0, 0].plot(range(len(rungs)), promised, "x", color=NEW)
    axes[0, 0].axhline(0.0, color="black", linewidth=0.8)
    axes[0, 0].set_ylabel("improvement")
    axes[1, 0].axhline(LIMITS[FAIR][0], color="black", linewidth=0.8, linestyle=":")
    for axis in axes[:, 0]:
        axis.set_xlim(-0.5, len(rungs) - 0.5)
    axes[1, 0].set_ylabel("effective episodes")
    names = [f"{rung.share:.0%}\n{rung.spread:.0%}" for rung in rungs]
    axes[0, 0].set_xticks(range(len(rungs)), [""] * len(rungs))
    axes[1, 0].set_xticks(range(len(rungs)), names)
    axes[1, 0].set_xlabel("mean moved, and noise moved, towards the learned policy")
    return figure


def estimates(by_name: Mapping[str, Any], chosen: str) -> Any:
    """Draw the improvement by every estimator, with its bounds."""
    figure, axes = panels(1, 1, width=7.0, height=0.45 * len(by_name) + 1.0)
    axis = axes[0, 0]
    for row, (name, estimate) in enumerate(by_name.items()):
        gain, colour = estimate.improvement, NEW if name == chosen else GREY
        axis.plot([gain.low, gain.high], [row, row], color=colour, linewidth=2.5)
        axis.plot(gain.estimate, row, "o", color=colour)
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.set_yticks(range(len(by_name)), list(by_name))
    axis.get_yticklabels()[list(by_name).index(chosen)].set_fontweight("bold")
    axis.invert_yaxis()
    axis.set_xlabel("improvement over the logging policy, return of an episode")
    return figure


def learning(lines: Sequence[Mapping[str, Any]]) -> Any:
    """Draw what training reported, iteration by iteration."""
    titles = {
        "estimate": "predicted return",
        "ess": "effective episodes",
        "gradient_norm": "norm of the gradient",
        "model_loss": "loss of the model",
    }
    titles = {name: title for name, title in titles.items() if name in lines[-1]}
    figure, axes = panels(1, len(titles), width=2.9)
    steps = [line["iteration"] for line in lines]

    def column(name: str) -> np.ndarray:
        values = [line.get(name) for line in lines]
        return np.asarray([np.nan if v is None else v for v in values], float)

    for axis, (name, title) in zip(axes[0], titles.items(), strict=True):
        axis.plot(steps, column(name), color=NEW)
        if name == "estimate":
            axis.fill_between(steps, column("promise"), column(name), color=NEW, alpha=0.2)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("iteration")
    return figure


def over_time(weighing: Weighing, *, weights: bool) -> Any:
    """Draw effective episodes per step; with `weights`, also where in an episode the fit looks."""
    figure, axes = panels(1, 1 + weights, width=4.2, height=2.8)
    steps = np.arange(len(weighing.ess))
    axes[0, 0].plot(steps, weighing.episodes, color=GREY, label="episodes still running")
    axes[0, 0].plot(
        steps, np.maximum(weighing.ess, 1e-3), color=NEW, label="effective, learned policy"
    )
    axes[0, 0].set(xlabel="step t", ylabel="episodes", yscale="log")
    axes[0, 0].set_ylim(bottom=0.7)
    axes[0, 0].legend(frameon=False, fontsize=8)
    if not weights:
        return figure
    for shares, label, colour in (
        (weighing.uniform, "ML", OLD),
        (weighing.omega, "gradient-aware", NEW),
    ):
        axes[0, 1].plot(steps, shares.sum(axis=0), color=colour, label=label)
    axes[0, 1].set(xlabel="step", ylabel="share of a fit's weight")
    axes[0, 1].legend(frameon=False, fontsize=8)
    return figure


def over_states(states: np.ndarray, weighing: Weighing, mask: np.ndarray) -> Any:
    """Draw where in the state space the fit looks: maximum likelihood and gradient-aware."""
    points, shares = states[mask], (weighing.uniform[mask], weighing.omega[mask])
    titles = ("ML: equal weights", "gradient-aware ω")
    if points.ndim == 1 or points.shape[1] == 1 or points.dtype.kind == "i":
        return _along_one(points.reshape(len(points), -1)[:, 0], shares)
    x, y = _most_different(points, shares[1])
    edges = [_edges(points[:, j]) for j in (x, y)]
    grids = [np.histogram2d(points[:, x], points[:, y], edges, weights=w)[0] for w in shares]
    figure, axes = panels(1, 2, width=4.2, height=3.3)
    top = max(np.quantile(grid[grid > 0], 0.98) if (grid > 0).any() else 1.0 for grid in grids)
    for axis, grid, title in zip(axes[0], grids, titles, strict=True):
        masked = np.ma.masked_where(grids[0].T == 0, grid.T)
        image = axis.pcolormesh(*edges, masked, cmap="magma_r", vmin=0, vmax=top, rasterized=True)
        axis.set_title(title, fontsize=9)
        axis.set(xlabel=f"observation[{x}]", ylabel=f"observation[{y}]")
    figure.colorbar(image, ax=axes[0].tolist(), label="share of the weight", shrink=0.9)
    return figure


def _edges(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, 0.001), np.quantile(values, 0.999)
    return np.linspace(float(low), float(high), 31)


def _along_one(values: np.ndarray, shares: tuple[np.ndarray, np.ndarray]) -> Any:
    figure, axes = panels(1, 1, width=7.0, height=2.8)
    discrete = values.dtype.kind == "i"
    edges = np.arange(values.min(), values.max() + 2) - 0.5 if discrete else 40
    histograms = zip(shares, ("ML", "gradient-aware ω"), (OLD, NEW), strict=True)
    for weights, label, colour in histograms:
        look: dict[str, Any] = {"histtype": "step", "linewidth": 1.8}
        axes[0, 0].hist(values, edges, weights=weights, color=colour, label=label, **look)
    axes[0, 0].set(xlabel="observation[0]", ylabel="share of a fit's weight")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _most_different(states: np.ndarray, omega: np.ndarray) -> tuple[int, int]:
    """Return the two dimensions in which gradient-aware weights move the mean most."""
    moved = np.abs(omega @ states - states.mean(axis=0)) / np.maximum(states.std(axis=0), 1e-12)
    first, second = np.sort(np.argsort(-moved)[:2])
    return int(first), int(second)


def predicted(predictions: Predictions) -> Any:
    """Draw predicted against logged changes, and the ranks of the logged ones."""
    dimensions = _largest(predictions.logged)
    flat = len(dimensions) == 1
    figure, axes = panels(*((1, 2) if flat else (2, len(dimensions))), width=2.9, height=2.6)
    axes = axes.T if flat else axes
    for column, j in enumerate(dimensions):
        logged, guess = predictions.logged[:, j], predictions.predicted[:, j]
        axis = axes[0, column]
        axis.scatter(guess, logged, s=4, alpha=0.3, color=NEW, linewidth=0, rasterized=True)
        ends = np.quantile(np.concatenate([logged, guess]), [0.0, 1.0])
        axis.plot(ends, ends, color="black", linewidth=0.8)
        r2 = 1 - np.mean((logged - guess) ** 2) / max(logged.var(), 1e-300)
        axis.set_title(f"change of observation[{j}]\nR² {r2:.3f}", fontsize=9)
        axis.set(xlabel="predicted", ylabel="logged" if column == 0 else "")
        rank = axes[1, column]
        rank.hist(predictions.rank[:, j], 20, range=(0, 1), density=True, color=OLD, alpha=0.7)
        rank.axhline(1.0, color="black", linewidth=0.8)
        rank.set(xlabel="share of smaller changes", ylabel="density" if column == 0 else "")
    return figure


def bands(imagined: np.ndarray, going: np.ndarray, log_next: np.ndarray, mask: np.ndarray) -> Any:
    """Draw predicted (open loop) and logged observations over time, 5 to 95 %."""
    dimensions = _largest(log_next[mask])
    figure, axes = panels(1, len(dimensions), width=2.9, height=2.7)
    steps = np.flatnonzero(mask.sum(axis=0) >= 3)
    for axis, j in zip(axes[0], dimensions, strict=True):
        for values, real, colour, label in (
            (log_next[None, ..., j], mask[None], OLD, "logged"),
            (imagined[..., j], going & mask, NEW, "predicted"),
        ):
            there = steps[real[:, :, steps].any(axis=(0, 1))]
            shares = [0.05, 0.5, 0.95]
            cut = [np.quantile(values[:, :, t][real[:, :, t]], shares) for t in there]
            low, middle, high = np.asarray(cut).reshape(-1, 3).T
            axis.fill_between(there + 1, low, high, color=colour, alpha=0.2, linewidth=0)
            axis.plot(there + 1, middle, color=colour, label=label)
        axis.set_title(f"observation[{j}]", fontsize=9)
        axis.set_xlabel("step")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _largest(changes: np.ndarray) -> list[int]:
    """Return the dimensions that change most, in their own units."""
    deviation = changes.std(axis=0)
    return sorted(int(j) for j in np.argsort(-deviation)[:MOST])


def actions_along(states: np.ndarray, old: np.ndarray, new: np.ndarray) -> Any:
    """Draw both policies' actions without noise, along the dimensions that matter most to them."""
    moved = np.argsort(-np.abs(new - old).mean(axis=0))[: MOST - 1]
    scaled = (states - states.mean(axis=0)) / np.maximum(states.std(axis=0), 1e-12)
    matter = np.abs(scaled.T @ (new - new.mean(axis=0))).sum(axis=1)
    along = sorted(int(j) for j in np.argsort(-matter)[:MOST])
    figure, axes = panels(len(moved), len(along), width=2.9 if len(along) > 1 else 6.5, height=2.6)
    some = np.random.default_rng(0).permutation(len(states))[:1_500]
    for row, a in enumerate(sorted(int(a) for a in moved)):
        for column, j in enumerate(along):
            axis = axes[row, column]
            for values, colour, label in ((old, OLD, "logging policy"), (new, NEW, "rung")):
                axis.scatter(states[some, j], values[some, a], s=4, alpha=0.5, color=colour,
                             label=label, linewidth=0, rasterized=True)  # fmt: skip
            axis.set(xlabel=f"observation[{j}]", ylabel=f"action[{a}]" if column == 0 else "")
    axes[0, 0].legend(frameon=False, fontsize=8, markerscale=3)
    return figure


def choices(old: np.ndarray, new: np.ndarray) -> Any:
    """Draw the mean probability of each choice at the logged states."""
    figure, axes = panels(1, 1, width=6.5, height=2.6)
    places = np.arange(old.shape[1])
    named = ((-0.2, old, OLD, "logging policy"), (0.2, new, NEW, "rung"))
    for shift, values, colour, label in named:
        axes[0, 0].bar(places + shift, values.mean(axis=0), 0.4, color=colour, label=label)
    axes[0, 0].set(xlabel="action", ylabel="mean probability", xticks=places)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure
