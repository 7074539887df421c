"""Is *deploy* said of what is no better? Policies at the edge, sabotaged ladders, rare failures."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import beta

from benchmarks.studies.judging import Problem, gridworld
from gamps import evaluation
from gamps._utils import console, figures
from gamps.envs import TwoTanks, collect, tanks
from gamps.evaluation import DEPLOY, Case, Evidence
from gamps.evaluation.verdict import ROBUST
from gamps.paper.cells import fresh_folder, run_cells
from gamps.policies import Boltzmann, LinearGaussianPolicy, Policy
from gamps.tasks import Task
from gamps.trajectories import Episode, Trajectories, from_episodes

EDGE = ("equal", "a hair worse")
MARKOV = ", markov"  # judged by ratios of states
NULLS = (
    *EDGE, "far worse", "sabotaged ladder", "hidden state",
    *(f"{name}{MARKOV}" for name in ("equal", "sabotaged ladder", "hidden state", "hidden ladder")),
)  # fmt: skip
SIZES = (50, 200)
FAILURES = (25, 50, 100, 200, 400)
HAIR = 0.002  # of the logging policy's value
LOSS, RARE, GAIN = 20.0, 0.01, 0.07  # of a failure, of its chance, and of the action that risks it


def false_deploys(
    *,
    trials: int = 400,
    out: Path = Path("runs/false-deploys"),
    confidence: float = 0.95,
    quick: bool = False,
    workers: int = 2,
    overwrite: bool = False,
) -> None:
    """How often deploy is said of policies that are truly no better than the logging one.

    On a gridworld whose values are exact: another policy of the same value, one that is worse by a
    hair, one that is worse by far, the ladder towards a sabotaged one. On a walk whose observations
    hide half of the state: a policy that is worse. Some of them again with --assume markov, and
    with it the ladder towards a worse pump where one of two tanks is hidden. And decisions of one
    step where a policy earns a little more and, rarely, loses much: with declared bounds of the
    return, and without.

    Example: python -m benchmarks.studies false-deploys --quick

    Args:
      trials: of each cell.
      out: folder for false_deploys.json and false_deploys.png; finished cells are kept in it.
      confidence: of the verdicts.
      quick: 40 trials, the smallest sizes only.
      workers: processes.
      overwrite: replace an earlier result in the same folder.
    """
    trials, sizes, failures = (40, SIZES[:1], FAILURES[:1]) if quick else (trials, SIZES, FAILURES)
    out = fresh_folder(out, "false_deploys", overwrite=overwrite)
    cells = {
        f"{null}, {n}".replace(" ", "-"): dict(
            null=null, episodes=n, trials=trials, confidence=confidence
        )
        for null in NULLS
        for n in sizes
    }
    for declared in ("declared", "undeclared"):
        for n in failures:
            cells[f"rare-failure-{declared}-{n}"] = dict(
                null=f"rare failure, {declared}", episodes=n, trials=trials, confidence=confidence
            )
    with console.bar("false-deploys", len(cells)) as advance:
        found = run_cells(cell, cells, out / "cells", workers=workers, advance=advance)
    table = console.rich_table(
        f"Deploys of policies that are no better, at {confidence:.0%}",
        ["", "episodes", "true gain", "deploy said", "99 % limits", "not excluded"],
        caption="Not excluded: the loss in 3 of as many episodes that the verdicts named, median.",
    )
    rows = {}
    for name, c in cells.items():
        known = {"null": c["null"], "episodes": c["episodes"]}
        certain = {"limits": limits(found[name]["deploys"], trials, 0.99)}
        row = rows[name] = known | found[name] | certain
        unseen = "" if row["unseen"] is None else f"{row['unseen']:.3g}"
        table.add_row(
            c["null"], str(c["episodes"]), f"{row['gain']:.3g}",
            f"{row['deploys']} ({row['deploys'] / trials:.1%})",
            f"{row['limits'][0]:.1%} to {row['limits'][1]:.1%}", unseen,
        )  # fmt: skip
    settings = dict(trials=trials, confidence=confidence)
    paper = {"claim": "none: the paper does not evaluate off-policy"}
    figure = _figure(rows, trials)
    console.save(
        out, "false_deploys", settings=settings, results=rows, paper=paper, figure=figure,
        table=table,
    )  # fmt: skip


def limits(hits: int, trials: int, confidence: float) -> list[float]:
    """Of a probability (Clopper and Pearson)."""
    off = (1 - confidence) / 2
    low = beta.ppf(off, hits, trials - hits + 1) if hits else 0.0
    high = beta.ppf(1 - off, hits + 1, trials - hits) if hits < trials else 1.0
    return [float(low), float(high)]


def cell(arguments: dict[str, Any]) -> dict[str, Any]:
    """All trials of one null."""
    trial = trial_of(arguments["null"])
    gains, deploys, unseen = [], 0, []
    for seed in range(arguments["trials"]):
        gain, verdict = trial(seed, arguments["episodes"], arguments["confidence"])
        gains.append(gain)
        if verdict.word == DEPLOY and gain <= 0:
            deploys += 1
            unseen += [] if verdict.unseen_loss is None else [verdict.unseen_loss]
    shown = float(np.median(unseen)) if unseen else None
    return {"gain": float(np.mean(gains)), "deploys": deploys, "unseen": shown}


def trial_of(null: str) -> Callable[[int, int, float], tuple[float, evaluation.Verdict]]:
    """By seed, episodes and confidence: the true gain of a null, and what was said of it."""
    if null.startswith("rare failure"):
        bounds = (-LOSS, GAIN) if null.endswith(" declared") else None
        return lambda seed, n, confidence: _rare(seed, n, confidence, bounds)
    name = null.removesuffix(MARKOV)
    shared: dict[str, Any] = dict(assume="markov" if null.endswith(MARKOV) else "nothing")
    if name == "hidden state":
        return lambda seed, n, confidence: _hidden(seed, n, shared | {"confidence": confidence})
    if name == "hidden ladder":
        return lambda seed, n, confidence: _tanks(seed, n, shared | {"confidence": confidence})
    return lambda seed, n, confidence: _grid(name, seed, n, shared | {"confidence": confidence})


@cache
def _problem() -> Problem:
    return gridworld()


def _grid(
    null: str, seed: int, n: int, settings: dict[str, Any]
) -> tuple[float, evaluation.Verdict]:
    at, key = _problem(), jax.random.fold_in(jax.random.key(21), seed)
    key_policy, *keys = jax.random.split(key, 3)
    learned, held_out = (at.log(at.behaviour, k, n) for k in keys)
    if null in EDGE:
        aim = -HAIR * abs(at.value(at.behaviour)[0]) if null != "equal" else 0.0
        policies = [_of_gain(at, key_policy, aim)]
    elif null == "far worse":
        policies = [at.target(-0.6)]
    else:
        rungs = evaluation.rungs(
            at.behaviour, at.target(-0.6), learned, at.discount,
            behaviour=at.behaviour, assume=settings["assume"], seed=seed,
        )  # fmt: skip
        policies = [rung.policy for rung in rungs]
    found = evaluation.evaluate(
        policies, learned, held_out, at.env.task(),
        behaviour=at.behaviour, details=False, seed=seed, **settings,
    )  # fmt: skip
    return at.gain(policies[found.chosen])[0], found.verdict


def _of_gain(at: Problem, key: Any, aim: float) -> Policy:
    """A policy with random logits added, as much better in return that its gain is the aim."""
    behaviour: Any = at.behaviour
    turned = behaviour.weights + 0.3 * jax.random.normal(key, behaviour.weights.shape)
    step = at.target(1.0).weights - behaviour.weights  # type: ignore[attr-defined]

    def policy(far: float) -> Boltzmann:
        made: Boltzmann = eqx.tree_at(lambda p: p.weights, behaviour, turned + far * step)
        return made

    low, high = -1.0, 1.0  # the gain grows on the way
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if at.gain(policy(middle))[0] < aim else (low, middle)
    return policy(low)


def _hidden(seed: int, n: int, settings: dict[str, Any]) -> tuple[float, evaluation.Verdict]:
    """A walk in two numbers, one of which is seen; actions add to both, and the sum is to be small.

    The logging controller sees both, its densities are logged, and the policy to be judged sees one
    and pushes the wrong way.
    """
    steps, spread = 6, 0.5
    logs: list[Trajectories] = []
    generator = np.random.default_rng([5, seed])
    for _ in range(2):
        x = generator.normal(size=(n, 2))
        seen, acted, earned, density = [x[:, :1]], [], [], []
        for _ in range(steps):
            a = generator.normal(-0.4 * x.sum(axis=1), spread)
            z = (a + 0.4 * x.sum(axis=1)) / spread
            density.append(-(z**2) / 2 - np.log(spread * np.sqrt(2 * np.pi)))
            x = 0.8 * x + 0.3 * a[:, None] + generator.normal(size=(n, 2)) * 0.2
            seen.append(x[:, :1])
            acted.append(a[:, None])
            earned.append(-(x.sum(axis=1) ** 2))
        parts = (np.stack(values, axis=1) for values in (seen, acted, earned, density))
        logs.append(from_episodes([Episode(*row) for row in zip(*parts, strict=True)]))
    policy = LinearGaussianPolicy(jnp.asarray([[-0.1], [0.0]]), log_std=jnp.log(jnp.full(1, 0.6)))
    task = Task(lambda *step: -(step[2][0] ** 2), 1.0)
    found = evaluation.evaluate([policy], *logs, task, details=False, seed=seed, **settings)
    return _hidden_gain(), found.verdict


@cache
def _hidden_gain() -> float:
    """By 200,000 fresh episodes of both, the same noise."""
    returns = []
    for own in (False, True):
        generator = np.random.default_rng(6)
        x, total = generator.normal(size=(200_000, 2)), np.zeros(200_000)
        for _ in range(6):
            z = generator.normal(size=len(x))
            a = -0.1 * x[:, 0] + 0.6 * z if own else -0.4 * x.sum(axis=1) + 0.5 * z
            x = 0.8 * x + 0.3 * a[:, None] + generator.normal(size=x.shape) * 0.2
            total -= x.sum(axis=1) ** 2
        returns.append(total)
    return float((returns[1] - returns[0]).mean())


def _pump(offset: float, *, hidden: bool = True) -> LinearGaussianPolicy:
    """The tanks' controller with another offset; it looks at the second level, seen or alone."""
    gains = jnp.asarray(tanks.GAINS).at[-1].add(offset)[:, None]
    std = tanks.policy().log_std
    return LinearGaussianPolicy(gains[1:] if hidden else gains, log_std=std, learn_std=False)


def _tanks(seed: int, n: int, settings: dict[str, Any]) -> tuple[float, evaluation.Verdict]:
    """The ladder towards a pump that gives too little, where the first tank is hidden."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(22), seed))
    whole = [_tank_log(_pump(0.0, hidden=False), key, n) for key in keys]
    second = lambda log: log.observations[..., 1:]  # noqa: E731
    logs = [eqx.tree_at(lambda one: one.observations, log, second(log)) for log in whole]
    shared: dict[str, Any] = dict(behaviour=_pump(0.0), assume=settings["assume"], seed=seed)
    rungs = evaluation.rungs(_pump(0.0), _pump(-0.15), logs[0], tanks.DISCOUNT, **shared)
    task = Task(lambda *step: -(step[2][0] ** 2), tanks.DISCOUNT)
    found = evaluation.evaluate(rungs, *logs, task, details=False, **shared | settings)
    lower = -0.15 * rungs[found.chosen].share
    return _tank_value(lower) - _tank_value(0.0), found.verdict


@eqx.filter_jit
def _tank_log(policy: Policy, key: Any, n: int) -> Trajectories:
    return collect(TwoTanks(), policy, key, n=n, steps=30)


@cache
def _tank_value(offset: float) -> float:
    log = _tank_log(_pump(offset, hidden=False), jax.random.key(0), 20_000)
    return float(np.mean(np.asarray(log.rewards) @ tanks.DISCOUNT ** np.arange(30)))


def _rare(
    seed: int, n: int, confidence: float, bounds: tuple[float, float] | None
) -> tuple[float, evaluation.Verdict]:
    """Two actions, each logged half of the time; one earns a little more and rarely loses much."""
    generator = np.random.default_rng([7, seed])
    risky = generator.random(n) < 0.5
    lost = risky & (generator.random(n) < RARE)
    returns = (GAIN * risky - (LOSS + GAIN) * lost)[:, None]
    ones = np.ones((n, 1))
    rho = np.where(risky, 1.8, 0.2)[:, None]  # the policy takes the risk nine times of ten
    found = Evidence(rho, ones, returns, ones > 0, ones > 0, np.ones(1), 0 * ones, 0 * ones)
    gain = 0.4 * (GAIN - (LOSS + GAIN) * RARE)
    judged = evaluation.judge([Case(found, ROBUST)], bounds=bounds, confidence=confidence)
    return gain, judged.verdict


def _figure(rows: dict[str, Any], trials: int) -> Any:
    figure, axes = figures.panels(1, 1, width=7.0, height=0.3 * len(rows) + 1.2)
    axis = axes[0, 0]
    for y, row in enumerate(rows.values()):
        axis.plot(row["limits"], [y, y], color="#5b6875", linewidth=2.5)
        axis.plot(row["deploys"] / trials, y, "o", color=figures.COLOURS["gamps"])
    axis.axvline(0.05, color="black", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(rows)), [f"{r['null']}: {r['episodes']}" for r in rows.values()])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel("share of deploys, with 99 % limits; the null, and episodes")
    return figure
