"""Does the order of the score norm matter? The paper's figure of q in {1, 2, ∞}."""

import math
from pathlib import Path

from gamps._utils import console, figures, summaries
from gamps.envs.two_areas import two_areas
from gamps.paper.setup import LayoutName, best_return, learn, logs_of, true_return
from gamps.paper.treatments import final_and_best, seed_keys
from gamps.search import recipes
from gamps.search.weights import GradientAware

ORDERS = {"1": 1.0, "2": 2.0, "inf": math.inf}


def qnorm(
    *,
    seeds: int = 10,
    out: Path = Path("runs/qnorm"),
    quick: bool = False,
    layout: LayoutName = "B",
    trajectories: int = 50,
    iterations: int = 15,
    overwrite: bool = False,
) -> None:
    """Order of the norm: GAMPS exactly as in the paper, with q = 1, 2 and infinity.

    For softmax policies the 1-norm of a score is exactly twice its maximum norm. So q = 1 and
    q = ∞ give the same weights up to a factor, and hence the same run.

    Args:
      seeds: independent runs, seeds 0, 1, ….
      out: folder for qnorm.json and qnorm.png.
      quick: 3 seeds.
      layout: gridworld layout.
      trajectories: size of the log.
      iterations: policy steps.
      overwrite: replace an earlier result in the same folder.
    """
    seeds = min(seeds, 3) if quick else seeds
    out, env = console.folder(out, "qnorm", overwrite=overwrite), two_areas(layout)
    keys, measure = seed_keys(seeds), true_return(env)
    curves, logs = {}, logs_of(env, keys, trajectories)
    with console.bar("qnorm", len(ORDERS) * iterations) as advance:
        for name, q in ORDERS.items():
            curves[name] = learn(
                env,
                recipes.gamps_paper,
                logs,
                keys,
                parts={"weighting": GradientAware(q=q)},
                iterations=iterations,
                measure=measure,
                progress=console.ticking(advance, f"q = {name}"),
            )
    results = {name: final_and_best(curve) for name, curve in curves.items()}
    table = console.rich_table(
        f"Order of the norm, layout {layout}, {seeds} runs, {iterations} iterations (mean ± std)",
        ["q", "final return", "best return"],
        caption="The paper shows curves only and finds that q is not crucial.",
    )
    figure, axes = figures.panels(1, 1, width=4.5, height=3.2)
    colours = ("#1d6fa5", "#c1121f", "#2a9d5c")
    for (name, values), colour in zip(curves.items(), colours, strict=True):
        table.add_row(name, *(summaries.spread(results[name][k], 3) for k in ("final", "best")))
        figures.curve(axes[0, 0], values, label=f"q = {name.replace('inf', '∞')}", colour=colour)
    axes[0, 0].axhline(best_return(env), color="black", linewidth=0.8, linestyle=":")
    axes[0, 0].set(xlabel="iteration", ylabel="discounted return")
    axes[0, 0].legend(frameon=False)
    settings = dict(seeds=seeds, layout=layout, trajectories=trajectories, iterations=iterations)
    paper = {"claim": "the choice of q is not crucial"}
    console.save(
        out, "qnorm", settings=settings, results=results, paper=paper, figure=figure, table=table
    )
