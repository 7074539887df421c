"""Values of given policies by d3rlpy's FQE and by SCOPE-RL. Runs in the peers' own environment.

Usage: python judge.py JOBS.json, a list of jobs, each {"log": file of arrays, "weights", "centres",
"width", "std": of the policy, "seed", "out": file}. A job's file is written when it is done: the
estimates by name. The truth is not known here.
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
from d3rlpy.ope import FQE, FQEConfig
from jobs import sample_quickly
from scope_rl.ope.continuous import (
    DoublyRobust,
    PerDecisionImportanceSampling,
    SelfNormalizedPDIS,
)

STEPS = 10_000
SAMPLES = 100  # actions at each start
GAMMA = 0.99


class Given:
    """A policy of radial basis functions, as much of an algorithm as FQE asks for."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.weights, self.centres = (torch.tensor(job[k]).float() for k in ("weights", "centres"))
        self.width, self.std = job["width"], job["std"]
        self.impl = self

    def mean(self, x: torch.Tensor) -> torch.Tensor:
        """Of the action."""
        bumps = torch.exp(-0.5 * ((x - self.centres.T) / self.width) ** 2)
        return bumps @ self.weights

    def predict_best_action(self, x: torch.Tensor) -> torch.Tensor:
        """A draw: FQE of a stochastic policy needs its actions, not their mean."""
        return self.mean(x) + self.std * torch.randn(len(x), 1)


def fitted(job: dict[str, Any], log: Any, policy: Given) -> tuple[float, Any]:
    """FQE with d3rlpy's own settings, and its Q."""
    ends = log["terminated"].astype(np.float32)
    dataset = d3rlpy.dataset.MDPDataset(
        log["states"], log["actions"], log["rewards"], ends, timeouts=log["last"] * (1 - ends),
        action_space=d3rlpy.ActionSpace.CONTINUOUS,
    )  # fmt: skip
    d3rlpy.seed(job["seed"])
    sample_quickly(dataset, job["seed"])
    fqe = FQE(policy, FQEConfig(gamma=GAMMA))
    fqe.fit(dataset, n_steps=STEPS, n_steps_per_epoch=STEPS, show_progress=False,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory())  # fmt: skip

    def state_value(states: np.ndarray) -> np.ndarray:
        """The mean of Q over actions of the policy."""
        x = np.repeat(states, SAMPLES, axis=0)
        acted = policy.predict_best_action(torch.tensor(x)).detach().numpy()
        return fqe.predict_value(x, acted).reshape(-1, SAMPLES).mean(axis=1)

    return float(state_value(log["starts"]).mean()), (fqe.predict_value, state_value)


def scope(log: Any, policy: Given, values: Any) -> dict[str, float]:
    """SCOPE-RL's estimators for continuous actions; its kernel stands for a density."""
    mask = log["mask"]
    n, steps = mask.shape
    shape = {"step_per_trajectory": steps, "gamma": GAMMA}
    mean = np.zeros((n * steps, 1), np.float32)
    rows = mask.ravel()
    mean[rows] = policy.mean(torch.tensor(log["states"])).detach().numpy()
    acted, reward = mean.copy(), np.zeros(n * steps)
    acted[rows], reward[rows] = log["actions"], log["rewards"]
    q, v = np.zeros((2, n * steps))
    predict, state_value = values
    q[rows], v[rows] = predict(log["states"], log["actions"]), state_value(log["states"])
    found = {}
    for name, width in (("", 1.0), (", bandwidth σ", policy.std)):
        # Past the end a weight of one: the kernel at its middle, over the same.
        density = np.full((n * steps, 1), 1 / (np.sqrt(2 * np.pi) * width))
        density[rows, 0] = np.exp(log["densities"])
        rest = shape | {
            "action": acted, "reward": reward, "pscore": density, "kernel": "gaussian",
            "evaluation_policy_action": mean, "bandwidth": float(width),
        }  # fmt: skip
        for estimator in (PerDecisionImportanceSampling(), SelfNormalizedPDIS()):
            label = f"SCOPE-RL {estimator.estimator_name}{name}"
            found[label] = float(estimator.estimate_policy_value(**rest))
        pair = np.stack([q, v], axis=1)
        robust = DoublyRobust().estimate_policy_value(**rest, state_action_value_prediction=pair)
        found[f"SCOPE-RL dr, d3rlpy's Q{name}"] = float(robust)
    return found


def main() -> None:
    """Every job that was not done before."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    torch.set_num_threads(1)
    for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        out = Path(job["out"])
        if out.exists() and json.loads(out.read_text(encoding="utf-8"))["job"] == job:
            continue
        log, policy = np.load(job["log"], allow_pickle=False), Given(job)
        value, q = fitted(job, log, policy)
        found = {"d3rlpy FQE": value} | scope(log, policy, q)
        temporary = out.with_suffix(".part")
        temporary.write_text(json.dumps({"job": job, "found": found}) + "\n", encoding="utf-8")
        temporary.replace(out)
        print(out.name, flush=True)


if __name__ == "__main__":
    main()
