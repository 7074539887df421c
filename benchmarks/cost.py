"""Memory and time of the default by the size of the log: what `gamps inspect` foretells.

Usage: python -m benchmarks.cost [--episodes 20 100 400]; each size in a process of its own.
"""

import resource
import subprocess
import sys
import time

import jax
import tyro

from gamps import datasets
from gamps.envs import swimmer
from gamps.learner import Learner, Settings, model_classes

ITERATIONS = 12


def measure(episodes: int) -> None:
    """A short training on a log of Swimmer, 200 steps an episode."""
    log = datasets.collect(
        swimmer.ID, swimmer.policy(), jax.random.key(0), n=episodes, steps=swimmer.HORIZON
    )
    learner = Learner(
        jax.random.key(1),
        log,
        swimmer.task(),
        swimmer.policy(),
        model_classes(swimmer.clipped),
        settings=Settings(iterations=ITERATIONS),
    )
    progress, seconds = learner.start(), []
    for _ in range(ITERATIONS):
        began = time.perf_counter()
        progress, _ = learner.step(progress)
        seconds.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    usual = sorted(seconds[1:-1])[len(seconds) // 2 - 1]
    print(f"{200 * episodes} transitions: {peak:.0f} MB at most; fitting and compiling "
          f"{seconds[0]:.0f} s, then {usual:.2f} s an iteration", flush=True)  # fmt: skip


def main(episodes: tuple[int, ...] = (20, 100, 400), one: int = 0) -> None:
    """Print a line for each size."""
    if one:
        measure(one)
        return
    for size in episodes:
        command = [sys.executable, __file__, "--one", str(size)]
        subprocess.run(command, check=True)  # noqa: S603 - the command is ours


if __name__ == "__main__":
    tyro.cli(main)
