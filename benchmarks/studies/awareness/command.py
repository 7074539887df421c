"""When does gradient-awareness pay? The command, its table and its figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.studies.awareness import gridworld, minigolf
from benchmarks.studies.awareness.weighting import WEIGHTS
from gamps._utils import console, figures, summaries
from gamps.paper.treatments import seed_keys

Problem = Literal["minigolf", "gridworld", "swimmer"]
KINDS: dict[str, tuple[str, ...]] = {
    "minigolf": ("linear", "quadratic", "network"),
    "swimmer": ("linear", "quadratic", "network"),
    "gridworld": gridworld.KINDS,
}
SIZES: dict[str, tuple[int, ...]] = {
    "minigolf": (50, 200),
    "gridworld": (25, 100, 1000),
    "swimmer": (25, 100),
}


def awareness(
    *,
    problem: Problem = "minigolf",
    seeds: int = 10,
    sizes: tuple[int, ...] = (),
    out: Path = Path("runs/awareness"),
    quick: bool = False,
    overwrite: bool = False,
) -> None:
    """When do gradient-aware weights pay? Cosine of the gradient in a fitted model to the true one.

    On minigolf and Swimmer the true game, or MuJoCo, gives the gradient at the same states, actions
    and noise; the model is linear, quadratic, or a network. On the gridworld (layout A) both are
    exact, and the return at the end of a search is measured as well; the model has the effects of
    an action for all cells alike, as in the paper, for the two areas apart, or for every cell. The
    policy is the behaviour's, half way to the best, or close to the best; the weights are maximum
    likelihood, the ratio alone, the sum of score norms alone, ω, or its square root.

    Example: python -m benchmarks.studies awareness --problem gridworld

    Args:
      problem: minigolf, gridworld, or swimmer, which needs MuJoCo.
      seeds: independent logs, seeds 0, 1, …
      sizes: trajectories in a log; by default 50 and 200, on the gridworld 25, 100 and 1,000,
        on Swimmer 25 and 100.
      out: folder for awareness.json and awareness.png; of other
        problems than minigolf awareness-gridworld, awareness-swimmer.
      quick: 3 seeds, one size, no network.
      overwrite: replace an earlier result in the same folder.
    """
    sizes, kinds = sizes or SIZES[problem], KINDS[problem]
    if quick:
        seeds, sizes, kinds = min(seeds, 3), sizes[:1], kinds[:2]
    name = "awareness" if problem == "minigolf" else f"awareness-{problem}"
    out, keys = console.folder(out, name, overwrite=overwrite), seed_keys(seeds)
    on = _problem(problem)
    steps = {"minigolf": len(on.DISTANCES), "swimmer": len(on.DISTANCES) * seeds}.get(problem, 1)
    with console.bar(name, len(sizes) * len(kinds) * len(WEIGHTS) * steps) as advance:
        results = {
            str(n): {
                kind: {
                    key: {
                        weights: summaries.summary(np.asarray(each))
                        for weights, each in row.items()
                    }
                    for key, row in by_key.items()
                }
                for kind, by_key in on.rows(keys, n, kinds, advance).items()
            }
            for n in sizes
        }
    console.save(
        out,
        name,
        settings=dict(problem=problem, seeds=seeds, sizes=sizes, distances=on.DISTANCES),
        results=results,
        paper={"claim": "a gradient-aware model gives a better gradient than a likely one"},
        figure=_figure(results, on.DISTANCES),
        table=_table(results, problem, seeds),
    )


def _problem(name: str) -> Any:
    if name == "swimmer":  # MuJoCo is an extra
        from benchmarks.studies.awareness import swimmer

        return swimmer
    return {"minigolf": minigolf, "gridworld": gridworld}[name]


def _table(results: dict[str, Any], problem: str, seeds: int) -> Any:
    table = console.rich_table(
        f"{problem}: cosine to the true gradient, or return, {seeds} logs (mean ± 95%)",
        ["trajectories", "model", "distance", *WEIGHTS],
        caption="distance: 0 the behaviour policy, 1 close to the best; or the return of a search.",
    )
    for n, by_class in results.items():
        for name, by_distance in by_class.items():
            for distance, row in by_distance.items():
                table.add_row(n, name, distance, *(summaries.cell(row[w], 2) for w in WEIGHTS))
        table.add_section()
    return table


def _figure(results: dict[str, Any], distances: tuple[float, ...]) -> Any:
    columns = max(len(by_class) for by_class in results.values())
    figure, axes = figures.panels(len(results), columns, width=3.2, height=2.6)
    rows = [
        row
        for c in results.values()
        for by in c.values()
        for row in map(by.get, map(str, distances))
    ]
    least = min(number["mean"] for row in rows for number in row.values())
    for row, (n, by_class) in zip(axes, results.items(), strict=True):
        for axis, (name, by_distance) in zip(row, by_class.items(), strict=False):
            for weights in WEIGHTS:
                means = [by_distance[str(d)][weights]["mean"] for d in distances]
                axis.plot(distances, means, ".-", label=weights)
            axis.set_title(f"{name}, {n} trajectories", fontsize=8)
            axis.set_ylim(min(-0.2, least - 0.05), 1.05)
            axis.set_xlabel("distance from the behaviour")
    axes[0, 0].set_ylabel("cosine to the true gradient")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(WEIGHTS), frameon=False)
    return figure
