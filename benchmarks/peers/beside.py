"""One log, one policy file: what it takes with gamps and with d3rlpy, and what each leaves.

Both get the same log of minigolf, written by gamps in Minari's format, and are used as their
documentation says, each in a folder of its own: train, save a policy, use it without the library.
What is counted and tried goes to beside.json; nothing here is about how good the policies are
(run.py is), so trainings are short.

Usage: python -m benchmarks.peers.beside --python PEERS/bin/python [--out docs/results/beside.json]
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import jax
import numpy as np
import tyro

import gamps
from benchmarks.peers import beside_scripts as scripts
from benchmarks.peers.trying import killed, left_in, lines_of, run
from gamps import datasets
from gamps._utils.atomic_io import replace_file
from gamps.envs import Minigolf

EPISODES, ITERATIONS, STEPS = 50, 6, 100
LOG = "golf/day-v0"
GAMPS = str(Path(sys.executable).with_name("gamps"))
TRAIN = f"gamps train {LOG} --task mytask:task --iterations {ITERATIONS} --out run"
EXPORT = "gamps export run --which learned --mean-action"


def spoil(log: Path) -> None:
    """Make one reward of a log not a number."""
    with h5py.File(log, "r+") as file:
        file["episode_3"]["rewards"][0] = np.nan


def of_gamps(root: Path, env: dict[str, str]) -> dict[str, Any]:
    """The commands of the quickstart, on a reward written down in a file."""

    def fresh(name: str) -> Path:
        folder = root / name
        folder.mkdir()
        (folder / "mytask.py").write_text(scripts.TASK, encoding="utf-8")
        return folder

    def command(line: str) -> list[str]:
        return [GAMPS, *line.split()[1:]]

    def policies(folder: Path) -> list[bytes]:
        return [(folder / "run" / name).read_bytes() for name in ("best.json", "last.json")]

    first = fresh("first")
    trained = run(command(TRAIN), first, env, must=True)
    exported = run(command(EXPORT), first, env, must=True)
    left = left_in(first, "mytask.py", ".lock")
    onnx = run(command("gamps export run --which learned --onnx --out onnx"), first, env)
    verdict = json.loads("".join(run(command("gamps evaluate run --json"), first, env).out))
    (alone,) = run([sys.executable, "-c", scripts.GAMPS_ALONE], first, env, must=True).out
    within = gamps.load_policy(first / "run" / "policy")
    predicted = [float(within.mean_action(x)[0]) for x in scripts.observations()]

    again = fresh("again")
    run(command(TRAIN), again, env, must=True)

    cut = fresh("cut")
    metrics = cut / "run" / "metrics.jsonl"
    killed(
        command(TRAIN), cut, env, lambda: metrics.exists() and metrics.read_text().count("\n") > 2
    )
    resumed = run(command("gamps resume run"), cut, env)

    bad = root / "bad"
    shutil.copytree(env["MINARI_DATASETS_PATH"], bad)
    spoil(bad / LOG / "data" / "main_data.hdf5")
    refused = run(command(TRAIN), fresh("nan"), env | {"MINARI_DATASETS_PATH": str(bad)})
    return {
        "lines": {"task": lines_of(scripts.TASK), "commands": 2},
        "commands": [TRAIN, EXPORT],
        "left": left,
        "printed": len(trained.lines) + len(exported.lines),
        "same_bits": policies(first) == policies(again),
        "killed": {
            "how": "gamps resume run",
            "goes_on": resumed.works,
            "same_bits": policies(first) == policies(cut),
        },
        "exports": {
            "StableHLO": {"works": exported.works, "said": exported.said},
            "ONNX": {"works": onnx.works, "said": onnx.said},
        },
        "alone": bool(np.allclose(json.loads(alone), predicted, atol=1e-5)),
        "evaluation": {k: verdict[k] for k in ("word", "why", "improvement", "support")},
        "nan": {"stops": not refused.works, "said": refused.said},
    }


def of_d3rlpy(root: Path, env: dict[str, str], python: str, log: Path) -> dict[str, Any]:
    """IQL with an action scaler, as a script of its own."""
    written = {"train.py": scripts.TRAIN, "resume.py": scripts.RESUME, "more.py": scripts.MORE}

    def fresh(name: str) -> Path:
        folder = root / name
        folder.mkdir()
        (folder / "log.hdf5").write_bytes(log.read_bytes())
        for file, script in written.items():
            (folder / file).write_text(scripts.READ + script, encoding="utf-8")
        return folder

    def actions(folder: Path) -> list[float]:
        return json.loads(run([python, "-c", scripts.TORCH_ALONE], folder, env, must=True).out[-1])

    first = fresh("first")
    trained = run([python, "train.py"], first, env, must=True)
    left = left_in(first, "log.hdf5", *written)
    alone = actions(first)
    more = run([python, "more.py"], first, env, must=True)
    found = json.loads(more.out[-1])
    (checkpoint,) = first.glob(f"d3rlpy_logs/IQL_*/model_{STEPS}.d3")

    again = fresh("again")
    run([python, "train.py"], again, env, must=True)

    cut = fresh("cut")
    half = f"d3rlpy_logs/IQL_*/model_{STEPS // 2}.d3"
    whole = next(first.glob(half)).stat().st_size
    killed(
        [python, "train.py"],
        cut,
        env,
        lambda: any(p.stat().st_size == whole for p in cut.glob(half)),
    )
    resumed = run([python, "resume.py"], cut, env)

    bad = fresh("nan")
    spoil(bad / "log.hdf5")
    took = run([python, "train.py"], bad, env)
    warned = [line for line in more.lines if "warn" in line.lower() and "scaler" in line]
    return {
        "lines": {"read": lines_of(scripts.READ), "train": lines_of(scripts.TRAIN)},
        "left": left,
        "printed": len(trained.lines),
        "same_bits": alone == actions(again),
        "killed": {
            "how": "d3rlpy.load_learnable, set_grad_step and fit",
            "lines": lines_of(scripts.RESUME),
            "goes_on": resumed.works,
            "same_bits": resumed.works and alone == actions(cut),
        },
        "exports": {"TorchScript": {"works": True, "said": ""}, "ONNX": found["onnx"]},
        "alone": bool(np.allclose(alone, found["predicted"], atol=1e-5)),
        "cloned": found["cloned"] | {"warned": bool(warned)},
        "evaluation": found["evaluation"],
        "checkpoint_is_pickle": checkpoint.read_bytes()[:1] == b"\x80",
        "nan": {"stops": not took.works, "said": took.said},
        "algorithms": found["algorithms"],
        "versions": found["versions"],
    }


def main(python: str, out: Path = Path("docs/results/beside.json")) -> None:
    """Write beside.json.

    Args:
      python: of the peers' environment.
      out: the file.
    """
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        env = os.environ | {"MINARI_DATASETS_PATH": str(root / "logs"), "OMP_NUM_THREADS": "1"}
        env |= {"XDG_CACHE_HOME": str(root / "cache"), "COLUMNS": "100"}
        os.environ["MINARI_DATASETS_PATH"] = env["MINARI_DATASETS_PATH"]
        game = Minigolf()
        log = datasets.collect(game, game.policy(), jax.random.key(0), n=EPISODES, steps=20)
        datasets.save(LOG, log, game.policy(), env="gamps/Minigolf-v0", steps=20, discount=0.99)
        file = datasets.folder_of(LOG) / "data" / "main_data.hdf5"
        for part in ("gamps", "d3rlpy"):
            (root / part).mkdir()
        # Nothing here is timed, so both may run at once.
        with ThreadPoolExecutor() as pool:
            ours = pool.submit(of_gamps, root / "gamps", env)
            theirs = pool.submit(of_d3rlpy, root / "d3rlpy", env, python, file)
            results = {"gamps": ours.result(), "d3rlpy": theirs.result()}
    versions = {"gamps": gamps.__version__, "jax": jax.__version__}
    versions |= results["d3rlpy"].pop("versions")
    settings = {"episodes": EPISODES, "iterations": ITERATIONS, "steps": STEPS}
    content = {"settings": settings | {"versions": versions}, "results": results}
    with replace_file(out) as path:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(content, indent=1))


if __name__ == "__main__":
    tyro.cli(main)
