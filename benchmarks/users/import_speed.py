"""`gamps import` of a large table, beside pyarrow reading the file and h5py writing the arrays.

    python -m benchmarks.users.import_speed FOLDER

Each way runs in a process of its own, once to warm the disk and then three times; the fastest
counts. Bare: one call of pyarrow, and the arrays of each episode written as Minari lays them out.
"""

import itertools
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

OBSERVATIONS, ACTIONS = tuple(f"x{i}" for i in range(4)), ("u",)
TIMES = 3


def write(path: Path, rows: int, steps: int) -> None:
    """A table of so many rows, in episodes of so many steps: names, numbers, a flag."""
    import pyarrow
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    number = np.arange(rows) // steps
    names = np.array([f"run-{i:06d}" for i in range(rows // steps + 1)])
    table = pyarrow.table(
        {
            "run": names[number],
            **{name: rng.normal(size=rows) for name in OBSERVATIONS},
            **{f"next_{name}": np.zeros(rows) for name in OBSERVATIONS},
            "u": rng.normal(size=rows),
            "reward": rng.normal(size=rows),
            "logp": -rng.random(rows),
            "done": ((np.arange(rows) % steps == steps - 1) & (number % 2 == 0)).astype(int),
        }
    )
    for name in OBSERVATIONS:
        following = np.append(table[name].to_numpy()[1:], 0.0)
        place = table.column_names.index(f"next_{name}")
        table = table.set_column(place, f"next_{name}", pyarrow.array(following))
    (parquet.write_table if path.suffix == ".parquet" else csv.write_csv)(table, path)


def bare(path: Path, folder: Path) -> None:
    """Only what has to be done."""
    import h5py
    from pyarrow import csv, parquet

    table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    names = table["run"].to_numpy()
    numbers = {n: table[n].to_numpy() for n in table.column_names if n != "run"}
    starts = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1), len(names)]
    seen = np.stack([numbers[n] for n in OBSERVATIONS], axis=1).astype(np.float32)
    led = np.stack([numbers[f"next_{n}"] for n in OBSERVATIONS], axis=1).astype(np.float32)
    acted = np.stack([numbers[n] for n in ACTIONS], axis=1).astype(np.float32)
    with h5py.File(folder / "bare.hdf5", "w") as file:
        for i, (start, stop) in enumerate(itertools.pairwise(starts)):
            group = file.create_group(f"episode_{i}")
            rows, last = slice(start, stop), np.arange(stop - start) == stop - start - 1
            group["observations"] = np.concatenate([seen[rows], led[stop - 1 : stop]])
            group["actions"] = acted[rows]
            group["rewards"] = numbers["reward"][rows]
            group["terminations"] = last & (numbers["done"][stop - 1] != 0)
            group["truncations"] = last & (numbers["done"][stop - 1] == 0)
            log_prob = np.append(np.nan, numbers["logp"][rows])[:, None]
            group.create_group("infos")["behavior_log_prob"] = log_prob


def ours(path: Path, folder: Path) -> None:
    """The command's own function."""
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    from gamps.cli.importing import import_

    import_(
        path, dataset="speed/table-v0", observations=OBSERVATIONS, actions=ACTIONS,
        reward="reward", episode="run", log_prob="logp", terminated="done",
        next_observations=tuple(f"next_{n}" for n in OBSERVATIONS), overwrite=True,
    )  # fmt: skip


def child(which: str, path: Path, folder: Path) -> None:
    """One way; seconds and memory as the last line."""
    import h5py  # noqa: F401
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401

    if which == "ours":
        import minari  # noqa: F401

        import gamps.cli.importing  # noqa: F401
    start = time.perf_counter()
    {"bare": bare, "ours": ours}[which](path, folder)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "GiB": memory}))


def _run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    last: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return last


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    rows: int = 1_000_000,
    steps: tuple[int, ...] = (1000, 100),
) -> None:
    """Both ways, both formats, long and short episodes."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for length in steps:
        for kind in ("csv", "parquet"):
            path = folder / f"{rows}-{length}.{kind}"
            if not path.exists():
                write(path, rows, length)
            best = {}
            for which in ("bare", "ours"):
                program = "from benchmarks.users.import_speed import *; import sys; "
                program += "child(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))"
                command = [sys.executable, "-c", program, which, str(path), str(folder)]
                runs = [_run(command) for _ in range(1 + TIMES)]
                best[which] = min(runs[1:], key=lambda run: run["seconds"])
            ratio = best["ours"]["seconds"] / best["bare"]["seconds"]
            found.append({"rows": rows, "steps": length, "kind": kind, "ratio": ratio, **best})
            print(json.dumps(found[-1]), flush=True)
    (folder / "import_speed.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
