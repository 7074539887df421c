"""Do intervals of off-policy evaluation hold what they promise? Less, as policies move away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.studies.judging import PROBLEMS, part
from gamps import evaluation
from gamps._utils import console, figures
from gamps.evaluation import bootstrap, guaranteed, student
from gamps.evaluation.support import FAIR, GOOD, POOR
from gamps.evaluation.verdict import ROBUST
from gamps.paper.cells import fresh_folder, run_cells

RESAMPLES = 1_000
SHARED = 20  # replications that share one fit of Q, each fit to a log of its own
NAMES = ("per-decision", "self-normalised", "doubly robust", "weighted doubly robust")
RESAMPLED = ("self-normalised", "doubly robust")
GRADES = (GOOD, FAIR, POOR)
ADEQUATE = 1 / 3  # share of the episodes that is effective, in truth
COLOURS = dict(zip(NAMES, ("#8a6d3b", "#2a9d5c", "#c1121f", "#1d6fa5"), strict=True))


def coverage(
    *,
    replications: int = 2_000,
    episodes: int = 200,
    out: Path = Path("runs/coverage"),
    quick: bool = False,
    problems: tuple[str, ...] = ("gridworld", "minigolf"),
    workers: int = 2,
    overwrite: bool = False,
) -> None:
    """Coverage of nominal 95% intervals, on policies near and far from the logging one.

    Every replication is a new log; the estimate's interval either holds the true value or misses
    it, and the grade of its support says good or not. The truth is exact on the gridworld, and the
    mean of 320,000 fresh games on minigolf. Doubly robust estimates take the Q that is fitted to
    another log. Support is adequate, in truth, if a third of the episodes is effective. An
    interrupted run goes on where it was.

    Example: python -m benchmarks.studies coverage --quick

    Args:
      replications: logs of each problem and distance.
      episodes: of a log.
      out: folder for coverage.json and coverage.png.
      quick: 100 replications of two distances each.
      problems: gridworld, minigolf.
      workers: processes.
      overwrite: replace an earlier result in the same folder.
    """
    replications = min(replications, 100) if quick else replications
    out = fresh_folder(out, "coverage", overwrite=overwrite)
    cells = {}
    for name in problems:
        distances = PROBLEMS[name]().distances
        for i in (2, 4) if quick else range(len(distances)):
            cells[f"{name}-{i}"] = dict(
                problem=name, distance=distances[i], episodes=episodes, replications=replications
            )
    with console.bar("coverage", len(cells)) as advance:
        found = run_cells(cell, cells, out / "cells", workers=workers, advance=advance)
    table = console.rich_table(
        f"Coverage of 95% intervals, {replications} logs of {episodes} episodes",
        ["problem, distance", "effective", "graded good", *NAMES, "guaranteed"],
        caption="Student's t. Effective: share of the episodes, in truth. Graded good: share of the"
        " logs. Guaranteed: truncated ratios, empirical Bernstein.",
    )
    for name, result in found.items():
        shown = [f"{1 - result['misses'][f'{e}, student']['all']:.3f}" for e in NAMES]
        table.add_row(
            f"{cells[name]['problem']} {result['distance']:g}", f"{result['effective']:.3f}",
            f"{result['grades'][GOOD]:.2f}", *shown,
            f"{1 - result['misses']['guaranteed']['all']:.3f}",
        )  # fmt: skip
    results = {"cells": found, "summary": _summary(found)}
    settings = dict(replications=replications, episodes=episodes)
    paper = {"claim": "none: the paper does not evaluate off-policy"}
    figure = _figure(found)
    console.save(
        out, "coverage", settings=settings, results=results, paper=paper, figure=figure, table=table
    )
    for name, numbers in results["summary"].items():
        ends, flagged = numbers["adequate"], numbers["flagged"]
        said = f"{ends[0]:.3f} to {ends[1]:.3f}" if ends else "no policy"
        console.say(
            f"{name}: with adequate support {said}; of {numbers['misses']} misses elsewhere "
            + ("none" if flagged is None else f"{flagged:.3f}")
            + " are not graded good"
        )
    worst = {
        grade: [c["verdict"][grade] for c in found.values() if c["grades"][grade] >= 0.05]
        for grade in (GOOD, FAIR)
    }
    for grade, shares in worst.items():
        if shares:
            console.say(
                f"lower bound of a verdict at 95%, support {grade}: above the true improvement in "
                f"{min(shares):.3f} to {max(shares):.3f} of the logs"
            )


def cell(arguments: dict[str, Any]) -> dict[str, Any]:
    """Misses of every estimator and interval, for one policy."""
    problem = PROBLEMS[arguments["problem"]]()
    n, distance, total = (arguments[k] for k in ("episodes", "distance", "replications"))
    policy, behaviour = problem.target(distance), problem.behaviour
    truth, error = problem.value(policy)
    gain, _ = problem.gain(policy)
    below: dict[str, list[bool]] = {}
    above: dict[str, list[bool]] = {}
    ess, grades, squares, short = [], [], [], []
    for start in range(0, total, SHARED):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(20_261_115), start), 4)
        other = problem.log(behaviour, keys[1], n)
        q = evaluation.fitted_q(keys[0], policy, other, problem.discount)
        logs = problem.log(behaviour, keys[2], SHARED * n)
        values = q.at(keys[3], logs)
        every = evaluation.evidence(
            policy, logs, problem.discount, q_values=values[0], state_values=values[1]
        )
        whole = np.take_along_axis(every.rho, every.mask.sum(axis=1)[:, None] - 1, 1)[:, 0]
        for i in range(min(SHARED, total - start)):
            rows = slice(i * n, (i + 1) * n)
            one = part(every, rows)
            rests = evaluation.graded(np.log(whole[rows]))
            ess.append(rests.ess)
            grades.append(rests.grade)
            for name, interval in _intervals(one, problem.lowest).items():
                below.setdefault(name, []).append(interval.high < truth)
                above.setdefault(name, []).append(interval.low > truth)
            bound = evaluation.judge([evaluation.Case(one, ROBUST)]).verdict
            short.append(bound.improvement.low > gain)
        squares.append(np.mean(whole**2))
    return {
        "distance": distance,
        "truth": truth,
        "truth_error": error,
        "effective": 1 / float(np.mean(squares)),
        "ess": np.quantile(ess, [0.05, 0.5, 0.95]).tolist(),
        "grades": {grade: grades.count(grade) / len(grades) for grade in GRADES},
        "misses": {
            name: _misses(np.asarray(above[name]), np.asarray(below[name]), np.asarray(grades))
            for name in above
        },
        "verdict": _by_grade(np.asarray(short), np.asarray(grades)),
    }


def _intervals(one: evaluation.Evidence, lowest: float) -> dict[str, Any]:
    found: dict[str, Any] = {"guaranteed": guaranteed(one, lowest=lowest, highest=0.0)}
    for name in NAMES:
        terms = evaluation.ESTIMATORS[name](one)
        found[f"{name}, student"] = student(terms)
        if name in RESAMPLED:
            for kind in ("percentile", "BCa"):
                found[f"{name}, {kind}"] = bootstrap(
                    terms, corrected=kind == "BCa", resamples=RESAMPLES
                )
    return found


def _misses(above: np.ndarray, below: np.ndarray, grades: np.ndarray) -> dict[str, Any]:
    """Shares of all logs, on either side and by grade; and of the misses, those not graded good."""
    miss = above | below
    return {
        "all": float(miss.mean()),
        "above": float(above.mean()),
        "below": float(below.mean()),
        "by_grade": _by_grade(miss, grades),
        "flagged": float((grades != GOOD)[miss].mean()) if miss.any() else None,
        "count": int(miss.sum()),
    }


def _by_grade(miss: np.ndarray, grades: np.ndarray) -> dict[str, float | None]:
    return {g: float(miss[grades == g].mean()) if (grades == g).any() else None for g in GRADES}


def _summary(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Least and largest coverage where support is adequate; misses that are flagged where not."""
    result: dict[str, Any] = {}
    for name in next(iter(found.values()))["misses"]:
        right = [1 - c["misses"][name]["all"] for c in found.values() if c["effective"] >= ADEQUATE]
        thin = [c["misses"][name] for c in found.values() if c["effective"] < ADEQUATE]
        count = sum(m["count"] for m in thin)
        flagged = sum(m["count"] * (m["flagged"] or 0.0) for m in thin)
        result[name] = {
            "adequate": [min(right), max(right)] if right else None,
            "flagged": flagged / count if count else None,
            "misses": count,
        }
    return result


def _figure(found: dict[str, dict[str, Any]]) -> Any:
    problems = sorted({name.rpartition("-")[0] for name in found})
    figure, axes = figures.panels(1, len(problems), width=4.4, height=3.4)
    for axis, problem in zip(axes[0], problems, strict=True):
        rows = [c for name, c in found.items() if name.startswith(problem)]
        rows = sorted(rows, key=lambda c: c["effective"])
        x = [max(c["effective"], 1e-3) for c in rows]
        for name in NAMES:
            y = [1 - c["misses"][f"{name}, student"]["all"] for c in rows]
            axis.plot(x, y, "o-", color=COLOURS[name], label=name, markersize=4)
        y = [1 - c["misses"]["guaranteed"]["all"] for c in rows]
        axis.plot(x, y, "o:", color="#5b6875", label="guaranteed", markersize=4)
        axis.axhspan(0.93, 0.97, color="#5b6875", alpha=0.15, linewidth=0)
        axis.axvline(ADEQUATE, color="black", linewidth=0.8, linestyle=":")
        axis.set(xscale="log", xlabel="effective share of the episodes, in truth", title=problem)
    axes[0, 0].set_ylabel("coverage of 95% intervals (t)")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure
