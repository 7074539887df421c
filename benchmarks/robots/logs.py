"""Logs of the robots as Minari datasets: 100,000 steps each, three sizes of noise.

Usage: python -m benchmarks.robots.logs [--robots hopper cheetah reacher] [--noises small medium
large] [--seeds 0 1 2]. They are kept in MINARI_DATASETS_PATH as robots/hopper-medium-0-v0 and so
on; one that is there is left as it is. Needs the extras minari and mujoco.
"""

import jax
import numpy as np
import tyro

from benchmarks.robots.known import DISCOUNT, NOISES, ROBOTS, controller
from gamps import datasets
from gamps._utils import console
from gamps._utils.worker_pool import cores
from gamps.trajectories import Trajectories

STEPS = 100_000
FIRST = 16  # episodes, to see how long they are


def collected(robot: str, noise: str, seed: int, *, workers: int = 1) -> Trajectories:
    """Whole episodes, as few as hold 100,000 steps; an episode depends on its number alone."""
    at, policy = ROBOTS[robot], controller(robot, noise)
    key = jax.random.fold_in(jax.random.key(seed), 0)
    n = FIRST
    while True:
        log = datasets.collect(at.env, policy, key, n=n, steps=at.horizon, workers=workers)
        ends = np.cumsum(np.asarray(log.lengths))
        if ends[-1] >= STEPS:
            break
        n = int(1.1 * STEPS / ends[-1] * n) + 1
    enough = int(np.searchsorted(ends, STEPS)) + 1
    return jax.tree.map(lambda x: x[:enough], log)


def name_of(robot: str, noise: str, seed: int) -> str:
    """Of a dataset."""
    return f"robots/{robot}-{noise}-{seed}-v0"


def main(
    robots: tuple[str, ...] = tuple(ROBOTS),
    noises: tuple[str, ...] = tuple(NOISES),
    seeds: tuple[int, ...] = (0,),
    workers: int = cores(),
) -> None:
    """Collect what is missing, and say what each controller earns with its noise.

    Args:
      robots: which.
      noises: small, medium, large: standard deviation of each action around the controller's.
      seeds: of the logs.
      workers: processes to simulate in.
    """
    table = console.rich_table(
        "Logs of the robots, undiscounted", ["", "noise", "episodes", "steps", "return", "± std"]
    )
    for robot in robots:
        for noise in noises:
            for seed in seeds:
                name = name_of(robot, noise, seed)
                if datasets.folder_of(name).exists():
                    log = datasets.load(name).trajectories
                else:
                    log = collected(robot, noise, seed, workers=workers)
                    datasets.save(
                        name, log, controller(robot, noise), env=ROBOTS[robot].env,
                        steps=ROBOTS[robot].horizon, discount=DISCOUNT,
                    )  # fmt: skip
                returns = np.asarray(log.rewards.sum(axis=1))
                steps, sizes = int(log.lengths.sum()), f"{NOISES[noise]:g}"
                numbers = (f"{returns.mean():.1f}", f"{returns.std():.1f}")
                table.add_row(name, sizes, f"{log.n_trajectories}", f"{steps}", *numbers)
    console.say(table)


if __name__ == "__main__":
    tyro.cli(main)
