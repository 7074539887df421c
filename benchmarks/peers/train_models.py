"""Train d3rlpy's model-based algorithms, which its last version with them has (1.1.1).

Usage: python train_models.py JOBS.json, jobs and files as in train.py. Runs in an environment of
Python 3.9, made from requirements-models.txt. An ensemble of networks is fitted for as many updates
as the policy has afterwards; both have the library's defaults, and observations are scaled.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
from d3rlpy.algos import COMBO, MOPO
from d3rlpy.dynamics import ProbabilisticEnsembleDynamics
from d3rlpy.models.encoders import VectorEncoderFactory
from jobs import arrays, work

ALGORITHMS = {"mopo": MOPO, "combo": COMBO}
CHECKPOINTS = 10
WIDTH = 64


def actor_of(algo: Any) -> dict[str, Any]:
    """The policy's mean action, as train.py writes it."""
    policy = algo.impl.policy
    observed, acted = algo.scaler.get_params(), algo.action_scaler.get_params()
    return {
        "layers": [
            [layer.weight.detach().numpy().tolist(), layer.bias.detach().numpy().tolist()]
            for layer in (*policy._encoder._fcs, policy._mu)
        ],
        "observations": [
            observed["mean"].ravel().tolist(),
            (observed["std"] + observed["eps"]).ravel().tolist(),
        ],
        "actions": [acted["minimum"].ravel().tolist(), acted["maximum"].ravel().tolist()],
    }


def train(job: dict[str, Any]) -> dict[str, Any]:
    """One algorithm on one log: its models first."""
    d3rlpy.seed(job["seed"])
    fields, starts = arrays(Path(job["log"]), job["bounds"])
    ends = np.maximum(fields["terminals"], fields["timeouts"])
    dataset = d3rlpy.dataset.MDPDataset(
        *(fields[name] for name in ("observations", "actions", "rewards", "terminals")),
        episode_terminals=ends,
    )
    began = time.process_time()
    common: dict[str, Any] = {"scaler": "standard", "action_scaler": "min_max"}
    quiet = {"save_metrics": False, "verbose": False, "show_progress": False}
    models = ProbabilisticEnsembleDynamics(**common)
    each = max(job["steps"] // CHECKPOINTS, 1)
    models.fit(dataset, n_steps=job["steps"], n_steps_per_epoch=each, **quiet)
    network = VectorEncoderFactory(hidden_units=[WIDTH, WIDTH])
    algo = ALGORITHMS[job["algorithm"]](
        dynamics=models,
        actor_encoder_factory=network,
        critic_encoder_factory=network,
        **common,
        **job["settings"],
    )
    checkpoints = []
    for _ in algo.fitter(dataset, n_steps=job["steps"], n_steps_per_epoch=each, **quiet):
        actions = algo.predict(starts)
        value = float(np.mean(algo.predict_value(starts, actions)))
        checkpoints.append(
            {"actor": actor_of(algo), "value": value, "actions": actions[:8].tolist()}
        )
    seconds = time.process_time() - began
    return {"checkpoints": checkpoints, "starts": starts[:8].tolist(), "seconds": seconds}


if __name__ == "__main__":
    work(train)
