"""The ladder beside HCPI and SPIBB: who shows an improvement, from how many episodes.

Both are written from their papers: *High Confidence Policy Improvement* (Thomas, Theocharous,
Ghavamzadeh 2015) and *Safe Policy Improvement with Baseline Bootstrapping* (Laroche, Trichelair,
Tachet des Combes 2019).
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student_t

from benchmarks.studies.certificate import collected, setting, trained
from benchmarks.studies.judging import exact, probabilities
from gamps import evaluation
from gamps._utils import console, figures
from gamps.evaluation import DEPLOY
from gamps.evaluation.estimators import evidence, whole_episode
from gamps.paper.cells import fresh_folder, run_cells
from gamps.policies import Mixture, Policy
from gamps.runs.resolve import task_of
from gamps.trajectories import Trajectories, split

SIZES = (50, 100, 250, 500, 1_000)
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99)  # of the learned policy in HCPI's mixture
LARGEST = (1.5, 2.0, 4.0, 8.0, 16.0)  # ratios that HCPI's concentration inequality counts in full
COUNTS = (5, 20)  # N of SPIBB, as in its experiments
GUARANTEED = 1_000  # N of SPIBB that its theorem is tried with
OURS, TEST, INEQUALITY, PROVEN = "ladder", "HCPI, t test", "HCPI, inequality", "SPIBB, theorem"
METHODS = (OURS, TEST, INEQUALITY, PROVEN, *(f"SPIBB, N = {count}" for count in COUNTS))


class Answer(NamedTuple):
    """What a method hands out: whether it deploys, and the true gain of that."""

    deploys: bool
    gain: float


def safe_improvement(
    *,
    logs: int = 20,
    sizes: tuple[int, ...] = SIZES,
    iterations: int = 60,
    first: int = 0,
    out: Path = Path("runs/safe-improvement"),
    workers: int = 2,
    quick: bool = False,
    overwrite: bool = False,
) -> None:
    """How often an improvement is shown: the ladder, HCPI and SPIBB on the same gridworld logs.

    All at an error of 5 %. HCPI and the ladder learn from one half and judge by the other, with the
    same learned policy; HCPI mixes it with the logging policy, predicts the best share by what was
    learned from, without the folds of its paper, and is told the logging policy's true value. SPIBB
    takes all of the log. Its theorem gives a bound at that error, far too wide for logs of this
    size; with a small N, as in its experiments, it has none.

    Example: python -m benchmarks.studies safe-improvement --logs 2 --sizes 100

    Args:
      logs: of each size.
      sizes: episodes of a log.
      iterations: of a training.
      first: seed of the first log.
      out: folder for safe_improvement.json and safe_improvement.png; finished cells are kept in it.
      workers: processes.
      quick: two logs of 100 episodes, eight iterations.
      overwrite: replace an earlier result in the same folder.
    """
    if quick:
        logs, sizes, iterations = 2, (100,), 8
    out = fresh_folder(out, "safe_improvement", overwrite=overwrite)
    cells = {
        f"{size}-{seed}": dict(episodes=size, seed=seed, iterations=iterations)
        for size in sizes
        for seed in range(first, first + logs)
    }
    with console.bar("safe-improvement", len(cells)) as advance:
        found = run_cells(cell, cells, out / "cells", workers=workers, advance=advance)
    rows = {
        str(size): {
            name: _row([found[f"{size}-{seed}"][name] for seed in range(first, first + logs)])
            for name in METHODS
        }
        for size in sizes
    }
    table = console.rich_table(
        f"Improvements that are shown, of {logs} logs of each size",
        ["", *(f"{size}: deploys, better, mean gain" for size in rows)],
        caption="Better: of those, truly. Gains are true, nothing where nothing is deployed.",
    )
    for name in METHODS:
        of_sizes = [row[name] for row in rows.values()]
        table.add_row(name, *(f"{r['deploys']} {r['better']} {r['gain']:.3g}" for r in of_sizes))
    settings = dict(logs=logs, sizes=sizes, iterations=iterations, first=first)
    paper = {"claim": "none: the paper does not evaluate off-policy"}
    console.save(
        out, "safe_improvement", settings=settings, results=rows, paper=paper,
        figure=_figure(rows, logs), table=table,
    )  # fmt: skip


def cell(arguments: dict[str, Any]) -> dict[str, Any]:
    """One log by every method."""
    at, n, seed = setting("gridworld"), arguments["episodes"], arguments["seed"]
    log = collected(at, n, seed)[0]
    start, learned, seen = trained(at, log, arguments, 0.5)
    held_out, task = split(log, 0.5, seed=seed)[1], task_of(at.task)
    discount, mdp = float(task.discount), at.env.mdp()
    rewards, initial = (np.asarray(x, np.float64) for x in (mdp.rewards, mdp.initial))
    value, behaviour = exact(at.env), probabilities(at.env, at.behaviour)
    base = value(behaviour)

    def answer(pi: np.ndarray, *, deploys: bool) -> dict[str, Any]:
        return Answer(deploys, value(pi) - base if deploys else 0.0)._asdict()

    shared: dict[str, Any] = dict(behaviour=at.behaviour, seed=seed)
    rungs = evaluation.rungs(start, learned, seen, discount, **shared)
    judged = evaluation.evaluate(rungs, seen, held_out, task, details=False, **shared)
    ours = rungs[judged.chosen].policy
    result = {OURS: answer(probabilities(at.env, ours), deploys=judged.verdict.word == DEPLOY)}
    lowest = -(1 - discount**at.steps) / (1 - discount)
    mixtures = [Mixture(at.behaviour, learned, share) for share in SHARES]
    for name, bound in ((TEST, by_t_test), (INEQUALITY, by_inequality)):
        policy, low = hcpi(mixtures, seen, held_out, discount, lowest, bound)
        result[name] = answer(probabilities(at.env, policy), deploys=low > base)
    model = counted(log, *mdp.rewards.shape, goal=at.env.layout.goal)
    for count in COUNTS:
        pi = spibb(model, behaviour, rewards, discount, count)
        result[f"SPIBB, N = {count}"] = answer(pi, deploys=not np.allclose(pi, behaviour))
    low, pi = spibb_bound(model, behaviour, rewards, initial, discount, GUARANTEED)
    result[PROVEN] = answer(pi, deploys=low > 0)
    return result


def hcpi(
    candidates: list[Policy],
    seen: Trajectories,
    held_out: Trajectories,
    discount: float,
    lowest: float,
    bound: Any,
) -> tuple[Policy, float]:
    """The candidate whose bound the training part predicts highest, and its bound by the other."""
    predicted = [
        bound(evidence(policy, seen, discount), lowest, None, held_out.n_trajectories)
        for policy in candidates
    ]
    best = max(range(len(candidates)), key=lambda k: predicted[k][0])
    found = evidence(candidates[best], held_out, discount)
    return candidates[best], bound(found, lowest, predicted[best][1], None)[0]


def by_t_test(
    found: Any, lowest: float, chosen: Any, later: int | None, error: float = 0.05
) -> tuple[float, Any]:
    """Student's bound of ratios times returns, which are above nothing."""
    del chosen
    numbers = _ratios(found) * (found.rewards.sum(axis=1) - lowest)
    n = later or len(numbers)
    half = student_t.ppf(1 - error, n - 1) * numbers.std(ddof=1) / math.sqrt(n)
    return lowest + float(numbers.mean() - half), None


def by_inequality(
    found: Any, lowest: float, chosen: Any, later: int | None, error: float = 0.05
) -> tuple[float, Any]:
    """Maurer and Pontil's bound of returns times ratios that are cut off where training says."""
    ratios = _ratios(found)
    above, span = found.rewards.sum(axis=1) - lowest, -lowest
    best = (-math.inf, None)
    for largest in LARGEST if chosen is None else (chosen,):
        numbers = np.minimum(ratios * above / span, largest)
        n, log = later or len(numbers), math.log(2 / error)
        half = 7 * largest * log / (3 * (n - 1)) + math.sqrt(2 * numbers.var(ddof=1) * log / n)
        best = max(best, (lowest + span * float(numbers.mean() - half), largest))
    return best


def _ratios(found: Any) -> np.ndarray:
    return np.asarray(np.exp(np.minimum(whole_episode(found), 700.0)))


def counted(log: Trajectories, states: int, actions: int, *, goal: int) -> np.ndarray:
    """`[S, A, S]` transitions between cells; nothing follows the goal."""
    counts, mask = np.zeros((states, actions, states)), np.asarray(log.mask)
    before, after = (np.asarray(x)[..., 0][mask] for x in (log.states, log.next_states))
    np.add.at(counts, (before, np.asarray(log.actions)[mask], after), 1)
    counts[goal] = 0
    return counts


def estimated(counts: np.ndarray) -> np.ndarray:
    """The most likely transitions; of a pair that was never seen nothing follows."""
    totals = counts.sum(axis=2, keepdims=True)
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)


def spibb(
    counts: np.ndarray, behaviour: np.ndarray, rewards: np.ndarray, discount: float, least: int
) -> np.ndarray:
    """Policy iteration in the estimated MDP; rare pairs keep the logging policy's probability."""
    moves, rare = estimated(counts), counts.sum(axis=2) < least
    pi = behaviour.copy()
    for _ in range(200):
        q = values(moves, rewards, pi, discount)
        better = np.where(rare, behaviour, 0.0)
        best = np.argmax(np.where(rare, -np.inf, q), axis=1)
        rows = np.flatnonzero(~rare.all(axis=1))
        better[rows, best[rows]] += 1 - better[rows].sum(axis=1)
        better[rare.all(axis=1)] = behaviour[rare.all(axis=1)]
        if np.allclose(better, pi):
            break
        pi = better
    return pi


def values(moves: np.ndarray, rewards: np.ndarray, pi: np.ndarray, discount: float) -> np.ndarray:
    """Q of a policy, by a linear solve."""
    mean = np.einsum("sa,sat->st", pi, moves)
    v = np.linalg.solve(np.eye(len(pi)) - discount * mean, (pi * rewards).sum(axis=1))
    return np.asarray(rewards + discount * moves @ v)


def spibb_bound(
    counts: np.ndarray,
    behaviour: np.ndarray,
    rewards: np.ndarray,
    initial: np.ndarray,
    discount: float,
    least: int,
    error: float = 0.05,
) -> tuple[float, np.ndarray]:
    """The theorem's lower bound of the improvement, and the policy that it is of."""
    pi = spibb(counts, behaviour, rewards, discount, least)
    moves, (states, actions) = estimated(counts), rewards.shape
    gain = [
        initial @ (p * values(moves, rewards, p, discount)).sum(axis=1) for p in (pi, behaviour)
    ]
    largest = 1 / (1 - discount)
    log = math.log(2 * states * actions / error) + states * math.log(2)
    off = 4 * largest / (1 - discount) * math.sqrt(2 / least * log)
    return float(gain[0] - gain[1] - off), pi


def _row(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all logs of a size."""
    return {
        "deploys": sum(one["deploys"] for one in found),
        "better": sum(one["deploys"] and one["gain"] > 0 for one in found),
        "gain": float(np.mean([one["gain"] for one in found])),
    }


def _figure(rows: dict[str, Any], logs: int) -> Any:
    figure, axes = figures.panels(1, 2, width=4.6, height=3.4)
    sizes = [int(size) for size in rows]
    for name in METHODS:
        style = "--" if name.startswith("SPIBB, N") else "-"
        for axis, key, over in ((axes[0, 0], "better", logs), (axes[0, 1], "gain", 1)):
            numbers = [row[name][key] / over for row in rows.values()]
            axis.plot(sizes, numbers, style, marker="o", label=name)
    axes[0, 0].set_ylabel("deployed and truly better, share of logs")
    axes[0, 1].set_ylabel("mean true gain")
    for axis in axes[0]:
        axis.set_xscale("log")
        axis.set_xlabel("episodes of a log")
    axes[0, 0].legend(fontsize=7)
    return figure
