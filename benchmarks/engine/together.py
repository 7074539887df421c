"""One search in one process or in several: `python -m benchmarks.engine.together` prints JSON.

`benchmarks.engine scale` and the tests of distribution start it, each process pinned to a
core, with spec as JSON: the problem, its size, and who else takes part.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from benchmarks.engine.collectives import collectives, sent
from benchmarks.engine.problems import ProblemSpec, built
from gamps import search
from gamps._utils.compile_cache import keep_compiled
from gamps.cluster.joining import Devices, mesh_of
from gamps.datasets import open_shards
from gamps.errors import WorkerError
from gamps.search import placement, streaming


def work(spec: ProblemSpec) -> dict[str, Any]:
    """Take part, and say what came of it."""
    if spec.core >= 0:
        os.sched_setaffinity(0, {spec.core})
    asked = Devices(str(spec.devices), spec.coordinator, spec.processes, spec.process)
    over = mesh_of(asked)
    keep_compiled()
    if spec.shards:
        shards = open_shards(spec.shards)
        found, state = built(spec, shards.shard(0))
        run: Any = partial(_streamed, shards, over)
    else:
        found, state = built(spec)
        if over is not None:
            log = placement.laid_out(found.trajectories, over)
            found = dataclasses.replace(found, trajectories=log)
        run = search.run
    seconds, wire = [], []
    gradient: list[float] = []
    for _ in range(spec.iterations):
        placement.wait("iteration")
        began, before = time.perf_counter(), sent()
        state, _, _ = run(found, jax.random.key(1), state, iterations=1)
        seconds.append(time.perf_counter() - began)
        wire.append(sent() - before)
        # The first moment of Adam after one step is a tenth of the gradient.
        gradient = gradient or _flat(state.optimiser.mu)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    text = search.algorithm.program(found, jax.random.key(1), state) if spec.program else ""
    return {
        "seconds": seconds,
        "wire": wire,
        "gradient": gradient,
        "parameters": _flat(eqx.filter(state.policy, eqx.is_inexact_array)),
        "devices": 1 if over is None else over.size,
        "collectives": collectives(text),
        "peak": peak,
    }


def _streamed(shards: Any, over: Any, found: Any, key: Any, state: Any, *, iterations: int) -> Any:
    return streaming.run(found, shards, key, state, iterations=iterations, over=over)


def _flat(tree: Any) -> list[float]:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(float).tolist()


def together(spec: ProblemSpec, cores: Sequence[int]) -> dict[str, Any]:
    """Run it in one process a core, and give what the first of them says.

    Raises:
      WorkerError: with the last spec of one that failed.
    """
    several = len(cores) > 1
    coordinator = f"127.0.0.1:{free_port()}" if several else ""
    processes = []
    for i, core in enumerate(cores):
        own = dataclasses.replace(
            spec, coordinator=coordinator, processes=len(cores), process=i, core=core
        )
        line = [sys.executable, "-m", "benchmarks.engine.together", json.dumps(asdict(own))]
        processes.append(
            subprocess.Popen(  # noqa: S603 (this very module)
                line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    try:
        answers = [process.communicate(timeout=1200) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, error) in zip(processes, answers, strict=True):
        if process.returncode:
            raise WorkerError("\n".join(error.strip().splitlines()[-5:]))
    found: dict[str, Any] = json.loads(answers[0][0].strip().splitlines()[-1])
    return found


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    print(json.dumps(work(ProblemSpec(**json.loads(sys.argv[1])))))
