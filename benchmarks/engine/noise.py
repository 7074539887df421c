"""`benchmarks.engine noise`: what shared noise does to the gradient's variance and time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from benchmarks.engine import kernels
from benchmarks.engine.timing import AsJson, best_times
from gamps._utils import console
from gamps.envs import Minigolf, collect
from gamps.envs.minigolf import HORIZON
from gamps.search import gradients
from gamps.search.fitting import ClosedForm
from gamps.search.importance import Ratios, log_rho
from gamps.search.values import Imagined, PerTime, StateValue
from gamps.search.weights import GradientAware

ARRANGEMENTS: dict[str, dict[str, Any]] = {
    "independent": {"sharing": "none", "antithetic": False},
    "independent, antithetic": {"sharing": "none", "antithetic": True},
    "shared by blocks": {"sharing": "blocks", "antithetic": False},
    "shared by blocks, antithetic": {"sharing": "blocks", "antithetic": True},
    "common to all starts": {"sharing": "all", "antithetic": False},
    "common to all starts, antithetic": {"sharing": "all", "antithetic": True},
}
BASELINES = {"per time": PerTime(), "state value": StateValue()}


def minigolf_parts(n: int) -> tuple[kernels.Parts, Ratios]:
    """A log, a policy two steps of the size 0.08 away from it, and the gradient-aware model."""
    env = Minigolf()
    behaviour = env.policy()
    log = eqx.filter_jit(collect)(env, behaviour, jax.random.key(0), n=n, steps=HORIZON)
    policy = eqx.tree_at(lambda p: p.log_std, behaviour, behaviour.log_std - 0.16)
    ratios = Ratios.of(log_rho(policy, log), log.mask, env.task().discount)
    weights = GradientAware()(policy, log, ratios)
    model, _ = ClosedForm()(jax.random.key(1), env.linear_model(), log, weights)
    return kernels.Parts(policy, model, env.task(), log), ratios


def network_parts(n: int) -> tuple[kernels.Parts, Ratios]:
    """The problem of `benchmarks.engine rollouts`, on-policy."""
    given = kernels.parts(n, 50)
    shape = given.trajectories.mask.shape
    discounts = jnp.broadcast_to(kernels.DISCOUNT ** jnp.arange(50), shape)
    return given, Ratios(jnp.zeros(shape), discounts, jnp.zeros(()))


def noise(
    *, draws: int = 50, rollouts: int = 10, repeats: int = 3, as_json: AsJson = False
) -> None:
    """Noise in imagined rollouts: variance of the gradient, time, and their product.

    The log, the policy and the model are held fixed and only the imagination's noise is drawn
    anew, so the variance shown is the one that more rollouts would lower. Variance × time compares
    at equal time: half of it means the same accuracy in half the time.

    Example: python -m benchmarks.engine noise --draws 200

    Args:
      draws: gradients from which a variance is estimated; its relative error is about √(2/draws).
      rollouts: imagined trajectories from every logged pair; even.
      repeats: the best of so many times is taken.
      as_json: print JSON instead of tables.
    """
    problems = {"minigolf": minigolf_parts(2000), "network": network_parts(160)}
    cells = [(p, b, a) for p in problems for b in BASELINES for a in ARRANGEMENTS]
    measured = {}
    with console.bar("bench noise", len(cells)) as advance:
        for problem, baseline in itertools.product(problems, BASELINES):
            run = {
                name: gradient_of(
                    *problems[problem],
                    Imagined(rollouts=rollouts, **arrangement),
                    BASELINES[baseline],
                )
                for name, arrangement in ARRANGEMENTS.items()
            }
            for name, gradient in run.items():
                keys = jax.random.split(jax.random.key(2), draws)
                samples = np.stack([gradient(key) for key in keys])
                measured[problem, baseline, name] = [samples.var(axis=0, ddof=1).sum()]
                advance(f"{problem}, {name}")
            # In turns: times of different minutes cannot be compared.
            once = {name: partial(gradient, jax.random.key(2)) for name, gradient in run.items()}
            for name, seconds in best_times(once, repeats).items():
                measured[problem, baseline, name].append(seconds)
    results: dict[str, Any] = {p: {b: {} for b in BASELINES} for p in problems}
    for problem, baseline, name in cells:
        variance, seconds = np.divide(
            measured[problem, baseline, name], measured[problem, baseline, "independent"]
        )
        results[problem][baseline][name] = {
            "variance": float(variance),
            "time": float(seconds),
            "variance_times_time": float(variance * seconds),
        }
    settings = dict(draws=draws, rollouts=rollouts, repeats=repeats)
    if as_json:
        print(json.dumps({"settings": settings, "results": results}, indent=1))
        return
    for problem, by_baseline in results.items():
        steps = int(problems[problem][0].trajectories.mask.sum())
        table = console.rich_table(
            f"{problem}: {steps} logged steps, {rollouts} rollouts; relative to independent noise",
            ["noise", "baseline", "variance", "time", "variance × time"],
        )
        for baseline, by_name in by_baseline.items():
            for name, row in by_name.items():
                table.add_row(name, baseline, *(f"{x:.2f}" for x in row.values()))
            table.add_section()
        console.say(table)


def gradient_of(
    given: kernels.Parts, ratios: Ratios, estimator: Imagined, baseline: Any
) -> Callable[[Array], Array]:
    """The policy gradient as a function of the imagination's key."""
    log = given.trajectories

    @eqx.filter_jit
    def gradient(key: Array, given: kernels.Parts) -> Array:
        values = estimator(key, *given, ratios=ratios)
        advantages = values.weighted_q_values - baseline(given.policy, log, ratios, values)
        return ravel_pytree(gradients.off_policy(given.policy, log, advantages))[0]

    return lambda key: gradient(key, given)
