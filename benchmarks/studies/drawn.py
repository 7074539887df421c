"""An iteration that draws from the log: how near it comes to the whole, and at what cost.

The paper names as its first limitation that every iteration reuses every sample.
"""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from gamps import search
from gamps._utils import console, figures, summaries
from gamps.envs import Minigolf, collect
from gamps.envs.minigolf import HORIZON
from gamps.paper.golf_setup import ADAM, keys_for, logs_of, outcomes, parameters
from gamps.paper.treatments import seed_keys
from gamps.search import Search, State, algorithm, recipes
from gamps.search.fitting import ClosedForm, Keep, SubsampledFit
from gamps.search.gradients import SubsampledPairs
from gamps.search.importance import Clip
from gamps.search.sampling import Some
from gamps.search.values import Imagined
from gamps.trajectories import Trajectories

SHARES = (0.002, 0.006, 0.03)  # of the transitions that get a Q
AMONG = 5  # times as many trajectories, from whose steps these are drawn
FIT = 2  # transitions fitted to for every one that gets a Q
AGAIN = 20  # draws a share


def drawn(
    *,
    transitions: int = 1_000_000,
    trajectories: int = 5_000,
    seeds: int = 20,
    iterations: int = 30,
    out: Path = Path("runs/drawn"),
    quick: bool = False,
    overwrite: bool = False,
) -> None:
    """Stochastic iterations: pairs drawn in proportion to γ^t ρ ‖score‖, against full passes.

    On a long log of minigolf, after some steps away from the logging policy: the time of a whole
    iteration, and the cosine between its gradient and that of a full pass, at several shares; the
    model is the same, the noise of rollouts is not. Then a hundred times the paper's log: the
    return after as many iterations, whole and with one in a hundred and twenty-five transitions.

    Args:
      transitions: of the long log, about.
      trajectories: of the second one.
      seeds: independent runs, seeds 0, 1, ….
      iterations: policy steps.
      out: folder for drawn.json and drawn.png.
      quick: a twentieth of both, 5 seeds, 5 iterations.
      overwrite: replace an earlier result in the same folder.
    """
    if quick:
        transitions, trajectories, seeds, iterations = transitions // 20, 250, 5, 5
    out = console.folder(out, "drawn", overwrite=overwrite)
    game = Minigolf()
    with console.bar("drawn", len(SHARES) * AGAIN + 2 * iterations + 1) as advance:
        near = cosines(game, transitions, advance)
        returns = {}
        for name, share in (("full passes", 1.0), ("drawn", SHARES[1])):
            tick = console.ticking(advance, name)
            returns[name] = finals(game, trajectories, seeds, iterations, share, tick)
    gap = returns["drawn"] - returns["full passes"]
    error = float(gap.std(ddof=1)) / math.sqrt(seeds)
    results: dict[str, Any] = {
        "near": near,
        "returns": {name: summaries.summary(values) for name, values in returns.items()},
        "paired": {"mean": float(gap.mean()), "standard_error": error},
    }
    settings = dict(transitions=transitions, trajectories=trajectories, seeds=seeds,
                    iterations=iterations, fit=FIT)  # fmt: skip
    console.save(
        out, "drawn", settings=settings, results=results, paper={}, figure=_figure(near),
        table=_table(results, settings),
    )  # fmt: skip


def built(game: Minigolf, log: Trajectories, share: float) -> Search:
    """The recipe, on so much of the log."""
    parts: dict[str, Any] = {}
    if share < 1:
        n = log.n_trajectories
        steps = max(round(share * n * REAL), 1)
        some = Some(max(round(AMONG * share * n), 1))
        parts = {
            "pairs": SubsampledPairs(steps),
            "fit": SubsampledFit(ClosedForm(), FIT * steps),
            "sample": some,
        }
    values = Imagined(rollouts=10, horizon=20)
    return recipes.gamps(
        log, game.task(), values=values, learning_rate=0.08, optimiser=ADAM, ratio=Clip(10.0),
        **parts,
    )  # fmt: skip


REAL = 3.6  # steps of an episode of the logging policy, on average


def cosines(game: Minigolf, transitions: int, advance: Any) -> dict[str, Any]:
    """For each share: time of an iteration, and cosine of its gradient to that of a full pass."""
    n = round(transitions / REAL)
    log = eqx.filter_jit(collect)(game, game.policy(), jax.random.key(100), n=n, steps=HORIZON)
    whole = built(game, log, 1.0)
    start = whole.init(game.policy(), game.linear_model())
    state, info, _ = search.run(whole, jax.random.key(0), start, iterations=3)
    times = {"1": timed(whole, state)}
    kept = dataclasses.replace(whole, fit=Keep())
    # Twice, with other noise: what of the difference is not the draw's.
    full = [_gradient(kept, state, jax.random.key(k)) for k in (1, 2)]
    advance("full pass")
    found: dict[str, Any] = {
        "transitions": int(log.mask.sum()), "ess": float(info.ess[-1]), "seconds": times,
        "between_full_passes": _cosine(*full), "cosines": {}, "cost": {}, "noise": {},
    }  # fmt: skip
    for share in SHARES:
        name = f"{share:g}"
        some = built(game, log, share)
        times[name] = timed(some, state)
        found["cost"][name] = times[name] / times["1"]
        same = dataclasses.replace(some, fit=Keep())
        each = []
        for k in range(AGAIN):
            each.append(_gradient(same, state, jax.random.key(10 + k)))
            advance(f"share {name}")
        found["cosines"][name] = [_cosine(g, full[0]) for g in each]
        # The variance budget: noise of one drawn pair, in units of the gradient's length.
        spread = np.stack(each) - full[0]
        steps = cast(SubsampledPairs, some.pairs).steps
        noise = math.sqrt(float((spread**2).sum(axis=1).mean())) / float(np.linalg.norm(full[0]))
        found["noise"][name] = {"relative": noise, "of_one": noise * math.sqrt(steps),
                                "steps": steps}  # fmt: skip
    return found


def timed(built: Search, state: State, repeats: int = 3) -> float:
    """Seconds of a whole iteration, the shortest of some."""
    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        search.run(built, jax.random.key(5), state, iterations=1)
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])


def _gradient(built: Search, state: State, key: Array) -> np.ndarray:
    """The gradient at a state's policy, from the first moment of an Adam that has seen nothing."""
    fresh = built.init(state.policy, state.model)
    parameters = eqx.filter(state.policy, eqx.is_inexact_array)
    new, _, _ = search.run(
        dataclasses.replace(built, optimiser=algorithm.ADAM),
        key,
        fresh._replace(optimiser=algorithm.ADAM.init(parameters)),
        iterations=1,
    )
    return np.asarray(ravel_pytree(new.optimiser.mu)[0], float)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def finals(
    game: Minigolf, n: int, seeds: int, iterations: int, share: float, progress: Any
) -> np.ndarray:
    """Return of each seed's last policy, in the true game."""
    keys = seed_keys(seeds)
    logs = logs_of(game, keys, std=1.0, n=n)

    def prepare(log: Trajectories) -> tuple[Search, State]:
        made = built(game, log, share)
        return made, made.init(game.policy(), game.linear_model())

    made, state = eqx.filter_vmap(prepare)(logs)
    state, _, _ = search.run(
        made, keys_for("search", keys), state, iterations=iterations, progress=progress
    )
    weights, log_std = eqx.filter_vmap(parameters)(state)
    found = outcomes(game, weights, log_std, keys_for("evaluation", keys), 2_000)
    return np.asarray(found["return"])


def _table(results: dict[str, Any], settings: dict[str, Any]) -> Any:
    near, pair = results["near"], results["paired"]
    returns = ", ".join(f"{k} {summaries.spread(v)}" for k, v in results["returns"].items())
    table = console.rich_table(
        f"Minigolf, {near['transitions']:,} transitions, {near['ess']:.0f} effective episodes",
        ["share drawn", "cost of an iteration", "cosine", "least", "noise of one pair"],
        caption=f"Cosine of {AGAIN} gradients to that of a full pass; between two full passes "
        f"{near['between_full_passes']:.4f}. Noise in lengths of the gradient. Return after "
        f"{settings['iterations']} iterations on {settings['trajectories']:,} episodes, "
        f"{settings['seeds']} runs: {returns}; paired {pair['mean']:+.3f} ± "
        f"{pair['standard_error']:.3f} (standard error).",
    )
    for name, each in near["cosines"].items():
        table.add_row(
            f"{100 * float(name):g} %", f"{100 * near['cost'][name]:.2f} %", f"{np.mean(each):.4f}",
            f"{min(each):.4f}", f"{near['noise'][name]['of_one']:.1f}",
        )  # fmt: skip
    return table


def _figure(near: dict[str, Any]) -> Any:
    figure, axes = figures.panels(1, 1, width=4.5, height=3.2)
    for name, each in near["cosines"].items():
        cost = 100 * near["cost"][name]
        axes[0, 0].plot([cost] * len(each), each, "o", color="#c1121f", alpha=0.4)
    costs = [100 * cost for cost in near["cost"].values()]
    axes[0, 0].axhline(0.95, color="black", linewidth=0.8, linestyle=":")
    axes[0, 0].set(
        xscale="log", xlabel="cost of an iteration, % of a full pass",
        ylabel="cosine to the full gradient",
    )  # fmt: skip
    axes[0, 0].set_xticks(costs, [f"{cost:.2g}" for cost in costs])
    axes[0, 0].xaxis.minorticks_off()
    return figure
