"""A day's log of the level controller as a plant would write it: one CSV, one row a step.

Usage: python write_log.py log.csv [--seed 0] [--episodes 60] [--no-densities]
"""

import csv
from pathlib import Path

import jax
import numpy as np
import tyro

from gamps.envs import TwoTanks, collect, tanks


def main(
    path: tyro.conf.Positional[Path], seed: int = 0, episodes: int = 60, densities: bool = True
) -> None:
    """Run the controller and write what it saw and did."""
    log = collect(TwoTanks(), tanks.policy(), jax.random.key(seed), n=episodes, steps=tanks.HORIZON)
    levels, pump = np.asarray(log.observations), np.asarray(log.actions)[..., 0]
    reward, log_prob = np.asarray(log.rewards), np.asarray(log.behaviour_log_prob)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["run", "t", "h1", "h2", "pump", "reward", *(["logp"] * densities)])
        for i in range(episodes):
            for t in range(tanks.HORIZON):
                step = [pump[i, t], reward[i, t], *([log_prob[i, t]] * densities)]
                table.writerow([i, t, *levels[i, t], *step])
            # Where the run ended: levels only.
            table.writerow([i, tanks.HORIZON, *levels[i, -1], "", "", *([""] * densities)])


if __name__ == "__main__":
    tyro.cli(main)
