"""The default on logs of any length: what an iteration, and what each command takes of memory.

    python benchmarks/streamed_default.py FOLDER --sizes 100000 1000000 10000000

Two tanks, whose logs are simulated. Each command runs in a process of its own, pinned to one core;
memory is the most that it ever held. FOLDER/streamed_default.json keeps what was found; a size that
is there is not run again.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from gamps import datasets
from gamps.envs import tanks

BLOCK = 1_600  # episodes that are simulated together
ITERATIONS = 12
CHILD = """
import json, resource, sys
from gamps.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    status = end.code
else:
    status = 0
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = used.ru_utime + used.ru_stime
found = {"status": status or 0, "memory": used.ru_maxrss / 2**20, "seconds": seconds}
print("FOUND", json.dumps(found), file=sys.stderr)
"""


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    sizes: tuple[int, ...] = (100_000, 1_000_000, 10_000_000),
    core: int = 0,
) -> None:
    """Steps of the logs, the smallest first."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    os.sched_setaffinity(0, {core})
    for steps in sizes:
        kept = folder / f"{steps}.json"
        if kept.exists():
            continue
        name = f"tanks/steps{steps}-v0"
        if not datasets.folder_of(name).exists():
            _make(name, steps)
        run = folder / f"run-{steps}-{time.time_ns()}"
        task = "gamps.envs.tanks:task"
        train = ["train", name, "--task", task, "--stream", "--iterations", str(ITERATIONS)]
        row: dict[str, Any] = {"train": _run([*train, "--out", str(run)])}
        for command in ("evaluate", "report", "export"):
            row[command] = _run([command, str(run)])
        lines = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
        # The first climbs on the log and fits, and some look at what the policy is worth.
        row["iteration"] = float(np.median([line["seconds"] for line in lines[1:]]))
        row["first_iteration"] = lines[0]["seconds"]
        kept.write_text(json.dumps(row) + "\n")
        print(steps, json.dumps(row), flush=True)
    found = {str(steps): json.loads((folder / f"{steps}.json").read_text()) for steps in sizes}
    content = {"settings": {"sizes": sizes, "iterations": ITERATIONS}, "results": found}
    (folder / "streamed_default.json").write_text(json.dumps(content, indent=1) + "\n")


def _make(name: str, steps: int) -> None:
    """A log, without holding it."""
    policy, env = tanks.policy(), tanks.TwoTanks()

    blocks = (
        datasets.collect(env, policy, jax.random.key(block), n=BLOCK, steps=tanks.HORIZON)
        for block in range(max(steps // tanks.HORIZON // BLOCK, 1))
    )
    datasets.save_chunks(name, blocks, policy, discount=tanks.DISCOUNT)


def _run(words: list[str]) -> dict[str, float]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stderr.split("FOUND ")[-1])
    return found


if __name__ == "__main__":
    tyro.cli(main)
