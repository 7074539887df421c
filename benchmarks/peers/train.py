"""Train d3rlpy's algorithms on logs that gamps wrote. Runs in the peers' own environment.

Usage: python train.py JOBS.json, a list of jobs, each {"log": folder of a Minari dataset,
"algorithm", "settings", "steps", "seed", "bounds", "out": file}. A job's file is
written when it is done: the actor at ten checkpoints as plain numbers, what its own critic thinks
of the logged start states, and the processor's seconds of training. Evaluation is not done here,
but in the same simulator for all.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.algos import (
    AWACConfig,
    BCConfig,
    CQLConfig,
    IQLConfig,
    ReBRACConfig,
    TD3PlusBCConfig,
)
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.optimizers.optimizers import OptimizerWrapper
from d3rlpy.preprocessing import (
    MinMaxActionScaler,
    StandardObservationScaler,
)
from jobs import arrays, sample_quickly, work

CONFIGS = {
    "bc": BCConfig,
    "iql": IQLConfig,
    "cql": CQLConfig,
    "td3bc": TD3PlusBCConfig,
    "awac": AWACConfig,
    "rebrac": ReBRACConfig,
}
CHECKPOINTS = 10
WIDTH = 64


def read(folder: Path, bounds: tuple[float, float]) -> tuple[d3rlpy.dataset.MDPDataset, np.ndarray]:
    """The log as d3rlpy takes it, and its start states."""
    fields, starts = arrays(folder, bounds)
    return d3rlpy.dataset.MDPDataset(**fields, action_space=d3rlpy.ActionSpace.CONTINUOUS), starts


def config_of(algorithm: str, settings: dict[str, Any]) -> Any:
    """The algorithm's own defaults, but for the width of its networks and what a trial changes.

    Without an action scaler d3rlpy limits a policy to [-1, 1], so it has one in every trial.
    """
    rest = dict(settings)
    scaled = rest.pop("scale_observations", False)
    config = CONFIGS[algorithm]
    network = VectorEncoderFactory(hidden_units=[WIDTH, WIDTH])
    for name in config.__dataclass_fields__:
        if name.endswith("encoder_factory"):
            rest[name] = network
    rest["action_scaler"] = MinMaxActionScaler()
    if scaled:
        rest["observation_scaler"] = StandardObservationScaler()
    return config(**rest)


def fuse(algo: Any) -> None:
    """One call per step of Adam, in place of PyTorch's loop in Python over parameters."""
    modules = algo.impl.modules
    for name in modules.__dataclass_fields__:
        wrapped = getattr(modules, name)
        if isinstance(wrapped, OptimizerWrapper):
            for group in wrapped.optim.param_groups:
                group["fused"] = True


def actor_of(algo: Any) -> dict[str, Any]:
    """The policy's mean action: dense layers with ReLU between, tanh, and both scalers."""
    modules = algo.impl.modules
    policy = modules.imitator if hasattr(modules, "imitator") else modules.policy
    layers = [m for m in policy._encoder._layers if isinstance(m, torch.nn.Linear)]
    layers.append(policy._fc if hasattr(policy, "_fc") else policy._mu)
    observed, acted = algo.observation_scaler, algo.action_scaler
    return {
        "layers": [
            [layer.weight.detach().numpy().tolist(), layer.bias.detach().numpy().tolist()]
            for layer in layers
        ],
        "observations": None
        if observed is None
        else [observed.mean.tolist(), (observed.std + observed.eps).tolist()],
        "actions": [acted.minimum.tolist(), acted.maximum.tolist()],
    }


def train(job: dict[str, Any]) -> dict[str, Any]:
    """One algorithm on one log."""
    d3rlpy.seed(job["seed"])
    dataset, starts = read(Path(job["log"]), job["bounds"])
    began = time.process_time()
    sample_quickly(dataset, job["seed"])
    algo = config_of(job["algorithm"], job["settings"]).create(device="cpu:0")
    algo.build_with_dataset(dataset)
    fuse(algo)
    each = max(job["steps"] // CHECKPOINTS, 1)
    checkpoints = []
    training = algo.fitter(
        dataset,
        n_steps=job["steps"],
        n_steps_per_epoch=each,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    for _ in training:
        actions = algo.predict(starts)
        value = None
        if job["algorithm"] != "bc":
            value = float(np.mean(algo.predict_value(starts, actions)))
        checkpoints.append(
            {"actor": actor_of(algo), "value": value, "actions": actions[:8].tolist()}
        )
    seconds = time.process_time() - began
    return {"checkpoints": checkpoints, "starts": starts[:8].tolist(), "seconds": seconds}


if __name__ == "__main__":
    work(train)
