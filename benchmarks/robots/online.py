"""SAC that acts as it likes, for as many steps as a campaign. Runs in an environment of its own.

Usage: python benchmarks/robots/online.py Swimmer-v5 OUT.json --episodes 400 --steps 200, where SAC
of sbx is installed as for controller.py. Its settings are sbx's own. After each eighth of the steps
the mean action is worth what is written, in fresh episodes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gymnasium
from controller import worth
from sbx import SAC

ROUNDS, LOOKS = 8, 20


def main() -> None:
    """Train and look, seed by seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("env")
    parser.add_argument("out", type=Path)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102])
    given = parser.parse_args()
    found = []
    for seed in given.seeds:
        env = gymnasium.make(given.env, max_episode_steps=given.steps)
        model = SAC("MlpPolicy", env, seed=seed)
        looks = [float(worth(model, given.env, given.steps, LOOKS).mean())]
        for _ in range(ROUNDS):
            each = given.episodes * given.steps // ROUNDS
            model.learn(each, reset_num_timesteps=False)
            looks.append(float(worth(model, given.env, given.steps, LOOKS).mean()))
            print(seed, f"{looks[-1]:.1f}", flush=True)
        found.append({"seed": seed, "worth_mean_action": looks})
        settings = {"env": given.env, "episodes": given.episodes, "steps": given.steps}
        whole = {"settings": settings, "results": found}
        given.out.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
