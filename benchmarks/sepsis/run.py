"""Ours, SPIBB and behaviour cloning on the same logs: `python -m benchmarks.sepsis.run --python P`.

Every finished cell is kept; an interrupted run goes on. SPIBB's least count is tried on other
logs; the best of each size is reported.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.sepsis.problem import Sepsis, counts_of
from benchmarks.studies import safe_improvement
from gamps import evaluation
from gamps._utils.atomic_io import replace_file
from gamps.learner import learn
from gamps.models import learned_task
from gamps.policies import estimation
from gamps.trajectories import Trajectories, split

SIZES = (500, 5_000, 50_000)
TRIED = (2, 5, 10, 20, 50)  # least counts of SPIBB
TUNING = 9_000  # seeds of logs that settings were tried on


def ours(problem: Sepsis, log: Trajectories) -> np.ndarray:
    """The default; reward and termination are estimated from the log."""
    task, _ = learned_task(jax.random.key(0), log, 1.0)
    return problem.table(learn(log, task).policy)


def cloned(problem: Sepsis, log: Trajectories) -> np.ndarray:
    """Frequencies."""
    return problem.table(estimation.fit(jax.random.key(0), log, "choices"))


def spibb(problem: Sepsis, log: Trajectories, least: int) -> np.ndarray:
    """With the expert known; a discount of nearly one, for states that would never be left."""
    counts, rewards = counts_of(log, problem.expert.shape)
    mean = rewards / np.maximum(counts.sum(axis=2), 1)
    return safe_improvement.spibb(counts, problem.expert, mean, 1 - 1e-6, least)


def verdict(problem: Sepsis, log: Trajectories, fresh: list[Trajectories]) -> dict[str, Any]:
    """The default on half of a log, judged by fresh episodes; true gain of what was certified."""
    learned, _ = split(log, 0.5)
    task, _ = learned_task(jax.random.key(0), learned, 1.0)
    outcome = learn(learned, task)
    before = problem.value(problem.expert)
    found = []
    for held_out in fresh:
        judged = evaluation.evaluate(outcome.ladder, learned, held_out, task, details=False)
        gain = (
            None if judged.policy is None else problem.value(problem.table(judged.policy)) - before
        )
        found.append({"word": judged.verdict.word, "low": judged.verdict.improvement.low,
                      "gain": gain})  # fmt: skip
    return {"learned": problem.value(problem.table(outcome.policy)) - before, "judged": found}


def kept(path: Path, work: Callable[[], Any]) -> Any:
    """What a cell holds, worked out unless that was done."""
    if not path.exists():
        start = time.process_time()
        content = {"found": work(), "seconds": time.process_time() - start}
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as temporary:
            temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))["found"]


def main() -> None:
    """Cells, then a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of an environment with icu-sepsis")
    parser.add_argument("--out", type=Path, default=Path("runs/sepsis"))
    parser.add_argument("--logs", type=int, default=20, help="of ours; peers have half as many")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--verdicts", type=int, default=0, help="trainings that are judged")
    given = parser.parse_args()
    problem, rows = Sepsis(given.python), []
    for size in given.sizes:

        def cell(who: str, seed: int, learner: Callable[..., np.ndarray], *more: Any,
                 size: int = size) -> float:  # fmt: skip
            path = given.out / f"{size}-{who}-{seed}.json"
            number: float = kept(
                path, lambda: problem.value(learner(problem, problem.log(size, seed), *more))
            )
            return number

        tried = {
            least: np.mean([cell(f"spibb{least}", TUNING + k, spibb, least) for k in range(3)])
            for least in TRIED
        }
        least = max(tried, key=lambda count: tried[count])
        found = {
            "gamps": [cell("gamps", k, ours) for k in range(given.logs)],
            f"SPIBB, {least}": [cell(f"spibb{least}", k, spibb, least)
                                for k in range(given.logs // 2)],
            "cloning": [cell("cloning", k, cloned) for k in range(given.logs // 2)],
        }  # fmt: skip
        row: dict[str, Any] = {"episodes": size, "values": found}
        if given.verdicts:
            row["verdicts"] = [
                kept(given.out / f"{size}-verdict-{k}.json",
                     lambda k=k, size=size: verdict(problem, problem.log(size, k),
                                         [problem.log(size // 2, 10_000 + 100 * k + j)
                                          for j in range(10)]))
                for k in range(given.verdicts)
            ]  # fmt: skip
        rows.append(row)
        shown = ", ".join(f"{who} {np.mean(x):.4f} ± {np.std(x, ddof=1):.4f} ({len(x)})"
                          for who, x in found.items())  # fmt: skip
        print(f"{size}: {shown}", flush=True)
    expert = problem.value(problem.expert)
    print(f"expert {expert:.4f}, optimum {problem.optimum:.4f}")
    content = {"expert": expert, "optimum": problem.optimum, "rows": rows}
    (given.out / "sepsis.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
