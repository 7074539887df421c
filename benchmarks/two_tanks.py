"""Twenty logs of the two-tank controller through the commands, and the true return of each policy.

For every seed: a log as a table, then `gamps import`, `gamps inspect`, `gamps train`, `gamps
export`, each a process of its own, as a user runs them. Then the policy controls the true plant,
after the exported program has been seen to act the same.

Usage: python -m benchmarks.two_tanks [--seeds 20] [--iterations 40]
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro

from gamps.deployment.load import load_policy
from gamps.envs import TwoTanks, collect, tanks
from gamps.policies import rebuild

GAMPS = [sys.executable, "-c", "from gamps.cli import main; main()"]
TASK = ["--task", "gamps.envs.tanks:task"]
COLUMNS = ["--episode", "run", "--observations", "h1", "h2", "--actions", "pump",
           "--reward", "reward", "--log-prob", "logp"]  # fmt: skip
EPISODES, FRESH = 60, 500


def write_log(path: Path, seed: int) -> None:
    """A day's log of the controller as a plant would write it: one row a step."""
    log = collect(TwoTanks(), tanks.policy(), jax.random.key(seed), n=EPISODES, steps=tanks.HORIZON)
    levels, pump = np.asarray(log.observations), np.asarray(log.actions)[..., 0]
    reward, log_prob = np.asarray(log.rewards), np.asarray(log.behaviour_log_prob)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["run", "t", "h1", "h2", "pump", "reward", "logp"])
        for i in range(EPISODES):
            for t in range(tanks.HORIZON):
                table.writerow([i, t, *levels[i, t], pump[i, t], reward[i, t], log_prob[i, t]])
            table.writerow([i, tanks.HORIZON, *levels[i, -1], "", "", ""])  # where the run ended


def mean_action(out: Path):
    """The policy of a run, without its noise, after a comparison with the exported program."""
    policy = rebuild(json.loads((out / "best.json").read_text()))
    policy = eqx.tree_at(lambda p: p.log_std, policy, jnp.full_like(policy.log_std, -20.0))
    exported = load_policy(out / "policy")
    for levels in np.random.default_rng(0).uniform(0, 1, (50, 2)).astype(np.float32):
        if not np.allclose(
            exported.mean_action(levels), policy.mean(jnp.asarray(levels)), atol=1e-6
        ):
            sys.exit("the exported policy acts differently")
    return policy


def returns(policy, seed):
    """Discounted, of fresh episodes of the true plant; the same starts for both policies."""
    fresh = collect(TwoTanks(), policy, jax.random.key(seed), n=FRESH, steps=tanks.HORIZON)
    return np.asarray(jnp.sum(tanks.DISCOUNT ** jnp.arange(tanks.HORIZON) * fresh.rewards, axis=1))


def main(seeds: int = 20, iterations: int = 40) -> None:
    """Print both returns of every seed, and the improvement with its standard error."""
    gains = []
    with tempfile.TemporaryDirectory() as name:
        os.environ["MINARI_DATASETS_PATH"] = str(Path(name) / "data")
        for seed in range(seeds):
            log, data = f"{name}/log{seed}.csv", f"tanks/seed{seed}-v0"
            out = f"{name}/run{seed}"
            write_log(Path(log), seed)
            features = ["--features", "gamps.envs.tanks:clipped", "--iterations", str(iterations)]
            for command in (
                [*GAMPS, "import", log, *COLUMNS, "--dataset", data],
                [*GAMPS, "inspect", data, *TASK],
                [*GAMPS, "train", data, *TASK, *features, "--out", out],
                [*GAMPS, "export", out, "--which", "learned", "--mean-action"],
            ):
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
            before, after = (
                returns(policy, 10_000 + seed)
                for policy in (tanks.policy(), mean_action(Path(out)))
            )
            gain = after - before
            error = gain.std(ddof=1) / np.sqrt(FRESH)
            gains.append(gain.mean())
            print(f"seed {seed}: {before.mean():.1f} -> {after.mean():.1f}, better by "
                  f"{gain.mean():.1f} ± {error:.1f}", flush=True)  # fmt: skip
    error = np.std(gains, ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
    print(f"{seeds} logs: better by {np.mean(gains):.1f} ± {error:.1f} (standard error), "
          f"least {np.min(gains):.1f}")  # fmt: skip


if __name__ == "__main__":
    tyro.cli(main)
