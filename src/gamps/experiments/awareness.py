"""When does gradient-awareness pay? Model capacity × log size × distance from the behaviour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key

from gamps import gradients, importance, report
from gamps.envs import Minigolf
from gamps.envs.minigolf import HORIZON
from gamps.experiments.golf_setup import logs_of
from gamps.experiments.treatments import seed_keys
from gamps.gradients import AllActions
from gamps.learning import ModelClass, classes_of
from gamps.models import Model
from gamps.policies import LinearGaussian, Policy, score_norms
from gamps.trajectories import Trajectories
from gamps.values import Imagined, OthersOfState
from gamps.weights import tempered

CLASSES = ("linear", "quadratic", "network")
WEIGHTS = ("ML", "ratio", "score", "ω", "√ω")
DISTANCES = (0.0, 0.5, 1.0)
STD = 0.5
WINDOW = 3  # steps of the ratio, as in the default recipe


def target(env: Minigolf) -> Float[Array, "F A"]:
    """Weights whose mean action is closest to the best one, by least squares over the green."""
    _, best = env.solution()
    middles = (jnp.arange(len(best)) + 0.5) / len(best) * env.length
    features = jax.vmap(env.policy().features)(middles[:, None])
    found: Array = jnp.linalg.lstsq(features, best[:, None])[0]
    return found


def policy_at(env: Minigolf, distance: float, goal: Float[Array, "F A"]) -> LinearGaussian:
    """Between the behaviour policy and the best, with less noise the nearer to the best."""
    start = env.policy()
    weights = (1 - distance) * start.weights + distance * goal
    log_std = distance * jnp.log(jnp.full(1, STD))
    return LinearGaussian(weights, start.features, log_std=log_std, learn_std=False)


def weights_of(
    name: str, policy: Policy, log: Trajectories, discount: Float[Array, ""] | float
) -> Float[Array, "N T"]:
    """ω and its parts, of mean one."""
    log_rho = importance.Window(WINDOW)(importance.log_rho(policy, log))
    rho = importance.Ratios.of(log_rho, log.mask, discount).discounted_rho
    plain = importance.Ratios.of(jnp.zeros_like(log_rho), log.mask, discount).discounted_rho
    norms = jnp.cumsum(jnp.where(log.mask, score_norms(policy, log, q=2.0), 0.0), axis=1)
    omega = {
        "ML": plain,
        "ratio": rho,
        "score": plain * norms,
        "ω": rho * norms,
        "√ω": rho * norms,
    }[name]
    return tempered(omega, log.mask, {"ML": 0.0, "√ω": 0.5}.get(name, 1.0))


@eqx.filter_jit
def cosines(
    env: Minigolf,
    logs: Trajectories,
    keys: Key[Array, "seeds"],
    policy: LinearGaussian,
    kind: ModelClass,
    weights: str,
) -> Float[Array, "seeds"]:
    """Of the all-action gradient in the fitted model to that in the true game, log by log."""
    pairs = AllActions(states=400, actions=8)
    values = Imagined(rollouts=1, horizon=HORIZON, antithetic=False, sharing="rows", block=3200)
    task = env.task()

    def gradient(key: Array, log: Trajectories, model: Model) -> Array:
        key_pairs, key_values = jax.random.split(key)
        unit = importance.Ratios.of(jnp.zeros_like(log.rewards), log.mask, task.discount)
        at, ratios = pairs(key_pairs, policy, model, task, log, unit)
        found = values(key_values, policy, model, task, at, ratios)
        baseline = OthersOfState()(policy, at, ratios, found)
        climbed = gradients.off_policy(policy, at, found.weighted_q_values - baseline)
        return ravel_pytree(climbed)[0]

    def one(log: Trajectories, key: Array) -> Array:
        # Apart from the keys that made the log, which are the first of the same split.
        key_make, key_fit, key_gradient = jax.random.split(jax.random.fold_in(key, 1_000), 3)
        omega = weights_of(weights, policy, log, task.discount)
        fit = kind.fit if kind.trial is None else kind.trial
        model, _ = fit(key_fit, kind.make(key_make, log), log, omega)
        ours, true = gradient(key_gradient, log, model), gradient(key_gradient, log, env)
        return jnp.vdot(ours, true) / (jnp.linalg.norm(ours) * jnp.linalg.norm(true))

    each: Array = jax.lax.map(lambda both: one(*both), (logs, keys))
    return each


def awareness(
    *,
    seeds: int = 20,
    sizes: tuple[int, ...] = (50, 500),
    out: Path = Path("runs/awareness"),
    quick: bool = False,
    overwrite: bool = False,
) -> None:
    """When do gradient-aware weights pay? Cosine of the gradient in a fitted model to the true one.

    Minigolf, where the true game gives the gradient at the same states, actions and noise. The
    model is the paper's linear one, quadratic, or a network; the policy is the behaviour's, half
    way to the best, or as close to the best as its features allow; the weights are maximum
    likelihood, the ratio alone, the sum of score norms alone, ω, or its square root.

    Example: gamps reproduce awareness

    Args:
      seeds: independent logs, seeds 0, 1, …
      sizes: trajectories in a log.
      out: folder for awareness.json and awareness.png.
      quick: 3 seeds, 50 trajectories, no network.
      overwrite: replace an earlier result in the same folder.
    """
    chosen: tuple[str, ...] = CLASSES
    if quick:
        seeds, sizes, chosen = min(seeds, 3), sizes[:1], CLASSES[:2]
    out = report.folder(out, "awareness", overwrite=overwrite)
    env = Minigolf()
    rich = classes_of(env.model_features, rectified=True)
    linear = ModelClass(lambda *_: env.linear_model(), rich["quadratic"].fit)
    kinds = {"linear": linear, **rich}
    keys, goal = seed_keys(seeds), target(env)
    results: dict[str, Any] = {}
    total = len(sizes) * len(chosen) * len(DISTANCES) * len(WEIGHTS)
    with report.bar("awareness", total) as advance:
        for n in sizes:
            logs = logs_of(env, keys, std=1.0, n=n)
            for name in chosen:
                for distance in DISTANCES:
                    policy = policy_at(env, distance, goal)
                    row = results.setdefault(str(n), {}).setdefault(name, {})
                    row[str(distance)] = {}
                    for weights in WEIGHTS:
                        found = cosines(env, logs, keys, policy, kinds[name], weights)
                        row[str(distance)][weights] = report.summary(np.asarray(found))
                        advance(f"{n} {name} {weights}")
    report.save(
        out,
        "awareness",
        settings=dict(seeds=seeds, sizes=sizes, distances=DISTANCES, window=WINDOW),
        results=results,
        paper={"claim": "a gradient-aware model gives a better gradient than a likely one"},
        figure=_figure(results),
        table=_table(results, seeds),
    )


def _table(results: dict[str, Any], seeds: int) -> Any:
    table = report.rich_table(
        f"Minigolf: cosine to the true gradient, {seeds} logs (mean ± 95 %)",
        ["trajectories", "model", "distance", *WEIGHTS],
        caption="distance: 0 the behaviour policy, 1 the best that the features allow.",
    )
    for n, by_class in results.items():
        for name, by_distance in by_class.items():
            for distance, row in by_distance.items():
                table.add_row(n, name, distance, *(report.cell(row[w], 2) for w in WEIGHTS))
        table.add_section()
    return table


def _figure(results: dict[str, Any]) -> Any:
    columns = max(len(by_class) for by_class in results.values())
    figure, axes = report.panels(len(results), columns, width=3.2, height=2.6)
    for row, (n, by_class) in zip(axes, results.items(), strict=True):
        for axis, (name, by_distance) in zip(row, by_class.items(), strict=False):
            for weights in WEIGHTS:
                means = [by_distance[str(d)][weights]["mean"] for d in DISTANCES]
                axis.plot(DISTANCES, means, ".-", label=weights)
            axis.set_title(f"{name}, {n} trajectories", fontsize=8)
            axis.set_ylim(-0.2, 1.05)
            axis.set_xlabel("distance from the behaviour")
    axes[0, 0].set_ylabel("cosine to the true gradient")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(WEIGHTS), frameon=False)
    return figure
