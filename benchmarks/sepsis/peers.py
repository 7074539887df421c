"""DiscreteCQL, DiscreteBCQ and BC of d3rlpy on a log of ICU-Sepsis, in their own environment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sepsis.problem import Sepsis
from gamps.errors import GampsError
from gamps.trajectories import Trajectories

ROOT = Path(__file__).resolve().parents[2]
STEPS = 5_000
LABELS = {"cql": "DiscreteCQL", "bcq": "DiscreteBCQ", "bc": "BC"}
FAST = {"batch_size": 256, "learning_rate": 1e-3, "target_update_interval": 500}
# The first of each is d3rlpy's default.
TRIALS: dict[str, list[dict[str, Any]]] = {
    "cql": [{}, FAST, FAST | {"alpha": 4.0}, FAST | {"alpha": 0.3}],
    "bcq": [{}, FAST, FAST | {"action_flexibility": 0.1}, FAST | {"action_flexibility": 0.6}],
    "bc": [{}, {"batch_size": 256}, {"beta": 0.0}, {"batch_size": 256, "beta": 0.0}],
}


def values(problem: Sepsis, log: Trajectories, jobs: list[dict[str, Any]], python: str) -> Any:
    """Exact values of the policies that training leaves, of which each takes the preferred action.

    Args:
      problem: whose value it is.
      log: what all of them learn from.
      jobs: algorithm, settings and seed.
      python: of the peers' environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        todo = [job | {"steps": STEPS, "out": str(at / f"{i}.json")} for i, job in enumerate(jobs)]
        (at / "jobs.json").write_text(json.dumps(todo), encoding="utf-8")
        mask = np.asarray(log.mask)
        n_states, n_actions = problem.expert.shape
        np.savez(
            at / "log.npz", states=np.asarray(log.states)[mask],
            actions=np.asarray(log.actions)[mask], rewards=np.asarray(log.rewards)[mask],
            steps=mask.sum(axis=1), n_states=n_states, n_actions=n_actions,
        )  # fmt: skip
        script = [python, "-m", "benchmarks.sepsis.deep"]
        ended = subprocess.run(  # noqa: S603 - the command is ours
            [*script, at / "log.npz", at / "jobs.json"],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if ended.returncode:
            raise GampsError(f"benchmarks.sepsis.deep failed: {ended.stderr[-2000:]}")
        chosen = [json.loads(Path(job["out"]).read_text(encoding="utf-8")) for job in todo]
    return [problem.value(np.eye(n_actions)[actions]) for actions in chosen]
