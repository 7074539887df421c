"""Training from a cold start against a peer's training, in one run, each on one core.

gamps starts in a new process with an empty folder for compiled programs, so that compilation is
part of its time; the peer's time is that of its training alone, without imports. Seconds are the
processor's, which a busy machine changes less than those of the clock; both are printed.

Usage: python -m benchmarks.peers.timing --python PEERS/bin/python [--repeats 1] [--out FILE.json]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tyro

from benchmarks.peers import peers
from benchmarks.peers.domains import log_of

# The peer that ends best on each log, at its best setting.
AGAINST = {"minigolf-50": ("cql", 0), "swimmer-100": ("td3bc", 3)}


def ours(name: str, seed: int, folder: Path) -> dict[str, float]:
    """One training in a new process, nothing compiled beforehand."""
    with tempfile.TemporaryDirectory() as cache:
        began = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.peers.run", "cell", name, "ours", str(seed)]
        subprocess.run(  # noqa: S603 - the command is ours
            [*command, "--out", str(folder)],
            env=os.environ | {"XDG_CACHE_HOME": cache},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        whole = time.perf_counter() - began
    cell = json.loads((folder / "ours" / f"{name}-default-{seed}.json").read_text())["result"]
    return {"processor": cell["processor_seconds"], "clock": cell["seconds"], "process": whole}


def peer(name: str, seed: int, folder: Path, python: str) -> dict[str, float]:
    """One training of the best peer."""
    algorithm, trial = AGAINST[name]
    (cell,) = peers.cells_of(name, [seed], {algorithm: [trial]}).values()
    out = folder / f"{name}-{algorithm}-{seed}.trained"
    job = cell | {"log": str(log_of(name, seed, folder / "logs")), "out": str(out)}
    (folder / "jobs.json").write_text(json.dumps([job]))
    began = time.perf_counter()
    command = [python, str(Path(__file__).with_name("train.py")), str(folder / "jobs.json")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    whole = time.perf_counter() - began
    seconds = json.loads(out.read_text())["seconds"]
    return {"processor": seconds, "process": whole}


def main(python: str, repeats: int = 1, out: Path | None = None) -> None:
    """Print the seconds of both and their ratio, log by log, and write those of log 0."""
    results = {}
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name, (algorithm, _) in AGAINST.items():
        for seed in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                log_of(name, seed, Path(folder) / "logs")
                mine = ours(name, seed, Path(folder))
                theirs = peer(name, seed, Path(folder), python)
            ratios = {k: mine[k] / theirs[k] for k in ("processor", "process")}
            print(f"{name} log {seed}: gamps {mine['processor']:.0f} s of the processor "
                  f"({mine['clock']:.0f} by the clock, {mine['process']:.0f} the whole process), "
                  f"{algorithm} {theirs['processor']:.0f} s ({theirs['process']:.0f} the whole "
                  f"process); ratio {ratios['processor']:.2f} ({ratios['process']:.2f})",
                  flush=True)  # fmt: skip
            results.setdefault(name, {"peer": algorithm, "ours": mine, "theirs": theirs})
    if out is not None:
        out.write_text(json.dumps({"results": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    tyro.cli(main)
