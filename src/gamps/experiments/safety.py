"""Is *deploy* said of what is worse? A thousand trained policies, half of them trained to lose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import Array, Key

from gamps import evaluation, recipes, report, search
from gamps.envs import collect
from gamps.evaluation.verdict import DEPLOY, NOT_SHOWN, WORSE
from gamps.experiments.cells import fresh_folder, run_cells
from gamps.experiments.judging import PROBLEMS, Problem
from gamps.policies import Policy
from gamps.tasks import Task
from gamps.trajectories import Trajectories
from gamps.values import Exact, Imagined

WORDS = (DEPLOY, NOT_SHOWN, WORSE)
HELD_OUT = 0.2
# Iterations, and the share of the learning rate: better or worse by a hair, or by a long way.
STRIDES = {"hair": (1, 0.1), "step": (1, 1.0), "way": (9, 1.0)}
LEAST_ESS = 0.1  # share of the episodes at which a policy rests: beyond, nothing could be shown
RATES = {"gridworld": 0.2, "minigolf": 0.08}
ADAM = optax.scale_by_adam()


def safety(
    *,
    policies: int = 28,
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
    breadth, one step or nine, up or, sabotaged, down; the verdict is by the other part. On the
    gridworld the truth is exact, on minigolf it is the mean of fresh games. What counts is how
    often deploy is said of a policy that is truly worse than the logging one, and how often of one
    that is better.

    Example: gamps reproduce safety --quick

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
    with report.bar("safety", len(cells)) as advance:
        found = run_cells(cell, cells, out / "cells", workers=workers, advance=advance)
    results = {"rows": _rows(cells, found), "cells": found}
    table = report.rich_table(
        f"Verdicts at {confidence:.0%} on {policies * len(cells)} trained policies",
        ["problem, episodes", "worse", "deploy said", "better", "deploy said", "worse said"],
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
    report.save(
        out, "safety", settings=settings, results=results, paper=paper, figure=figure, table=table
    )


def cell(arguments: dict[str, Any]) -> dict[str, Any]:
    """Train, judge, and look at the truth."""
    problem = PROBLEMS[arguments["problem"]]()
    count, n = arguments["policies"], arguments["episodes"]
    # Another log for every policy, and the same for both directions.
    start = jax.random.fold_in(jax.random.key(7), n * 10 + list(STRIDES).index(arguments["stride"]))
    keys = jax.random.split(start, count)
    logs = _logs(problem, keys, n)
    held = int(n * HELD_OUT)
    learned = jax.tree.map(lambda x: x[:, held:], logs)
    judged = jax.tree.map(lambda x: x[:, :held], logs)
    trained = _trained(problem, keys, learned, arguments)
    base, _ = problem.value(problem.behaviour)
    found: dict[str, list[Any]] = {"gain": [], "word": [], "low": [], "estimate": [], "ess": []}
    for i in range(count):
        policy, mine, other = (
            jax.tree.map(lambda x, i=i: x[i] if eqx.is_array(x) else x, tree)
            for tree in (trained, learned, judged)
        )
        q = evaluation.fitted_q(keys[i], policy, mine, problem.discount)
        values = q.at(keys[i], other)
        seen = evaluation.evidence(
            policy, other, problem.discount, q_values=values[0], state_values=values[1]
        )
        verdict = evaluation.judge(policy, other, seen, confidence=arguments["confidence"])
        found["gain"].append(problem.value(policy)[0] - base)
        found["word"].append(verdict.word)
        found["low"].append(verdict.improvement.low)
        found["estimate"].append(verdict.improvement.estimate)
        found["ess"].append(verdict.support.ess)
    return found


def _logs(problem: Problem, keys: Key[Array, "n"], n: int) -> Trajectories:
    @eqx.filter_jit
    def make(policy: Policy, keys: Array) -> Trajectories:
        return jax.vmap(
            lambda key: collect(problem.env, policy, key, n=n, steps=problem.steps)
        )(keys)  # fmt: skip

    logs: Trajectories = make(problem.behaviour, keys)
    return logs


def _trained(problem: Problem, keys: Any, logs: Trajectories, arguments: dict[str, Any]) -> Policy:
    """A policy for every log, after some steps up or down."""
    env, sign = problem.env, -1.0 if arguments["down"] else 1.0
    known = env.task()
    task = Task(lambda *seen: sign * known.reward(*seen), known.discount, known.terminal)
    iterations, share = STRIDES[arguments["stride"]]
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
            least_ess=LEAST_ESS * log.n_trajectories,
        )
        return built, built.init(problem.behaviour, model)

    built, state = eqx.filter_vmap(prepare)(logs)
    state, _, _ = search.run(built, keys, state, iterations=iterations)
    policy: Policy = state.policy
    return policy


def _rows(cells: dict[str, Any], found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By problem and size, and all together."""
    groups: dict[str, list[str]] = {}
    for name, given in cells.items():
        for group in (f"{given['problem']}, {given['episodes']}", "all"):
            groups.setdefault(group, []).append(name)
    groups["all"] = groups.pop("all")
    rows = {}
    for group, names in groups.items():
        gain, word = (np.concatenate([found[n][k] for n in names]) for k in ("gain", "word"))
        worse, deploy = gain < 0, word == DEPLOY
        rows[group] = {
            "worse": int(worse.sum()),
            "wrong": int((worse & deploy).sum()),
            "better": int((~worse).sum()),
            "power": float(deploy[~worse].mean()) if (~worse).any() else 0.0,
            "slandered": int((~worse & (word == WORSE)).sum()),
        }
    return rows


def _figure(cells: dict[str, Any], found: dict[str, Any]) -> Any:
    pairs = sorted({(c["problem"], c["episodes"]) for c in cells.values()})
    problems = sorted({problem for problem, _ in pairs})
    columns = max(sum(p == problem for p, _ in pairs) for problem in problems)
    figure, axes = report.panels(len(problems), columns, width=3.2, height=2.6)
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
