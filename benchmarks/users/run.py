"""Each log through the six commands, and what its plant says of the policy that was certified.

`python -m benchmarks.users.run FOLDER` writes `users.json` there; commands are run as a user would.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.users.logs import CONTROLLERS, IMPORTS, PLANTS, write
from benchmarks.users.plants import Act, returns, run
from gamps import load_policy
from gamps.policies import rebuild

FRESH = 20_000  # episodes of a plant, the same noise for both policies
DRAWS = 20  # that the exported program and the policy that it is said to be have in common


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One of gamps's, as a process of its own."""
    kept = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}  # which tests have
    environment = kept | {"MINARI_DATASETS_PATH": str(folder / "datasets")}
    call = [sys.executable, "-c", "from gamps.cli import main; main()", *words]
    return subprocess.run(  # noqa: S603
        call, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def exported(folder: Path) -> Act:
    """The policy of an export, for many observations at once."""
    deployed = load_policy(folder)
    policy = rebuild(deployed.header["policy"])
    size, dtype = deployed.header["noise"], deployed.header["observation"]["dtype"]
    many = jax.jit(jax.vmap(policy.act))

    def act(observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = rng.normal(size=(len(observations), size)).astype(np.float32)
        return np.asarray(many(jnp.asarray(observations, dtype), noise))

    rng = np.random.default_rng(0)
    least, most = (np.asarray(deployed.header["observation"][x]) for x in ("least", "most"))
    for seed in range(DRAWS):
        seen = rng.uniform(least, most).astype(dtype)
        one = deployed.sample(seen, np.random.default_rng(seed))
        noise = jnp.asarray(np.random.default_rng(seed).standard_normal(size), jnp.float32)
        np.testing.assert_allclose(one, policy.act(jnp.asarray(seen), noise), rtol=1e-4, atol=1e-5)
    return act


def through(name: str, folder: Path, *, iterations: int = 80, seed: int = 0) -> dict[str, Any]:
    """All commands on one log, in order; the verdict, and the truth."""
    log, out = f"users/{name}-v0", f"runs/{name}"
    said = {}
    for words in (
        ("import", f"{name}.csv", *IMPORTS[name], "--dataset", log),
        ("inspect", log),
        ("train", log, "--out", out, "--iterations", str(iterations), "--seed", str(seed)),
        ("evaluate", out, "--json"),
        ("report", out),
        ("export", out, "--out", f"exported/{name}"),
    ):
        done = command(folder, *words)
        said[words[0]] = done
        if done.returncode not in ((0, 3, 4) if words[0] == "evaluate" else (0,)):
            raise RuntimeError(f"gamps {' '.join(words)}: {done.stdout}{done.stderr}")
    verdict = json.loads(said["evaluate"].stdout)
    plant = PLANTS[name]
    before, after = (
        returns(plant, run(plant, act, FRESH, 10_000 + seed))
        for act in (CONTROLLERS[name], exported(folder / "exported" / name))
    )
    gains = after - before
    return {
        "log": name,
        "verdict": verdict["word"],
        "bound": verdict["improvement"]["low"] if isinstance(verdict["improvement"], dict)
        else verdict["improvement"][1],
        "true": float(gains.mean()),
        "error": float(gains.std(ddof=1) / np.sqrt(len(gains))),
        "controller": float(before.mean()),
        "account": [line for line in said["import"].stdout.splitlines() if " rows: " in line],
    }  # fmt: skip


def main() -> None:
    """All three, and a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write(given.folder, given.seed)
    rows = [through(name, given.folder, seed=given.seed) for name in PLANTS]
    content = json.dumps(
        {"settings": {"seed": given.seed, "fresh": FRESH}, "results": rows}, indent=1
    )
    (given.folder / "users.json").write_text(content + "\n", encoding="utf-8")
    for row in rows:
        print(f"{row['log']}: {row['verdict']}, at least {row['bound']:.3g}; true "
              f"{row['true']:.3g} ± {row['error']:.1g} over {row['controller']:.3g}")  # fmt: skip


if __name__ == "__main__":
    main()
