"""What the first controllers earn, and what NMPC that knows the model does.

    python -m benchmarks.process --out process.json

Discounted returns: of the PID with its dither by fresh episodes, of NMPC without any.
"""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

from benchmarks.process import plants
from gamps import datasets
from gamps.trajectories import returns_of


def main(out: Path = Path("process.json"), episodes: int = 200, starts: int = 20) -> None:
    """Both plants."""
    found: dict[str, Any] = {}
    for name, make, plant, policy in (
        ("reactor", plants.reactor, plants.REACTOR, plants.reactor_pid()),
        ("four_tanks", plants.four_tanks, plants.FOUR_TANKS, plants.four_tanks_pid()),
    ):
        log = datasets.collect(make, policy, jax.random.key(10**6), n=episodes, steps=plant.steps)
        oracle = []
        for seed in range(starts):
            loop = make()
            loop.reset(seed=seed)
            oracle.append(plants.by_oracle(plant, loop.start))
        by_name = {"pid": returns_of(log, plants.DISCOUNT), "oracle": np.array(oracle)}
        found[name] = {
            key: {"mean": float(x.mean()), "error": float(x.std(ddof=1) / np.sqrt(len(x)))}
            for key, x in by_name.items()
        }
        print(name, found[name], flush=True)
    settings = {"episodes": episodes, "starts": starts}
    out.write_text(json.dumps({"settings": settings, "results": found}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
