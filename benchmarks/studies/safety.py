"""Is *deploy* said of what is worse? A thousand trained policies, half of them trained to lose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax

from benchmarks.studies.judging import PROBLEMS, Problem
from gamps import evaluation, search
from gamps._utils import console, figures
from gamps.evaluation.verdict import DEPLOY, NOT_SHOWN, ROBUST, WORSE
from gamps.paper.cells import fresh_folder, run_cells
from gamps.policies import Policy
from gamps.search import recipes
from gamps.search.values import Exact, Imagined
from gamps.tasks import Task
from gamps.trajectories import Trajectories

WORDS = (DEPLOY, NOT_SHOWN, WORSE)
HELD_OUT = 0.2
# Iterations, share of the learning rate, and the share of the episodes that must be effective for a
# search to go on: better or worse by a hair, or by so much that nothing can be shown any more.
STRIDES = {
    "hair": (1, 0.1, 0.0),
    "step": (1, 1.0, 0.0),
    "way": (9, 1.0, 0.1),
    "far": (25, 1.0, 0.0),
}
RATES = {"gridworld": 0.2, "minigolf": 0.08}
ADAM = optax.scale_by_adam()


def safety(
    *,
    policies: int = 21,
    sizes: tuple[int, ...] = (250, 1_000, 4_000),
    out: Path = Path("runs/safety"),
    quick: bool = False,
    problems: tuple[str, ...] = ("gridworld", "minigolf"),
    confidence: float = 0.95,
    workers: int = 2,
    overwrite: bool = False,
) -> None:
    """Verdicts on trained policies whose true worth is known, half of them sabotaged.

    Each log is split; a policy is trained on one part by gradient-aware search, for a hair's
    breadth, one step, nine within a trust region, or 25 without, up or, sabotaged, down; the
    verdict is by the other part. On the gridworld the truth is exact, on minigolf it is the mean of
    fresh games, and what is within two standard errors of none is left out. What counts is how
    often deploy is said of a policy that is truly worse than the logging one, and how often of one
    that is better.

    Example: python -m benchmarks.studies safety --quick

    Args:
      policies: of each problem, size, stride and direction.
      sizes: episodes of a log, of which a fifth is held out for the verdict.
      out: folder for safety.json and safety.png.
      quick: 4 of each, the smallest size only.
      problems: gridworld, minigolf.
      confidence: of the verdict's bound.
      workers: processes.
      overwrite: replace an earlier result in the same folder.
    """
    policies, sizes = (min(policies, 4), sizes[:1]) if quick else (policies, sizes)
    out = fresh_folder(out, "safety", overwrite=overwrite)
    cells = {
        f"{problem}-{size}-{stride}-{'down' if down else 'up'}": dict(
            problem=problem, episodes=size, stride=stride, down=down, policies=policies,
            confidence=confidence,
        )
        for problem in problems for size in sizes for stride in STRIDES for down in (False, True)
    }  # fmt: skip
    with console.bar("safety", len(cells)) as advance:
        found = run_cells(cell, cells, out / "cells", workers=workers, advance=advance)
    results = {"rows": _rows(cells, found), "cells": found}
    table = console.rich_table(
        f"Verdicts at {confidence:.0%} on {policies * len(cells)} trained policies",
        ["", "worse", "deploy said", "better", "deploy said", "worse said"],
        caption="Worse and better in truth, each with what was said of them.",
    )
    for name, row in results["rows"].items():
        table.add_row(
            name, str(row["worse"]), f"{row['wrong']} ({row['wrong'] / max(row['worse'], 1):.1%})",
            str(row["better"]), f"{row['power']:.0%}", str(row["slandered"]),
        )  # fmt: skip
    settings = dict(policies=policies, sizes=sizes, confidence=confidence)
    paper = {"claim": "none: the paper does not evaluate off-policy"}
    figure = _figure(cells, found)
    console.save(
        out, "safety", settings=settings, results=results, paper=paper, figure=figure, table=table
    )


def cell(arguments: dict[str, Any]) -> dict[str, Any]:
    """Train, judge, and look at the truth."""
    problem = PROBLEMS[arguments["problem"]]()
    count, n = arguments["policies"], arguments["episodes"]
    # Another log for every policy, and the same for both directions.
    start = jax.random.fold_in(jax.random.key(7), n * 10 + list(STRIDES).index(arguments["stride"]))
    keys = jax.random.split(start, (4, count))
    logs = jax.vmap(lambda key: problem.log(problem.behaviour, key, n))(keys[0])
    held = int(n * HELD_OUT)
    learned = jax.tree.map(lambda x: x[:, held:], logs)
    judged = jax.tree.map(lambda x: x[:, :held], logs)
    trained = _trained(problem, keys[1], learned, arguments)
    found: dict[str, list[Any]] = {
        k: [] for k in ("gain", "error", "word", "low", "estimate", "ess")
    }
    for i in range(count):
        policy, mine, other = (
            jax.tree.map(lambda x, i=i: x[i] if eqx.is_array(x) else x, tree)
            for tree in (trained, learned, judged)
        )
        q = evaluation.fitted_q(keys[2, i], policy, mine, problem.discount)
        values = q.at(keys[3, i], other)
        seen = evaluation.evidence(
            policy, other, problem.discount, q_values=values[0], state_values=values[1]
        )
        verdict = evaluation.judge(
            [evaluation.Case(seen, ROBUST)], confidence=arguments["confidence"]
        ).verdict
        gain, error = problem.gain(policy)
        bound, ess = verdict.improvement, verdict.support.ess
        numbers = (gain, error, verdict.word, bound.low, bound.estimate, ess)
        for name, value in zip(found, numbers, strict=True):
            found[name].append(value)
    return found


def _trained(problem: Problem, keys: Any, logs: Trajectories, arguments: dict[str, Any]) -> Policy:
    """A policy for every log, after some steps up or down."""
    env, sign = problem.env, -1.0 if arguments["down"] else 1.0
    known = env.task()
    task = Task(lambda *seen: sign * known.reward(*seen), known.discount, known.terminal)
    iterations, share, least = STRIDES[arguments["stride"]]
    grid = arguments["problem"] == "gridworld"
    values = Exact() if grid else Imagined(rollouts=10, horizon=20, antithetic=False)
    model = env.effect_model() if grid else env.linear_model()

    def prepare(log: Trajectories) -> Any:
        built = recipes.gamps(
            log,
            task,
            values=values,
            learning_rate=share * RATES[arguments["problem"]],
            optimiser=ADAM,
            least_ess=least * log.n_trajectories,
        )
        return built, built.init(problem.behaviour, model)

    built, state = eqx.filter_vmap(prepare)(logs)
    state, _, _ = search.run(built, keys, state, iterations=iterations)
    policy: Policy = state.policy
    return policy


def _rows(cells: dict[str, Any], found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By problem and size, by stride, and all; ties are within two standard errors of zero."""
    groups: dict[str, list[str]] = {}
    for part in ("problem", "stride", "all"):
        for name, given in cells.items():
            group = f"{given['problem']}, {given['episodes']}" if part == "problem" else part
            groups.setdefault(given["stride"] if part == "stride" else group, []).append(name)
    rows = {}
    for group, names in groups.items():
        gain, error, word = (
            np.concatenate([found[n][k] for n in names]) for k in ("gain", "error", "word")
        )
        worse, better = gain < -2 * error, gain > 2 * error
        rows[group] = {
            "worse": int(worse.sum()),
            "wrong": int((worse & (word == DEPLOY)).sum()),
            "better": int(better.sum()),
            "power": float((word == DEPLOY)[better].mean()) if better.any() else 0.0,
            "slandered": int((better & (word == WORSE)).sum()),
            "tied": int((~worse & ~better).sum()),
        }
    return rows


def _figure(cells: dict[str, Any], found: dict[str, Any]) -> Any:
    pairs = sorted({(c["problem"], c["episodes"]) for c in cells.values()})
    problems = sorted({problem for problem, _ in pairs})
    columns = max(sum(p == problem for p, _ in pairs) for problem in problems)
    figure, axes = figures.panels(len(problems), columns, width=3.2, height=2.6)
    colours = dict(zip(WORDS, ("#2a9d5c", "#b8bec5", "#c1121f"), strict=True))
    for row, problem in enumerate(problems):
        sizes = [size for p, size in pairs if p == problem]
        for axis, size in zip(axes[row], sizes, strict=False):
            for name, given in cells.items():
                if (given["problem"], given["episodes"]) != (problem, size):
                    continue
                cell = found[name]
                shades = [colours[word] for word in cell["word"]]
                axis.scatter(cell["gain"], cell["low"], s=9, c=shades, linewidth=0)
            axis.axhline(0, color="black", linewidth=0.6)
            axis.axvline(0, color="black", linewidth=0.6)
            axis.set_title(f"{problem}, {size} episodes", fontsize=9)
            axis.set_xlabel("true improvement")
        axes[row, 0].set_ylabel("its lower bound")
    for word, colour in colours.items():
        axes[0, 0].scatter([], [], color=colour, label=word)
    axes[0, 0].legend(frameon=False, fontsize=7, loc="lower right")
    return figure
