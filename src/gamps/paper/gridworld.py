"""Learning curves of the four recipes on the gridworld, for logs of different sizes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gamps._utils import console, figures, summaries
from gamps.envs.two_areas import two_areas
from gamps.paper import treatments
from gamps.paper.best_settings import stabilised
from gamps.paper.setup import FitName, LayoutName, best_return, fit_of, learn, logs_of, true_return
from gamps.paper.treatments import MODEL_FREE, RECIPES, BaselineName, baseline_of, seed_keys

TreatmentName = BaselineName | Literal["stabilised"]


def parts_of(recipe: str, treatment: TreatmentName) -> dict[str, Any]:
    """The parts of a treatment."""
    if treatment == "stabilised":
        return stabilised(recipe, continuous=False)
    return {"baseline": baseline_of(recipe, treatment)}


def gridworld(
    *,
    seeds: int = 20,
    out: Path = Path("runs/gridworld"),
    quick: bool = False,
    layout: LayoutName = "B",
    baselines: tuple[TreatmentName, ...] = ("none", "per_time", "state_value"),
    trajectories: tuple[int, ...] = (10, 25, 50, 100, 250, 1000),
    iterations: int = 100,
    fit: FitName = "closed",
    overwrite: bool = False,
) -> None:
    """Learning curves of GAMPS, ML, PGT and REINFORCE on logs of six sizes.

    All recipes see the same logs and get the same treatment. Each baseline has a row of the figure
    and a block of the table. The return is exact and discounted, for the stochastic policy.

    Example: gamps reproduce gridworld --layout plain --trajectories 10 100 --out runs/plain

    Args:
      seeds: independent runs, seeds 0, 1, …, all in one compiled program.
      out: folder for gridworld.json and gridworld.png.
      quick: 3 seeds, one log size of 25, 20 iterations; takes about half a minute.
      layout: gridworld layout: B, A or plain.
      baselines: treatments to show, the same for all recipes. But state_value is the V(s) of a
        model; PGT and REINFORCE have none and get minimum_variance in its place. stabilised is
        what Swimmer's exploration chose: see `gamps reproduce swimmer`.
      trajectories: sizes of the log.
      iterations: policy steps of Adam at 0.2.
      fit: how the model is fitted: "closed" or "adam".
      overwrite: replace an earlier result in the same folder.
    """
    if quick:
        seeds, trajectories, iterations = min(seeds, 3), (25,), min(iterations, 20)
    out, env = console.folder(out, "gridworld", overwrite=overwrite), two_areas(layout)
    keys, measure = seed_keys(seeds), true_return(env)
    model = {name: {} if name in MODEL_FREE else {"fit": fit_of(env, fit)} for name in RECIPES}
    cells = [
        (n, baseline, name) for n in trajectories for baseline in baselines for name in RECIPES
    ]
    curves: dict[str, dict[int, dict[str, np.ndarray]]] = {
        b: {n: {} for n in trajectories} for b in baselines
    }
    with console.bar(f"gridworld {layout}", len(cells) * iterations) as advance:
        logs = {n: logs_of(env, keys, n) for n in trajectories}
        for n, baseline, name in cells:
            curves[baseline][n][name] = learn(
                env,
                RECIPES[name],
                logs[n],
                keys,
                parts=parts_of(name, baseline) | model[name],
                iterations=iterations,
                measure=measure,
                progress=console.ticking(advance, f"{baseline}, N = {n}, {figures.LABELS[name]}"),
            )

    def summarised(numbers: Callable[[dict[str, np.ndarray]], Any]) -> dict[str, Any]:
        return {b: {str(n): numbers(by_n[n]) for n in by_n} for b, by_n in curves.items()}

    results = summarised(lambda n: {k: treatments.final_and_best(c) for k, c in n.items()})
    paired, optimum = summarised(_paired), best_return(env)
    settings = dict(
        seeds=seeds,
        layout=layout,
        baselines=baselines,
        trajectories=trajectories,
        iterations=iterations,
        fit=fit,
        optimum=optimum,
    )
    console.save(
        out,
        "gridworld",
        settings=settings,
        results=results | {"gamps_minus": paired},
        paper={"claim": "the GAMPS curve is above the others at every N"},
        figure=_figure(curves, optimum, layout),
        table=_table(results, paired, optimum, layout, seeds),
    )


def _paired(of_n: dict[str, np.ndarray]) -> dict[str, Any]:
    """Final return of GAMPS minus that of each other recipe, on the same logs."""
    names = [name for name in of_n if name != "gamps"]
    return {name: summaries.summary(of_n["gamps"][-1] - of_n[name][-1]) for name in names}


def verdict(paired: dict[str, Any]) -> str:
    """Whether GAMPS is first, tied within one standard error, or behind, and which recipes lead."""
    least = {name: -max(summaries.standard_error(gap), 1e-6) for name, gap in paired.items()}
    behind = [name for name, gap in paired.items() if gap["mean"] < least[name]]
    if behind:
        return "behind " + ", ".join(figures.LABELS[name] for name in behind)
    return "first" if all(d["mean"] > 0 for d in paired.values()) else "tied"


def _table(
    results: dict[str, Any], paired: dict[str, Any], optimum: float, layout: str, seeds: int
) -> Any:
    table = console.rich_table(
        f"Final return, layout {layout}, {seeds} runs (mean ± std; optimum {optimum:.2f})",
        ["baseline", "N", *figures.LABELS.values(), "GAMPS is"],
        caption="tied: behind by less than one standard error of the paired difference. "
        "Under state value, PGT and REINFORCE have the minimum-variance baseline. "
        "The paper shows curves only and claims GAMPS first at every N.",
    )
    for baseline, by_n in results.items():
        for n, of_n in by_n.items():
            row = [summaries.spread(of_n[k]["final"], 3) for k in figures.LABELS]
            table.add_row(baseline.replace("_", " "), n, *row, verdict(paired[baseline][n]))
        table.add_section()
    return table


def _figure(curves: dict[str, Any], optimum: float, layout: str) -> Any:
    sizes = list(next(iter(curves.values())))
    figure, axes = figures.panels(len(curves), len(sizes))
    for row, (baseline, by_n) in zip(axes, curves.items(), strict=True):
        for axis, n in zip(row, sizes, strict=True):
            figures.recipe_curves(axis, by_n[n])
            axis.axhline(optimum, color="black", linewidth=0.8, linestyle=":")
            worst = min(float(values[0].mean()) for values in by_n[n].values())
            axis.set_ylim(2.2 * worst, optimum + 1)
            axis.set_title(f"N = {n}, baseline {baseline.replace('_', ' ')}", fontsize=9)
        row[0].set_ylabel("discounted return")
    for axis in axes[-1]:
        axis.set_xlabel("iteration")
    title = f"Two-areas gridworld, layout {layout}: mean ± std; dotted: optimum"
    figures.legend_below(figure, axes, title, fontsize=11)
    return figure
