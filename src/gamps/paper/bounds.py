"""The paper's bounds and the true error of the gradient, for four models of the gridworld."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from gamps._utils import console, figures, summaries
from gamps.envs import TwoAreas
from gamps.envs.two_areas import N_ACTIONS, two_areas
from gamps.exact import bounds as theory
from gamps.exact import tabular
from gamps.models import ActionEffect
from gamps.paper.setup import LayoutName, log_of, policy_table
from gamps.paper.treatments import each_seed
from gamps.search.fitting import ClosedForm
from gamps.search.importance import Ratios, log_rho
from gamps.search.weights import GradientAware, Ones

COLUMNS = {
    "error": "true error",
    "gradient_aware": "Theorem 1, corrected",
    "gradient_aware_printed": "Theorem 1, printed",
    "gradient_unaware": "ML bound",
    "twice_visited": "ML bound, provable",
}
SMALLEST, LARGEST = 1e-6, 1e7  # shown as zero and as infinite on the logarithmic axis
MODELS = {"ml": "ML", "gamps": "GAMPS", "mixed": "mixed", "uniform": "uniform"}
BREAKING = {name: COLUMNS[name] for name in ("error", "gradient_aware_printed", "gradient_aware")}
DISCOUNTS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995)


def bound_table(env: TwoAreas, key: Array, n: int, q: float) -> dict[str, dict[str, Array]]:
    """The error and the bounds of each model in one run."""
    key_log, key_fit = jax.random.split(key)
    policy, log = log_of(env, key_log, n)
    mdp, pi = env.mdp(), policy_table(env, policy)
    scores = tabular.score_table(policy, env.effect_model().states(), N_ACTIONS)
    ratios = Ratios.of(log_rho(policy, log), log.mask, env.task().discount)

    def fitted(weighting: Any) -> Array:
        model: Any
        model, _ = ClosedForm()(key_fit, env.effect_model(), log, weighting(policy, log, ratios))
        return _absorbing(env, model)

    models = {"ml": fitted(Ones()), "gamps": fitted(GradientAware(q=q))}
    models["mixed"] = (models["ml"] + models["gamps"]) / 2
    models["uniform"] = _absorbing(env, env.effect_model())
    return {
        name: {
            "error": theory.gradient_error(mdp, p, pi, scores, q=q),
            "gradient_aware": theory.gradient_aware_bound(mdp, p, pi, scores, q=q),
            "gradient_aware_printed": theory.gradient_aware_bound(
                mdp, p, pi, scores, q=q, printed=True
            ),
            "gradient_unaware": theory.gradient_unaware_bound(mdp, p, pi, scores, q=q),
            "twice_visited": theory.twice_visited_bound(mdp, p, pi, scores, q=q),
        }
        for name, p in models.items()
    }


def counterexample_table(q: float) -> dict[str, list[float]]:
    """The error and Theorem 1 in `theory.counterexample`, one number for each discount."""
    columns: dict[str, list[float]] = {"discount": list(DISCOUNTS)}
    columns |= {name: [] for name in BREAKING}
    for discount in DISCOUNTS:
        problem = theory.counterexample(discount)
        columns["error"].append(float(theory.gradient_error(*problem, q=q)))
        for name, printed in (("gradient_aware_printed", True), ("gradient_aware", False)):
            bound = theory.gradient_aware_bound(*problem, q=q, printed=printed)
            columns[name].append(float(bound))
    return columns


def _absorbing(env: TwoAreas, model: ActionEffect) -> Array:
    """The model's transitions with an absorbing goal: the task knows that nothing follows it."""
    goal = env.layout.goal
    return model.transitions().at[goal].set(0.0).at[goal, :, goal].set(1.0)


def bounds(
    *,
    seeds: int = 10,
    out: Path = Path("runs/bounds"),
    quick: bool = False,
    layout: LayoutName = "B",
    trajectories: int = 1000,
    q: float = 2.0,
    overwrite: bool = False,
) -> None:
    """Compare the bounds with the truth: how much of the gradient's error each bound explains.

    There are four models of the gridworld: fitted by ML, fitted by GAMPS, the mean of the two, and
    uniform. Theorem 1 is shown with its printed constant, although it is not a bound (a 3-state
    counterexample breaks it), and with the corrected one, which is (1 - γ)^-1 times larger. A
    second panel shows the counterexample for discounts from 0.5 to 0.995.

    Args:
      seeds: independent runs, seeds 0, 1, ….
      out: folder for bounds.json and bounds.png.
      quick: 2 seeds of 200 trajectories.
      layout: gridworld layout.
      trajectories: size of the log that ML and GAMPS are fitted to.
      q: order of the norm.
      overwrite: replace an earlier result in the same folder.
    """
    if quick:
        seeds, trajectories = min(seeds, 2), min(trajectories, 200)
    out, env = console.folder(out, "bounds", overwrite=overwrite), two_areas(layout)
    # Double precision tells an error of zero from rounding.
    with jax.enable_x64(True):
        runs = each_seed("bounds", lambda key: bound_table(env, key, trajectories, q), seeds)
        breaking = counterexample_table(q)
    results = jax.tree.map(lambda *values: summaries.summary(values), *runs)
    table = console.rich_table(
        f"Error of the gradient and its bounds, layout {layout}, {seeds} runs (mean ± std)",
        ["model", *COLUMNS.values()],
        caption="The ML bound has no valid proof; its provable form uses the expectation "
        "under second visits.",
    )
    for name, label in MODELS.items():
        table.add_row(label, *(_cell(results[name][column]) for column in COLUMNS))
    settings = dict(seeds=seeds, layout=layout, trajectories=trajectories, q=q)
    paper = {"claim": "Theorem 1 is tighter than the ML bound", "counterexample": breaking}
    figure = _figure(results, breaking)
    console.save(
        out, "bounds", settings=settings, results=results, paper=paper, figure=figure, table=table
    )
    console.say(_breaking_table(breaking))


def _cell(v: dict[str, float]) -> str:
    return f"{v['mean']:.3g} ± {v['std']:.2g}" if np.isfinite(v["mean"]) else "∞"


def _breaking_table(columns: dict[str, list[float]]) -> Any:
    title = "Theorem 1 in the three-state counterexample"
    table = console.rich_table(title, ["γ", *BREAKING.values(), "printed holds"])
    rows = zip(columns["discount"], *(columns[name] for name in BREAKING), strict=True)
    for discount, *row in rows:
        holds = "yes" if row[0] <= row[1] else "no"
        table.add_row(f"{discount:g}", *(f"{v:.3g}" for v in row), holds)
    return table


def _figure(results: dict[str, Any], breaking: dict[str, list[float]]) -> Any:
    figure, axes = figures.panels(1, 2, width=5.8, height=3.8)
    _draw_breaking(axes[0, 1], breaking)
    axis, width = axes[0, 0], 0.16
    colours = ("black", "#c1121f", "#f2a3a8", "#1d6fa5", "#9cc6e0")
    for i, ((column, label), colour) in enumerate(zip(COLUMNS.items(), colours, strict=True)):
        heights = np.array([results[name][column]["mean"] for name in MODELS])
        places = np.arange(len(MODELS)) + (i - 2) * width
        clipped = np.clip(heights, SMALLEST, LARGEST)
        axis.bar(places, clipped, width, label=label, color=colour)
        for place, height in zip(places, heights, strict=True):
            mark = "∞" if height > LARGEST else "0" if height < SMALLEST else ""
            axis.text(
                place, 1.3 * np.clip(height, SMALLEST, LARGEST), mark, ha="center", color=colour
            )
    axis.set_yscale("log")
    axis.set_xticks(range(4), MODELS.values())
    axis.set_xlabel("gridworld: model")
    axis.set_ylabel("‖error of the gradient‖")
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper left", bbox_to_anchor=(0, 1.25))
    return figure


def _draw_breaking(axis: Any, columns: dict[str, list[float]]) -> None:
    horizons = [1 / (1 - discount) for discount in columns["discount"]]
    looks = (("black", "-o"), ("#e07a80", "--"), ("#c1121f", "-"))
    for (name, label), (colour, style) in zip(BREAKING.items(), looks, strict=True):
        axis.plot(horizons, columns[name], style, label=label, color=colour, markersize=3)
    printed, error = np.array(columns["gradient_aware_printed"]), np.array(columns["error"])
    axis.fill_between(
        horizons, printed, error, where=error > printed, color="#e07a80", alpha=0.25, linewidth=0,
        label="the printed bound is broken",
    )  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    labelled = (0.5, 0.8, 0.9, 0.95, 0.99, 0.995)
    axis.set_xticks([1 / (1 - discount) for discount in labelled], [f"{g:g}" for g in labelled])
    axis.minorticks_off()
    axis.set_xlabel("counterexample: discount γ, spaced by 1 / (1 - γ)")
    axis.legend(frameon=False, fontsize=8)
