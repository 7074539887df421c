"""Train d3rlpy's model-based algorithms, which its last version with them has (1.1.1).

Usage: python train_models.py JOBS.json, jobs and files as in train.py. Runs in an environment of
Python 3.9, made from requirements-models.txt. An ensemble of networks is fitted for as many updates
as the policy has afterwards; both have the library's defaults, and observations are scaled.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import structlog
import torch
from d3rlpy.algos import COMBO, MOPO
from d3rlpy.dynamics import ProbabilisticEnsembleDynamics
from d3rlpy.models.encoders import VectorEncoderFactory
from reading import arrays

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


def main() -> None:
    """All jobs, one after the other, on one core."""
    torch.set_num_threads(1)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        out = Path(job["out"])
        result = train(job)
        part = out.with_suffix(".part")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.replace(out)
        print(f"{out.stem} {result['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
