"""d3rlpy on the logs of the comparison: trials on other logs, then the best of each, reported.

Every finished training is kept as a cell and never run again; an interrupted run goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.peers.domains import DOMAINS, TUNING, Actor, evaluate, log_of
from gamps._utils import console
from gamps._utils.atomic_io import replace_file
from gamps.errors import GampsError, SettingError
from gamps.paper.cells import kept

# The first of each is d3rlpy's default.
TRIALS: dict[str, list[dict[str, Any]]] = {
    "bc": [{}, {"scale_observations": True}],
    "iql": [
        {},
        {"scale_observations": True},
        {"expectile": 0.9, "weight_temp": 10.0},
        {"weight_temp": 10.0, "scale_observations": True},
    ],
    "cql": [
        {},
        {"scale_observations": True},
        {"conservative_weight": 1.0},
        {"conservative_weight": 1.0, "scale_observations": True},
    ],
    "td3bc": [
        {},
        {"scale_observations": True},
        {"alpha": 10.0},
        {"alpha": 10.0, "scale_observations": True},
    ],
    "awac": [
        {},
        {"scale_observations": True},
        {"lam": 0.3},
        {"lam": 0.1, "scale_observations": True},
    ],
    "rebrac": [{}],
    "mopo": [{}],
    "combo": [{}],
}
MODEL_BASED = ("mopo", "combo")  # of d3rlpy 1.1.1, in an environment of its own
# On the robots each has the setting that its own paper has for them: nothing is tried there.
ROBOTS = ("hopper", "cheetah", "reacher")
PUBLISHED = dict.fromkeys(TRIALS, 0) | {"td3bc": 1}  # TD3+BC scales observations
# Where settings are tried, for the larger logs of the same problem too. Nothing is tried on the
# pendulum: there the peers have their defaults, as gamps has.
TRIED_ON = {"minigolf": "minigolf-50", "swimmer": "swimmer-100"}
TRIED_STEPS = {"minigolf": 3_000, "swimmer": 5_000}
LONG = 20_000  # steps of a training that is kept as soon as it ends
# A step of CQL costs several times as many seconds as another's; on long trainings it gets half.
DEAR = {("swimmer", "cql"): 0.5, ("pendulum", "cql"): 0.5}
DEAR |= {(robot, who): 0.25 for robot in ROBOTS for who in ("cql", "awac", *MODEL_BASED)}


def logs_of(name: str, algorithm: str) -> int:
    """Logs that an algorithm is run on: on the robots, where it takes an hour, few.

    The model-based have another environment, and are run one by one: `cell hopper mopo 0`.
    """
    if algorithm in MODEL_BASED:
        return 0
    if name in ROBOTS:
        return {"cql": int(name != "reacher"), "awac": int(name != "reacher")}.get(algorithm, 3)
    kept_without = algorithm == "rebrac" and name != "tanks-100"
    return 0 if kept_without else DOMAINS[name].logs


def cells_of(
    name: str, seeds: Iterable[int], trials: dict[str, list[int]], steps: int | None = None
) -> dict[str, dict[str, Any]]:
    """Jobs by the name of their cell."""
    steps = DOMAINS[name].steps if steps is None else steps
    return {
        f"{name}-{algorithm}-{trial}-{seed}": {
            "domain": name,
            "algorithm": algorithm,
            "settings": TRIALS[algorithm][trial],
            "steps": int(steps * DEAR.get((name.split("-")[0], algorithm), 1.0)),
            "seed": seed,
            "bounds": DOMAINS[name].bounds,
        }
        for seed in seeds
        for algorithm, numbers in trials.items()
        for trial in numbers
    }


def run(cells: dict[str, dict[str, Any]], out: Path, python: str) -> dict[str, dict[str, Any]]:
    """Train what is missing, evaluate it, and return every cell's result."""
    if not Path(python).is_file():
        raise SettingError("python", repr(python), "Give the path of the peers' interpreter")
    folder = out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in cells if kept(folder / f"{name}.json", cells[name]) is None]
    with console.bar("peers", len(cells)) as advance:
        for name in cells:
            if name not in missing:
                advance(name)
        # A few at a time: importing torch takes as long as a small training.
        together = 8 if all(cells[name]["steps"] < LONG for name in missing) else 1
        for first in range(0, len(missing), together):
            names = missing[first : first + together]
            jobs = []
            for name in names:
                job = cells[name]
                log = log_of(job["domain"], job["seed"], out / "logs")
                jobs.append(job | {"log": str(log), "out": str(folder / f"{name}.trained")})
            todo = out / f"jobs-{os.getpid()}.json"
            todo.write_text(json.dumps(jobs), encoding="utf-8")
            models = any(cells[name]["algorithm"] in MODEL_BASED for name in names)
            script = Path(__file__).with_name("train_models.py" if models else "train.py")
            ended = subprocess.run(  # noqa: S603 - the command is ours
                [python, str(script), str(todo)], capture_output=True, text=True, check=False
            )
            if ended.returncode:
                raise GampsError(f"{script.name} failed on {todo}: {ended.stderr[-2000:]}")
            for name in names:
                _finish(name, cells[name], folder)
                advance(name)
            todo.unlink()
    return {name: json.loads((folder / f"{name}.json").read_text())["result"] for name in cells}


def _finish(name: str, job: dict[str, Any], folder: Path) -> None:
    """Evaluate all checkpoints of a training in the true simulator."""
    trained = json.loads((folder / f"{name}.trained").read_text(encoding="utf-8"))
    returns, values = [], []
    for checkpoint in trained["checkpoints"]:
        actor = Actor.of(checkpoint["actor"])
        acted = jax.vmap(actor.act, (0, None))(np.asarray(trained["starts"]), np.zeros(1))
        off = np.max(np.abs(np.asarray(acted) - np.asarray(checkpoint["actions"])))
        if off > 1e-3:
            raise GampsError(f"{name}: the actor read back acts differently, by {off:.2g}")
        returns.append(evaluate(job["domain"], actor, job["seed"]))
        values.append(checkpoint["value"])
    chosen = len(returns) - 1 if values[0] is None else int(np.argmax(values))
    result = {
        "final": returns[-1],
        "chosen": returns[chosen],
        "best": max(returns),
        "curve": returns,
        "processor_seconds": trained["seconds"],
    }
    with replace_file(folder / f"{name}.json") as path:
        path.write_text(json.dumps({"arguments": job, "result": result}) + "\n", encoding="utf-8")
    (folder / f"{name}.trained").unlink()


def tuned(name: str, out: Path, python: str) -> tuple[dict[str, int], dict[str, list[float]]]:
    """The best trial of each algorithm, by the mean of its final policies on the tuning logs."""
    family = name.split("-")[0]
    if family not in TRIED_ON:
        return PUBLISHED if name in ROBOTS else dict.fromkeys(TRIALS, 0), {}
    where, steps = TRIED_ON[family], TRIED_STEPS[family]
    every = {who: list(range(len(trials))) for who, trials in TRIALS.items() if logs_of(where, who)}
    found = run(cells_of(where, TUNING, every, steps), out / "trials", python)
    means = {
        algorithm: [
            float(np.mean([found[f"{where}-{algorithm}-{trial}-{s}"]["final"] for s in TUNING]))
            for trial in trials
        ]
        for algorithm, trials in every.items()
    }
    return {algorithm: int(np.argmax(values)) for algorithm, values in means.items()}, means


def reported(name: str, out: Path, python: str) -> None:
    """Each algorithm at its best trial, on the logs that are reported, log by log."""
    chosen, _ = tuned(name, out, python)
    cells = {}
    for seed in range(DOMAINS[name].logs):
        these = {who: [trial] for who, trial in chosen.items() if seed < logs_of(name, who)}
        cells |= cells_of(name, [seed], these)
    run(cells, out, python)
