"""The gridworld's estimation table: accuracy, error of Q, direction of the gradient."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from gamps._utils import console, figures, summaries
from gamps.envs import TwoAreas, collect
from gamps.envs.two_areas import N_ACTIONS, two_areas
from gamps.exact import tabular
from gamps.models import ActionEffect
from gamps.paper.setup import FitName, LayoutName, fit_of, log_of, policy_table
from gamps.paper.treatments import each_seed
from gamps.policies import Policy
from gamps.search import gradients
from gamps.search.importance import Ratios, log_rho
from gamps.search.values.exact import value_tables
from gamps.search.weights import GradientAware, Ones
from gamps.trajectories import Trajectories

PAPER = {
    "ml": {
        "accuracy": "0.765 ± 0.001",
        "q_mse": "11.803 ± 0.158",
        "gradient_cosine": "0.449 ± 0.041",
    },
    "gamps": {
        "accuracy": "0.357 ± 0.004",
        "q_mse": "633.835 ± 12.697",
        "gradient_cosine": "1.000 ± 0.000",
    },
}
WEIGHTINGS = {"ml": Ones(), "gamps": GradientAware(q=2.0)}


def cosine(a: Array, b: Array) -> Array:
    """Cosine similarity as the paper defines it."""
    return a @ b / jnp.maximum(jnp.linalg.norm(a) * jnp.linalg.norm(b), 1e-8)


def accuracy(model: ActionEffect, held_out: Trajectories) -> Array:
    """Share of held-out transitions whose next cell is the model's most likely one."""
    likeliest = jnp.argmax(model.transitions(), axis=-1)
    predicted = likeliest[held_out.states[..., 0], held_out.actions]
    right = jnp.where(held_out.mask, predicted == held_out.next_states[..., 0], False)
    return jnp.sum(right) / jnp.sum(held_out.mask)


def sample_gradient(env: TwoAreas, policy: Policy, log: Trajectories, q_values: Array) -> Array:
    """The estimator of eq. gradient_estimate with a table of Q."""
    ratios = Ratios.of(log_rho(policy, log), log.mask, env.task().discount)
    weighted = ratios.discounted_rho * q_values[log.states[..., 0], log.actions]
    return ravel_pytree(gradients.off_policy(policy, log, weighted))[0]


def estimate(env: TwoAreas, fit: Any, key: Array, *, n: int, horizon: int | None) -> dict[str, Any]:
    """All metrics of one run: `n` training and `n` held-out trajectories."""
    key_log, key_held_out, key_fit = jax.random.split(key, 3)
    policy, log = log_of(env, key_log, n)
    held_out = collect(env, policy, key_held_out, n=n, steps=env.layout.horizon)
    mdp, pi = env.mdp(), policy_table(env, policy)
    scores = tabular.score_table(policy, env.effect_model().states(), N_ACTIONS)
    true_q, exact = tabular.action_values(mdp, pi), tabular.policy_gradient(mdp, pi, scores)
    true_sample = sample_gradient(env, policy, held_out, true_q)
    ratios = Ratios.of(log_rho(policy, log), log.mask, env.task().discount)

    def metrics(weighting: Any) -> dict[str, Array]:
        model, _ = fit(key_fit, env.effect_model(), log, weighting(policy, log, ratios))
        q_values, _ = value_tables(policy, model, env.task(), horizon=horizon)
        gradient = sample_gradient(env, policy, held_out, q_values)
        return {
            "accuracy": accuracy(model, held_out),
            "q_mse": jnp.mean((q_values - true_q) ** 2),
            "gradient_cosine": cosine(true_sample, gradient),
            "gradient_cosine_exact": cosine(exact, gradient),
        }

    results = {name: metrics(weighting) for name, weighting in WEIGHTINGS.items()}
    return results | {"true_q": {"gradient_cosine_exact": cosine(exact, true_sample)}}


def table1(
    *,
    seeds: int = 10,
    out: Path = Path("runs/table1"),
    quick: bool = False,
    layout: LayoutName = "B",
    fit: FitName = "adam",
    trajectories: int = 1000,
    horizon: int | None = None,
    overwrite: bool = False,
) -> None:
    """Estimation table: a worse model and a worse Q, but the right gradient.

    Both models are fitted to the same trajectories of the behaviour policy, one with equal weights
    (ML), one with gradient-aware weights (GAMPS).

    There are two cosines. "to sample" compares with the same held-out trajectories weighted by the
    true Q, so that only the model's error counts; the paper's 1.000 ± 0.000 can only be this one.
    "to exact" compares with the exact gradient, where even the true Q has sampling error.

    Example: gamps reproduce table1 --layout B --fit closed --out runs/table1-closed

    Args:
      seeds: independent runs, seeds 0, 1, …; each has its own behaviour policy and log.
      out: folder for table1.json and table1.png.
      quick: 3 seeds of 200 trajectories; takes seconds.
      layout: gridworld layout; B comes closest to the paper.
      fit: "adam" for 130 steps at 0.01 from W = 0, "closed" for the exact maximiser.
      trajectories: number of training trajectories, and again of validation trajectories.
      horizon: sweeps of dynamic programming for the model's Q; solved exactly if not given.
      overwrite: replace an earlier result in the same folder.
    """
    if quick:
        seeds, trajectories = min(seeds, 3), min(trajectories, 200)
    out, env = console.folder(out, "table1", overwrite=overwrite), two_areas(layout)
    part = fit_of(env, fit)

    def run(key: Array) -> dict[str, Any]:
        return estimate(env, part, key, n=trajectories, horizon=horizon)

    runs = each_seed("table1", run, seeds)
    results = jax.tree.map(lambda *values: summaries.summary(values), *runs)
    settings = dict(seeds=seeds, layout=layout, fit=fit, trajectories=trajectories, horizon=horizon)
    figure = _figure(results)
    table = _table(results, f"layout {layout}, fit {fit}, {seeds} runs")
    console.save(
        out, "table1", settings=settings, results=results, paper=PAPER, figure=figure, table=table
    )


def _table(results: dict[str, Any], title: str) -> Any:
    reached = summaries.cell(results["true_q"]["gradient_cosine_exact"])
    table = console.rich_table(
        f"Estimation, {title} (mean ± half-width of the 95 % interval)",
        ["", "p̂ accuracy", "Q̂ MSE", "cosine, to sample", "cosine, to exact"],
        caption=f"Even the true Q has cosine {reached} to the exact gradient: sampling error.",
    )
    for name in ("ml", "gamps"):
        ours = results[name]
        row = [summaries.cell(ours[k]) for k in (*PAPER[name], "gradient_cosine_exact")]
        table.add_row(f"{figures.LABELS[name]} ours", *row)
        table.add_row(f"{figures.LABELS[name]} paper", *PAPER[name].values(), "", style="dim")
    return table


def _figure(results: dict[str, Any]) -> Any:
    figure, axes = figures.panels(1, 3, width=2.6)
    titles = {
        "accuracy": "p̂ accuracy",
        "q_mse": "Q̂ MSE (log)",
        "gradient_cosine": "gradient cosine",
    }
    for axis, (metric, title) in zip(axes[0], titles.items(), strict=True):
        for x, name in enumerate(("ml", "gamps")):
            ours, paper = results[name][metric], float(PAPER[name][metric].split()[0])
            error = (ours["high"] - ours["low"]) / 2
            axis.bar(x, ours["mean"], yerr=error, color=figures.COLOURS[name], width=0.6)
            axis.plot(x, paper, "k_", markersize=28, markeredgewidth=2)
        axis.set_xticks([0, 1], ["ML", "GAMPS"])
        axis.set_title(title, fontsize=10)
        if metric == "q_mse":
            axis.set_yscale("log")
    axes[0, 0].plot([], [], "k_", markersize=10, markeredgewidth=2, label="paper")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure
