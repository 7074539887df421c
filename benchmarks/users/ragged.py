"""One episode of 10,000 steps among 1,000 of 10, beside an even log of as many steps.

    python -m benchmarks.users.ragged FOLDER

`gamps train` and `gamps evaluate` as commands, in processes of their own: seconds of the processor
and memory of both logs, the ratio, and what `gamps inspect` said of them before.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import jax.numpy as jnp
import numpy as np
import tyro

from gamps import datasets
from gamps.policies import Affine, LinearGaussianPolicy
from gamps.trajectories import Episode, from_episodes

STD, GAIN, DISCOUNT = 0.4, 0.3, 0.99


def episode(rng: np.random.Generator, steps: int) -> Episode:
    """A cart that is pushed towards zero, too gently."""
    noise = rng.normal(size=(steps, 2))
    states, actions = [rng.normal(size=2)], []
    for z in noise:
        x, v = states[-1]
        u = -GAIN * x - GAIN * v + STD * z[0]
        actions.append([u])
        states.append(np.array([x + 0.1 * v, 0.95 * v + 0.1 * u + 0.02 * z[1]]))
    s, a = np.array(states, np.float32), np.array(actions, np.float32)
    rewards = -(s[1:, 0] ** 2) - 0.1 * a[:, 0] ** 2
    log_p = -0.5 * noise[:, 0] ** 2 - np.log(STD * np.sqrt(2 * np.pi))
    return Episode(s, a, rewards, log_p)


def write(name: str, lengths: list[int]) -> None:
    """A log with episodes of these lengths."""
    rng = np.random.default_rng(0)
    log = from_episodes([episode(rng, steps) for steps in lengths])
    weights = jnp.array([[-GAIN], [-GAIN], [0.0]])
    policy = LinearGaussianPolicy(weights, Affine(), log_std=jnp.log(jnp.full(1, STD)))
    datasets.save(name, log, policy, discount=DISCOUNT, overwrite=True)


def measured(*command: str) -> tuple[dict[str, float], str]:
    """Processor seconds and memory of one command in a process of its own, and what it printed."""
    program = (
        "import resource, subprocess, sys, json; "
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, "
        "done.stdout, done.stderr[-2000:], done.returncode]))"
    )
    gamps = str(Path(sys.executable).with_name("gamps"))
    run = [sys.executable, "-c", program, gamps, *command]
    done = subprocess.run(run, check=True, capture_output=True, text=True)  # noqa: S603
    seconds, memory, said, complained, status = json.loads(done.stdout)
    if status not in (0, 3, 4):
        raise RuntimeError(f"{command}: {status}\n{complained}")
    return {"seconds": seconds, "GiB": memory}, said


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    long: int = 10_000,
    short: int = 10,
    episodes: int = 1_000,
) -> None:
    """Both logs, both commands."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    even = (long + short * episodes) // (episodes + 1)
    logs = {"even": [even] * (episodes + 1), "ragged": [short] * episodes + [long]}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, lengths in logs.items():
        write(f"ragged/{name}-v0", lengths)
        _, said = measured("inspect", f"ragged/{name}-v0", "--json")
        print(name, [f["found"] for f in json.loads(said) if f["what"] == "cost"], flush=True)
        run = folder / "runs" / name
        shutil.rmtree(run, ignore_errors=True)
        found[name] = {}
        for command in (
            ("train", f"ragged/{name}-v0", "--out", str(run)),
            ("evaluate", str(run)),
        ):
            found[name][command[0]], _ = measured(*command)
            print(name, command[0], found[name][command[0]], flush=True)
    for command in ("train", "evaluate"):
        for unit in ("seconds", "GiB"):
            ratio = found["ragged"][command][unit] / found["even"][command][unit]
            print(f"{command} {unit}: {ratio:.2f}")
    (folder / "ragged.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
