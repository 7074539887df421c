"""Train d3rlpy's algorithms for discrete actions. Runs in the environment of `benchmarks/peers`.

Usage: python -m benchmarks.sepsis.deep LOG.npz JOBS.json. The log holds states, actions, rewards
and the steps of each episode. A job is {"algorithm", "settings", "steps", "seed", "out": file};
its file holds the action that is chosen in each state. States are one-hot vectors.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import structlog
import torch
from d3rlpy.algos import DiscreteBCConfig, DiscreteBCQConfig, DiscreteCQLConfig
from d3rlpy.models.encoders import VectorEncoderFactory

from benchmarks.peers.jobs import sample_quickly

CONFIGS = {"bc": DiscreteBCConfig, "bcq": DiscreteBCQConfig, "cql": DiscreteCQLConfig}
WIDTH = 64


def read(path: Path) -> tuple[d3rlpy.dataset.MDPDataset, np.ndarray]:
    """The log as d3rlpy takes it, and every state's one-hot vector."""
    log = np.load(path)
    states = np.eye(int(log["n_states"]), dtype=np.float32)
    ends = np.zeros(len(log["states"]), np.float32)
    ends[np.cumsum(log["steps"]) - 1] = 1.0
    dataset = d3rlpy.dataset.MDPDataset(
        observations=states[log["states"]],
        actions=log["actions"][:, None],
        rewards=log["rewards"].astype(np.float32),
        terminals=ends,
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=int(log["n_actions"]),
    )
    return dataset, states


def train(job: dict[str, Any], dataset: d3rlpy.dataset.MDPDataset, states: np.ndarray) -> list[int]:
    """One algorithm: the action that it prefers in each state."""
    d3rlpy.seed(job["seed"])
    sample_quickly(dataset, job["seed"])
    network = VectorEncoderFactory(hidden_units=[WIDTH, WIDTH])
    config = CONFIGS[job["algorithm"]](encoder_factory=network, **job["settings"])
    algo = config.create(device="cpu:0")
    algo.fit(
        dataset,
        n_steps=job["steps"],
        n_steps_per_epoch=job["steps"],
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    return [int(action) for action in algo.predict(states)]


def main() -> None:
    """All jobs on one log, one after the other, on one core."""
    torch.set_num_threads(1)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    dataset, states = read(Path(sys.argv[1]))
    for job in json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")):
        out = Path(job["out"])
        out.write_text(json.dumps(train(job, dataset, states)), encoding="utf-8")


if __name__ == "__main__":
    main()
