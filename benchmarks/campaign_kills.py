"""kill -9 at random moments of `gamps campaign`: the same command goes on to the same decisions.

A short campaign is run once without a break. Then campaigns of the same settings are started,
killed at random moments and started again until they are finished. Histories must be equal to the
last digit, and so must what is in charge at the end.

Usage: python benchmarks/campaign_kills.py FOLDER [--kills 50] [--rounds 3] [--seed 0]
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from gamps.runs.certificate import sha256_of
from gamps.runs.rounds import HISTORY, in_charge

GAMPS = [sys.executable, "-c", "from gamps.cli import main; main()"]
WORDS = (
    "gamps/TwoTanks-v0", "--task", "gamps.envs.tanks:task", "--policy", "gamps.envs.tanks:policy",
    "--episodes", "40", "--iterations", "3", "--workers", "1",
)  # fmt: skip


def ended(out: Path, rounds: int) -> tuple[Any, str]:
    """Decisions of all rounds, but for where they lie, and the policy in charge."""
    run = out / f"round-{rounds}"
    history = json.loads((run / HISTORY).read_text(encoding="utf-8"))
    return [one | {"run": "", "log": ""} for one in history], sha256_of(in_charge(run))


def main(
    folder: Annotated[Path, tyro.conf.Positional], kills: int = 50, rounds: int = 3, seed: int = 0
) -> None:
    """Print what became of every campaign."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "data")
    moments, quiet = np.random.default_rng(seed), {"stdout": subprocess.DEVNULL}

    def command(out: Path) -> list[str]:
        return [*GAMPS, "campaign", *WORDS, "--rounds", str(rounds), "--out", str(out)]

    subprocess.run(command(folder / "warm"), check=True, **quiet)  # noqa: S603
    began = time.monotonic()
    subprocess.run(command(folder / "whole"), check=True, **quiet)  # noqa: S603
    lasts = time.monotonic() - began
    whole, done, number = ended(folder / "whole", rounds), 0, 0
    print(f"without a break: {[one['word'] for one in whole[0]]}, {lasts:.0f} s", flush=True)
    while done < kills:
        number += 1
        out = folder / f"killed{number}"
        while True:
            process = subprocess.Popen(command(out), **quiet)  # noqa: S603
            if done < kills:
                try:
                    process.wait(moments.uniform(0, 0.6 * lasts))
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    done += 1
            if process.wait() == 0:
                break
            if process.returncode != -signal.SIGKILL:
                sys.exit(f"it did not go on after kill {done}: {process.returncode}")
        same = ended(out, rounds) == whole
        print(f"campaign {number}: {done} kills so far, equal: {same}", flush=True)
        if not same:
            sys.exit("the end differs")
    print(f"{done} kills, {number} campaigns, all equal")


if __name__ == "__main__":
    tyro.cli(main)
