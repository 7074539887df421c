"""Where the weight goes: state-action visits and gradient-aware weights on the grid."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gamps._utils import console, figures, summaries
from gamps.envs import TwoAreas
from gamps.envs.two_areas import N_ACTIONS, two_areas
from gamps.exact import bounds, tabular
from gamps.paper.setup import LayoutName, log_of, policy_table
from gamps.paper.treatments import each_seed
from gamps.search.importance import Ratios, log_rho
from gamps.search.weights import GradientAware, Ones

# What each action does in S1 and in S2.
ACTIONS = ("right | up", "down | right", "left | down", "up | left")


def weight_tables(env: TwoAreas, key: Array, n: int) -> dict[str, Array]:
    """The share of the total weight of each (cell, action), logged and exact."""
    policy, log = log_of(env, key, n)
    ratios = Ratios.of(log_rho(policy, log), log.mask, env.task().discount)
    pi = policy_table(env, policy)
    scores = tabular.score_table(policy, env.effect_model().states(), N_ACTIONS)
    eta = tabular.gradient_aware_distribution(env.mdp(), pi, bounds.score_norm_table(scores, 2.0))

    def table(weighting: Any) -> Array:
        weights = weighting(policy, log, ratios)
        total = jnp.zeros(pi.shape, weights.dtype)
        total = total.at[log.states[..., 0], log.actions].add(weights)
        return total / jnp.sum(total)

    # Leave the goal out of the exact distribution too: no step is logged there.
    eta = eta.at[env.layout.goal].set(0.0)
    return {
        "ml": table(Ones()),
        "gamps": table(GradientAware(q=2.0)),
        "exact_eta": eta / jnp.sum(eta),
    }


def weights(
    *,
    seeds: int = 10,
    out: Path = Path("runs/weights"),
    quick: bool = False,
    layout: LayoutName = "B",
    trajectories: int = 1000,
    overwrite: bool = False,
) -> None:
    """Figure of weights: where maximum likelihood and GAMPS put their weight.

    Each grid shows, for one action, the share of the fit's total weight that falls on each cell.
    The blue line is the border to S1, where the policy is deterministic and cannot improve:
    gradient-aware weights are zero there without being told.

    Args:
      seeds: independent runs that are averaged, seeds 0, 1, ….
      out: folder for weights.json and weights.png.
      quick: 2 seeds of 200 trajectories.
      layout: gridworld layout.
      trajectories: size of the log.
      overwrite: replace an earlier result in the same folder.
    """
    if quick:
        seeds, trajectories = min(seeds, 2), min(trajectories, 200)
    out, env = console.folder(out, "weights", overwrite=overwrite), two_areas(layout)
    runs = each_seed("weights", lambda key: weight_tables(env, key, trajectories), seeds)
    tables = {name: np.stack([r[name] for r in runs]) for name in runs[0]}
    lower = env.layout.lower
    results: dict[str, Any] = {
        name: {
            "lower": summaries.summary(t[:, lower].sum((1, 2))),
            "upper": summaries.summary(t[:, ~lower].sum((1, 2))),
        }
        for name, t in tables.items()
    }
    distance = np.abs(tables["gamps"] - tables["exact_eta"]).sum((1, 2)) / 2
    results["gamps"]["distance_to_eta"] = summaries.summary(distance)

    table = console.rich_table(
        f"Share of the fit's weight, layout {layout}, {seeds} runs (mean ± half-width of 95%)",
        ["", "S1 (deterministic)", "S2 (can improve)"],
        caption="Total variation distance of logged ω to exact η: "
        + summaries.cell(results["gamps"]["distance_to_eta"]),
    )
    for name, label in (("ml", "ML"), ("gamps", "GAMPS"), ("exact_eta", "exact η")):
        table.add_row(label, *(summaries.cell(results[name][k]) for k in ("lower", "upper")))
    settings = dict(seeds=seeds, layout=layout, trajectories=trajectories)
    paper = {"claim": "no weight where the policy cannot be improved"}
    figure = _figure(tables, lower)
    console.save(
        out, "weights", settings=settings, results=results, paper=paper, figure=figure, table=table
    )


def _figure(tables: dict[str, np.ndarray], lower: np.ndarray) -> Any:
    means = {name: t.mean(0) for name, t in tables.items()}
    # The two actions that carry most weight under either weighting.
    actions = np.argsort(-(means["ml"] + means["gamps"]).sum(0))[:2]
    figure, axes = figures.panels(1, 4, width=2.7, height=2.9)
    for name, pair in (("ml", axes[0, :2]), ("gamps", axes[0, 2:])):
        for axis, action in zip(pair, actions, strict=True):
            title = f"{figures.LABELS[name]}, action {action}\n({ACTIONS[action]} in S1 | S2)"
            figures.on_grid(axis, means[name][:, action], title=title, lower=lower)
    figure.suptitle(
        "Share of the fit's weight by cell (blue: border between S1 and S2)", fontsize=11
    )
    return figure
