"""How far a linear policy can go on Swimmer: the cross-entropy method in the simulator itself.

What no log allows: candidates are tried in MuJoCo, whole episodes of 200 steps, undiscounted.

Usage: python -m benchmarks.swimmer_limit [--generations 20] [--seed 0]
"""

import gymnasium
import numpy as np
import tyro

from benchmarks.studies.awareness.swimmer import episode, searched
from gamps.envs import swimmer


def main(generations: int = 20, seed: int = 0) -> None:
    """Print the return of the mean policy on five fresh episodes, every fourth generation."""
    env = gymnasium.make(swimmer.ID, max_episode_steps=swimmer.HORIZON)

    def tell(generation: int, middle: np.ndarray) -> None:
        if generation % 4 == 3:
            fresh = np.mean([episode(env, middle, 1_000 + i) for i in range(5)])
            print(f"generation {generation + 1}: mean policy {fresh:.1f}", flush=True)

    searched(generations, seed, tell)


if __name__ == "__main__":
    tyro.cli(main)
