"""Ours, SPIBB, cloning and d3rlpy on the same logs: `python -m benchmarks.sepsis.run --python P`.

Every finished cell is kept; an interrupted run goes on. SPIBB's least count and the settings of
d3rlpy's algorithms are tried on other logs; the best of each size is reported.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.sepsis import peers
from benchmarks.sepsis.problem import Sepsis, counts_of
from benchmarks.studies.safe_improvement import spibb as safe_policy
from gamps import evaluation
from gamps._utils.atomic_io import replace_file
from gamps.learner import learn
from gamps.models import learned_task
from gamps.policies import estimation
from gamps.trajectories import Trajectories, split

SIZES = (500, 5_000, 50_000)
TRIED = (2, 5, 10, 20, 50)  # least counts of SPIBB
ASSUMED: tuple[evaluation.Assumption, ...] = ("nothing", "markov")
TUNING = range(9_000, 9_003)  # seeds of logs that settings were tried on


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
    return safe_policy(counts, problem.expert, mean, 1 - 1e-6, least)


def verdict(problem: Sepsis, log: Trajectories, fresh: list[Trajectories]) -> dict[str, Any]:
    """The default on half of a log, judged by fresh episodes; true gain of what was certified.

    The expert is known, as to SPIBB.
    """
    learned, _ = split(log, 0.5)
    task, _ = learned_task(jax.random.key(0), learned, 1.0)
    start = problem.behaviour()
    outcome = learn(learned, task, start)
    before = problem.value(problem.expert)
    found: dict[str, Any] = {"learned": problem.value(problem.table(outcome.policy)) - before}
    for assume in ASSUMED:
        ladder = evaluation.rungs(
            start, outcome.policy, learned, 1.0, behaviour=start, assume=assume
        )
        found[assume] = []
        for held_out in fresh:
            judged = evaluation.evaluate(
                ladder, learned, held_out, task, behaviour=start, assume=assume, details=False
            )
            deployed, said = judged.policy, judged.verdict
            gain = None if deployed is None else problem.value(problem.table(deployed)) - before
            found[assume].append({"word": said.word, "low": said.improvement.low, "gain": gain})
    return found


def kept(path: Path, work: Callable[[], Any]) -> Any:
    """What a cell holds, worked out unless that was done."""
    if not path.exists():
        start = time.process_time()
        content = {"found": work(), "seconds": time.process_time() - start}
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as temporary:
            temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))["found"]


class Cells:
    """What is kept of one size of log, and worked out where it is not.

    Args:
      problem: whose logs they are.
      out: the folder.
      size: episodes of a log.
    """

    def __init__(self, problem: Sepsis, out: Path, size: int) -> None:
        self.problem, self.out, self.size = problem, out, size

    def value(self, who: str, seed: int, learner: Callable[..., np.ndarray], *more: Any) -> float:
        """Of what a learner makes of a log."""

        def work() -> float:
            return self.problem.value(learner(self.problem, self._log(seed), *more))

        return float(kept(self.out / f"{self.size}-{who}-{seed}.json", work))

    def spibb(self, logs: int) -> tuple[str, list[float]]:
        """With the least count that is best on other logs."""

        def values(least: int, seeds: range) -> list[float]:
            return [self.value(f"spibb{least}", seed, spibb, least) for seed in seeds]

        least = max(TRIED, key=lambda count: np.mean(values(count, TUNING)))
        return f"SPIBB, {least}", values(least, range(logs))

    def deep(self, who: str, logs: int, python: str) -> list[float]:
        """One of d3rlpy's algorithms, with the settings that are best on other logs."""
        trials = peers.TRIALS[who]

        def values(numbers: Iterable[int], seed: int) -> list[float]:
            paths = {i: self.out / f"{self.size}-{who}{i}-{seed}.json" for i in numbers}
            missing = [i for i in paths if not paths[i].exists()]
            jobs = [{"algorithm": who, "settings": trials[i], "seed": seed} for i in missing]
            new = peers.values(self.problem, self._log(seed), jobs, python) if jobs else []
            found = dict(zip(missing, new, strict=True))
            return [float(kept(paths[i], lambda i=i: found[i])) for i in paths]

        tried = np.mean([values(range(len(trials)), seed) for seed in TUNING], axis=0)
        best = int(np.argmax(tried))
        return [values([best], seed)[0] for seed in range(logs)]

    def verdict(self, seed: int) -> dict[str, Any]:
        """On half of a log, by ten times as many fresh episodes."""

        def work() -> dict[str, Any]:
            seeds = range(10_000 + 100 * seed, 10_010 + 100 * seed)
            fresh = [self.problem.log(self.size // 2, one) for one in seeds]
            return verdict(self.problem, self._log(seed), fresh)

        found: dict[str, Any] = kept(self.out / f"{self.size}-verdict-{seed}.json", work)
        return found

    def _log(self, seed: int) -> Trajectories:
        return self.problem.log(self.size, seed)


def main() -> None:
    """Cells, then a table; sizes that were asked for before stay in the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of an environment with icu-sepsis")
    parser.add_argument("--peers", default="", help="of an environment with d3rlpy; none: without")
    parser.add_argument("--out", type=Path, default=Path("runs/sepsis"))
    parser.add_argument("--logs", type=int, default=20, help="of ours; peers have half as many")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--verdicts", type=int, default=0, help="trainings that are judged")
    given = parser.parse_args()
    problem, path = Sepsis(given.python), given.out / "sepsis.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else {}
    for size in given.sizes:
        cells, half = Cells(problem, given.out, size), given.logs // 2
        name, found = cells.spibb(half)
        values = {
            "gamps": [cells.value("gamps", seed, ours) for seed in range(given.logs)],
            name: found,
            "cloning": [cells.value("cloning", seed, cloned) for seed in range(half)],
        }
        verdicts = [cells.verdict(seed) for seed in range(given.verdicts)]
        if given.peers:
            deep = {who: cells.deep(who, half, given.peers) for who in peers.TRIALS}
            values |= {peers.LABELS[who]: found for who, found in deep.items()}
        rows[str(size)] = {"values": values, "verdicts": verdicts}
        for who, x in values.items():
            print(
                f"{size} {who}: {np.mean(x):.4f} ± {np.std(x, ddof=1):.4f} ({len(x)})", flush=True
            )
        content = {
            "settings": {"tried": TRIED, "tuning": list(TUNING), "peers": peers.TRIALS},
            "results": dict(sorted(rows.items(), key=lambda row: int(row[0]))),
            "expert": problem.value(problem.expert),
            "optimum": problem.optimum,
        }
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
