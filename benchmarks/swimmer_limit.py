"""How far a linear policy can go on Swimmer: the cross-entropy method in the simulator itself.

What no log allows: candidates are tried in MuJoCo, whole episodes of 200 steps, undiscounted.

Usage: python benchmarks/swimmer_limit.py [--generations 20] [--seed 0]
"""

import gymnasium
import numpy as np
import tyro

from gamps.envs import swimmer

POPULATION, ELITE = 40, 8


def main(generations: int = 20, seed: int = 0) -> None:
    """Print the return of the mean policy on five fresh episodes, every fourth generation."""
    env = gymnasium.make(swimmer.ID, max_episode_steps=swimmer.HORIZON)
    rng = np.random.default_rng(seed)
    shape = (swimmer.OBSERVATIONS + 1, swimmer.ACTIONS)

    def episode(weights: np.ndarray, number: int) -> float:
        observation, _ = env.reset(seed=number)
        total, over = 0.0, False
        while not over:
            action = weights.reshape(shape).T @ np.append(observation, 1.0)
            observation, reward, _, over, _ = env.step(np.clip(action, -1, 1))
            total += float(reward)
        return total

    middle, spread = np.zeros(shape).ravel(), np.full(shape, 0.5).ravel()
    for generation in range(generations):
        candidates = middle + spread * rng.standard_normal((POPULATION, middle.size))
        worth = [episode(candidate, generation) for candidate in candidates]
        best = candidates[np.argsort(worth)[-ELITE:]]
        middle, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        if generation % 4 == 3:
            fresh = np.mean([episode(middle, 1_000 + i) for i in range(5)])
            print(f"generation {generation + 1}: mean policy {fresh:.1f}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
