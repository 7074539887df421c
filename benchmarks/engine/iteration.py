"""`benchmarks.engine iteration`: a whole iteration of the search against the engine run bare."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from benchmarks.engine import iteration_kernels as bare
from benchmarks.engine.kernels import ACTIONS, DISCOUNT, OBSERVATIONS, reward
from benchmarks.engine.timing import AsJson, best_times, by_torch
from gamps import search
from gamps._utils import console
from gamps.errors import SettingError
from gamps.learner import model_classes
from gamps.policies import LinearGaussianPolicy, log_probs
from gamps.search import recipes
from gamps.search.values import Imagined
from gamps.tasks import Task
from gamps.trajectories import Trajectories, flat

BLOCK = Imagined().block


class Problem(NamedTuple):
    """The same iteration in the library's words and in plain arrays."""

    search: search.Search
    state: search.State
    log: bare.Log
    carried: bare.Carried


def _log(behaviour: LinearGaussianPolicy, n: int, steps: int) -> Trajectories:
    """A stable system of the swimmer's size, made up, logged under the behaviour policy."""
    key_mixing, key_start, key_noise = jax.random.split(jax.random.key(0), 3)
    mixing = jax.random.normal(key_mixing, (OBSERVATIONS, OBSERVATIONS + ACTIONS))
    start = 0.3 * jax.random.normal(key_start, (n, OBSERVATIONS))
    noise = jax.random.normal(key_noise, (steps, n, OBSERVATIONS + ACTIONS))

    def step(states: Array, drawn: Array) -> tuple[Array, tuple[Array, Array]]:
        actions = jax.vmap(behaviour.act)(states, drawn[:, OBSERVATIONS:])
        push = jnp.tanh(jnp.concatenate([states, actions], axis=1) @ mixing.T)
        following = 0.9 * states + 0.1 * push + 0.1 * drawn[:, :OBSERVATIONS]
        return following, (following, actions)

    _, (following, actions) = jax.lax.scan(step, start, noise)
    log = Trajectories(
        observations=jnp.swapaxes(jnp.concatenate([start[None], following]), 0, 1),
        actions=jnp.swapaxes(actions, 0, 1),
        rewards=jnp.zeros((n, steps)),
        behaviour_log_prob=jnp.zeros((n, steps)),
        mask=jnp.ones((n, steps), dtype=bool),
        terminated=jnp.zeros(n, dtype=bool),
    )
    return eqx.tree_at(lambda x: x.behaviour_log_prob, log, log_probs(behaviour, log))


def problem(n: int, steps: int, *, rollouts: int, horizon: int) -> Problem:
    """A policy some steps away from the logged one, and the model as `gamps train` makes it."""
    key_policy, key_change = jax.random.split(jax.random.key(1))
    weights = 0.1 * jax.random.normal(key_policy, (OBSERVATIONS + 1, ACTIONS))
    log_std = jnp.log(jnp.full(ACTIONS, 0.5))
    log = _log(LinearGaussianPolicy(weights, log_std=log_std), n, steps)
    weights = weights + 0.02 * jax.random.normal(key_change, weights.shape)
    kind = model_classes()["quadratic"]
    paper = recipes.gamps_paper(
        log,
        Task(reward, DISCOUNT),
        learning_rate=bare.LEARNING_RATE,
        fit=kind.fit,
        values=Imagined(rollouts=rollouts, horizon=horizon, block=BLOCK),
    )
    model: Any = kind.make(jax.random.key(2), log)
    state = paper.init(LinearGaussianPolicy(weights, log_std=log_std), model)
    policy = bare.Policy(weights, log_std)
    still = jax.tree.map(jnp.zeros_like, policy)
    return Problem(
        paper,
        state,
        bare.Log(
            flat(log.states), flat(log.actions), flat(log.next_states), log.behaviour_log_prob
        ),
        bare.Carried(
            policy,
            bare.Model(model.mean_weights, model.std_weights, model.least_std),
            (still, still),
            jnp.asarray(0),
        ),
    )


def gradient_of(state: search.State) -> bare.Policy:
    """The first gradient, which Adam's first moment is a tenth of."""
    first = state.optimiser.mu
    share = 1 - bare.DECAYS[0]
    return bare.Policy(first.weights / share, first.log_std / share)


def apart(gradient: Sequence[Any], other: Sequence[Any]) -> float:
    """Largest difference of two groups of arrays, relative to the largest entry of the second."""
    pairs = [(np.asarray(g), np.asarray(o)) for g, o in zip(gradient, other, strict=True)]
    largest = max(float(np.abs(o).max()) for _, o in pairs)
    return max(float(np.abs(g - o).max()) for g, o in pairs) / largest


def in_torch(given: Problem, noise: bare.Noise, python: Path, rollouts: int, repeats: int) -> Any:
    """Seconds of PyTorch's arrangements and its gradient, found by another interpreter."""
    arrays = given.log._asdict() | given.carried.policy._asdict()
    for prefix, values in (("model", given.carried.model), ("noise", noise)):
        arrays |= {f"{prefix}_{name}": array for name, array in values._asdict().items()}
    return by_torch("torch_iteration.py", python, arrays, rollouts, repeats)


def iteration(
    *,
    trajectories: int = 100,
    steps: int = 200,
    rollouts: int = 20,
    horizon: int = 25,
    repeats: int = 8,
    torch_python: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """A whole iteration of GAMPS: milliseconds, and the ratio to the bare engine.

    One problem of the swimmer's size (8 observations, 2 actions, an affine policy, a model of 66
    quadratic features fitted in four passes). In one process and in turns: what `search.run` runs
    for one iteration of `gamps_paper`, and a bare jitted kernel that does only the arithmetic.
    After them PyTorch, eager, in an interpreter of its own, in the fastest of its arrangements;
    its ratio is worth less where the load changes. How far their gradients are apart is shown,
    for the same noise.

    Example: python -m benchmarks.engine iteration --torch-python ~/torch/bin/python --json

    Args:
      trajectories: logged trajectories.
      steps: of each.
      rollouts: imagined trajectories from every logged pair.
      horizon: imagined steps.
      repeats: the best of so many is shown.
      torch_python: interpreter that has PyTorch; by default this one, if it has.
      as_json: print JSON instead of a table.
    """
    if rollouts % 2 or BLOCK % rollouts:
        raise SettingError("rollouts", f"{rollouts}", f"Choose an even divisor of {BLOCK}, say 20")
    if trajectories * steps % (starts := BLOCK // rollouts):
        fix = f"trajectories × steps must be a multiple of {starts}"
        raise SettingError("steps", f"{trajectories} × {steps}", fix)
    size = dict(rollouts=rollouts, horizon=horizon)
    given = problem(trajectories, steps, **size)
    key = jax.random.key(3)
    functions: dict[str, Callable[[], Any]] = {
        "library": lambda: search.run(given.search, key, given.state, iterations=1),
        "bare": lambda: bare.step(key, given.log, given.carried, **size, block=BLOCK),
    }
    if torch_python is None and importlib.util.find_spec("torch"):
        torch_python = Path(sys.executable)
    with console.bar("bench", repeats * len(functions) + bool(torch_python)) as advance:
        times = best_times(functions, repeats, advance)
        gradient = functions["bare"]()[-1]
        found = {"library": gradient_of(functions["library"]()[0]), "bare": gradient}
        if torch_python is not None:
            noise = bare.draw(key, 0, **size, block=BLOCK)
            answer = in_torch(given, noise, torch_python, rollouts, repeats)
            fastest = min(answer["seconds"], key=answer["seconds"].__getitem__)
            times[f"torch, {fastest}"] = answer["seconds"][fastest]
            found[f"torch, {fastest}"] = bare.Policy(*map(jnp.asarray, answer["gradient"]))
            advance("torch")
    results = {
        name: {
            "milliseconds": 1e3 * seconds,
            "ratio_to_bare": seconds / times["bare"],
            "gradient_apart": apart(found[name], gradient),
        }
        for name, seconds in times.items()
    }
    if as_json:
        settings = dict(trajectories=trajectories, steps=steps, **size, repeats=repeats)
        print(json.dumps({"settings": settings | {"block": BLOCK}, "results": results}, indent=1))
        return
    table = console.rich_table(
        f"One iteration of gamps_paper: {trajectories} trajectories × {steps} steps, {rollouts} "
        f"rollouts × {horizon} steps, {bare.FEATURES} features",
        ["iteration", "ms", "ratio to bare", "gradient apart"],
        caption=f"The best of {repeats} runs, library and bare in turns. PyTorch: "
        + ("as many after them." if torch_python else "pass --torch-python PATH of one with it."),
    )
    for name, row in results.items():
        table.add_row(
            name,
            f"{row['milliseconds']:.1f}",
            f"{row['ratio_to_bare']:.2f}",
            f"{row['gradient_apart']:.0e}",
        )
    console.say(table)
