"""Off-policy estimates beside those of d3rlpy and SCOPE-RL: the same logs, errors to the truth.

Minigolf, policies ever further from the logging one, logs of their own (seeds that no other study
used). Doubly robust estimates of ours take Q of one half of a log and judge by the other, in turn;
the rest, and the peers, take the whole.

Usage: python -m benchmarks.peers.evaluation --python PEERS/bin/python [--logs 20] [--out FOLDER]
where PEERS has the packages of requirements.txt and requirements-judge.txt.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

from benchmarks.studies.judging import Problem, minigolf
from gamps import evaluation
from gamps._utils import console, figures

DISTANCES = (0.15, 0.3, 0.6, 1.0)
EPISODES = 200


def ours(problem: Problem, policy: Any, log: Any, key: Any) -> dict[str, float]:
    """Every estimator of `gamps evaluate` that needs no model.

    Doubly robust ones take Q of one half and judge by the other, in turn, and average.
    """
    task = problem.env.task()
    whole = evaluation.cases(key, policy, log, log, task)
    halves = [jax.tree.map(lambda x, i=i: x[i::2], log) for i in (0, 1)]
    turns = [evaluation.cases(key, policy, *pair, task) for pair in (halves, halves[::-1])]
    found = {}
    for name in whole:
        parts = turns if "robust" in name else [whole]
        each = [value_of(part[name]) for part in parts]
        found[f"gamps {name}"] = float(np.mean(each))
    return found


def value_of(case: evaluation.Case) -> float:
    """One estimate."""
    return float(evaluation.value(evaluation.ESTIMATORS[case.estimator](case.evidence)))


def written(log: Any, path: Path) -> None:
    """The log as plain arrays, one row a step that was taken."""
    mask = np.asarray(log.mask)
    last = np.arange(mask.shape[1]) == mask.sum(axis=1)[:, None] - 1
    ended = last & np.asarray(log.terminated)[:, None]
    fields = {"states": log.states, "actions": log.actions, "rewards": log.rewards}
    fields |= {"densities": log.behaviour_log_prob, "terminated": ended, "last": last}
    rows = {name: np.asarray(x)[mask].astype(np.float32) for name, x in fields.items()}
    np.savez(path, **rows, mask=mask, starts=np.asarray(log.states)[:, 0].astype(np.float32))


def main(
    python: str,
    logs: int = 20,
    out: Path = Path("runs/peers-evaluation"),
    overwrite: bool = False,
) -> None:
    """Print the table and write evaluation.json and evaluation.png."""
    out = console.folder(out, "evaluation", overwrite=overwrite)
    problem, jobs, cells = minigolf(), [], {}
    for d, distance in enumerate(DISTANCES):
        policy = problem.target(distance)
        truth, _ = problem.value(policy)
        for seed in range(logs):
            key = jax.random.fold_in(jax.random.key(424_242), 1_000 * d + seed)
            log = problem.log(problem.behaviour, key, EPISODES)
            name = f"{distance:g}-{seed}"
            written(log, out / f"{name}.npz")
            cells[name] = {"truth": truth, **ours(problem, policy, log, key)}
            jobs.append({
                "log": str(out / f"{name}.npz"), "out": str(out / f"{name}.json"), "seed": seed,
                "weights": np.asarray(policy.weights).tolist(),
                "centres": np.asarray(policy.features.centres).tolist(),
                "width": float(policy.features.width), "std": float(np.exp(policy.log_std[0])),
            })  # fmt: skip
    (out / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    script = Path(__file__).with_name("judge.py")
    command = [python, str(script), str(out / "jobs.json")]
    if subprocess.run(command, check=False).returncode:  # noqa: S603
        sys.exit("the peers' part failed, see above")
    for name, cell in cells.items():
        cell |= json.loads((out / f"{name}.json").read_text(encoding="utf-8"))["found"]
    show(cells, out, logs)


def show(cells: dict[str, dict[str, float]], out: Path, logs: int) -> None:
    """Root mean square errors, and how they grow with the distance."""
    names = [name for name in next(iter(cells.values())) if name != "truth"]
    errors = {
        name: [np.asarray([c[name] - c["truth"] for n, c in cells.items()
                           if n.startswith(f"{d:g}-")]) for d in DISTANCES]
        for name in names
    }  # fmt: skip
    rms = {name: [float(np.sqrt(np.mean(e**2))) for e in each] for name, each in errors.items()}
    bias = {name: [float(np.mean(e)) for e in each] for name, each in errors.items()}
    table = console.rich_table(
        f"Error of the estimated return, {logs} logs of {EPISODES} games: root mean square (bias)",
        ["estimate", *(f"distance {d:g}" for d in DISTANCES)],
    )
    for name in names:
        table.add_row(
            name, *(f"{r:.1f} ({b:+.1f})" for r, b in zip(rms[name], bias[name], strict=True))
        )
    figure, axes = figures.panels(1, 1, width=7.0, height=4.2)
    for name in names:
        look = {"gamps": "-", "d3rlp": "--", "SCOPE": ":"}[name[:5]]
        axes[0, 0].plot(DISTANCES, rms[name], look, marker="o", markersize=3, label=name)
    axes[0, 0].set(xlabel="distance from the logging policy", ylabel="error of the return (RMS)")
    axes[0, 0].set_yscale("log")
    axes[0, 0].legend(frameon=False, fontsize=7, bbox_to_anchor=(1.0, 1.0))
    settings = {"logs": logs, "episodes": EPISODES, "distances": DISTANCES}
    results = {"rms": rms, "bias": bias}
    console.save(
        out, "evaluation", settings=settings, results=results, paper={}, figure=figure, table=table
    )


if __name__ == "__main__":
    tyro.cli(main)
