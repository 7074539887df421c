"""Learning curves on minigolf: continuous states and actions, Q from imagined rollouts."""

from pathlib import Path
from typing import Any

import jax

from gamps._utils import console, figures, summaries
from gamps.envs import Minigolf
from gamps.paper.golf_setup import Treatment, behaviour_mean_action, curve_of, logs_of
from gamps.paper.treatments import RECIPES, paired, seed_keys

OUTCOMES = ("final", "best", "holes", "overshoots", "mean action")
PAPER = {"claim": "GAMPS is above all others in final and best return, and mostly holes the ball"}


def minigolf(
    *,
    seeds: int = 90,
    out: Path = Path("runs/minigolf"),
    quick: bool = False,
    stds: tuple[float, ...] = (1.0, 2.0),
    treatments: tuple[Treatment, ...] = ("none", "per_time"),
    trajectories: int = 50,
    iterations: int = 30,
    learning_rate: float = 0.08,
    episodes: int = 2000,
    overwrite: bool = False,
) -> None:
    """Minigolf: GAMPS, ML, PGT and REINFORCE from 50 logged games.

    This is the paper's setting: six radial basis functions, a linear-Gaussian model without bias
    fitted in closed form, 10 imagined rollouts of 20 steps, Adam. All recipes see the same logs
    and get the same treatment. Returns are discounted, over fresh episodes of the true game.

    Example: gamps reproduce minigolf --seeds 90 --treatments per_time --stds 1

    Args:
      seeds: independent runs, seeds 0, 1, …, all in one compiled program; fewer than 90 mislead.
      out: folder for minigolf.json and minigolf.png.
      quick: 4 seeds, 5 iterations, behaviour std 1; takes about half a minute.
      stds: standard deviations of the behaviour policy's action; the learned policy starts at 1.
      treatments: the same for all recipes. none is the paper's estimator; per_time subtracts the
        mean of each step; per_time_ess also stops below two effective trajectories; stabilised is
        what Swimmer's exploration chose, see `gamps reproduce swimmer`.
      trajectories: episodes in the log.
      iterations: policy steps.
      learning_rate: of Adam; 0.08 is the paper's.
      episodes: fresh episodes to evaluate each policy with.
      overwrite: replace an earlier result in the same folder.
    """
    if quick:
        seeds, iterations, episodes, stds = min(seeds, 4), 5, 500, stds[:1]
    out = console.folder(out, "minigolf", overwrite=overwrite)
    env, keys = Minigolf(), seed_keys(seeds)
    cells = [(treatment, std, name) for treatment in treatments for std in stds for name in RECIPES]
    curves: dict[str, dict[float, dict[str, Any]]] = {t: {s: {} for s in stds} for t in treatments}
    with console.bar("minigolf", len(cells) * iterations) as advance:
        logs = {std: logs_of(env, keys, std=std, n=trajectories) for std in stds}
        for treatment, std, name in cells:
            curves[treatment][std][name] = curve_of(
                env,
                name,
                logs[std],
                keys,
                treatment=treatment,
                learning_rate=learning_rate,
                iterations=iterations,
                episodes=episodes,
                progress=console.ticking(advance, f"{treatment}, std {std:g}, {name}"),
            )
    results = {
        t: {f"{s:g}": _numbers(by_recipe) for s, by_recipe in by_std.items()}
        for t, by_std in curves.items()
    }
    settings = dict(
        seeds=seeds,
        stds=stds,
        treatments=treatments,
        trajectories=trajectories,
        iterations=iterations,
        learning_rate=learning_rate,
        episodes=episodes,
        optimum=float(jax.jit(Minigolf.optimal_return)(env)),
        behaviour_mean_action=behaviour_mean_action(env, episodes),
    )
    console.save(
        out,
        "minigolf",
        settings=settings,
        results=results,
        paper=PAPER,
        figure=_figure(curves, settings),
        table=_table(results, settings),
    )


def _numbers(by_recipe: dict[str, Any]) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        name: {
            "final": summaries.summary(o["return"][-1]),
            "best": summaries.summary(o["best"]),
            "holes": summaries.summary(o["holes"][-1]),
            "overshoots": summaries.summary(o["overshoots"][-1]),
            "mean_action": summaries.summary(o["mean_action"]),
        }
        for name, o in by_recipe.items()
    }
    return numbers | {"paired": paired({k: o["return"][-1] for k, o in by_recipe.items()})}


def _table(results: dict[str, Any], settings: dict[str, Any]) -> Any:
    table = console.rich_table(
        f"Minigolf, {settings['seeds']} runs, {settings['trajectories']} logged episodes "
        f"(mean ± std; optimum {settings['optimum']:.2f})",
        ["treatment", "std", "recipe", *OUTCOMES, "GAMPS - it"],
        caption="std: of the behaviour policy. best: the iteration that looked best, evaluated "
        "again. mean action: the final policy without its noise; for the behaviour policy it is "
        f"{settings['behaviour_mean_action']:.2f}. Last column: paired, ± standard error. "
        "The paper shows curves only and claims GAMPS first by final and best return.",
    )
    for treatment, by_std in results.items():
        for std, numbers in by_std.items():
            for name, label in figures.LABELS.items():
                row = numbers[name]
                gap = numbers["paired"].get(name)
                table.add_row(
                    treatment.replace("_", " "),
                    std,
                    label,
                    summaries.spread(row["final"]),
                    summaries.spread(row["best"]),
                    f"{row['holes']['mean']:.3f}",
                    f"{row['overshoots']['mean']:.3f}",
                    summaries.spread(row["mean_action"]),
                    "" if gap is None else f"{gap['mean']:+.2f} ± {gap['standard_error']:.2f}",
                )
            table.add_section()
    return table


def _figure(curves: dict[str, Any], settings: dict[str, Any]) -> Any:
    figure, axes = figures.panels(len(curves), len(settings["stds"]), width=4.4, height=3.2)
    for row, (treatment, by_std) in zip(axes, curves.items(), strict=True):
        for axis, (std, by_recipe) in zip(row, by_std.items(), strict=True):
            figures.recipe_curves(axis, {name: o["return"] for name, o in by_recipe.items()})
            axis.axhline(settings["optimum"], color="black", linewidth=0.8, linestyle=":")
            behaviour = settings["behaviour_mean_action"]
            axis.axhline(behaviour, color="grey", linewidth=0.8, linestyle="--")
            axis.set_ylim(-45, 0)
            title = f"{treatment.replace('_', ' ')}, behaviour std {std:g}"
            axis.set_title(title, fontsize=9)
        row[0].set_ylabel("discounted return")
    for axis in axes[-1]:
        axis.set_xlabel("iteration")
    title = "Minigolf: mean ± std; dotted: optimum; dashed: behaviour policy without noise"
    figures.legend_below(figure, axes, title)
    return figure
