"""kill -9 at random moments of `gamps campaign`: the same command goes on to the same decisions.

A short campaign is run once without a break. Then campaigns of the same settings are started,
killed at random moments and started again until they are finished. Histories must be equal to the
last digit, and so must what is in charge at the end.

Usage: python -m benchmarks.campaign_kills FOLDER [--kills 50] [--rounds 3] [--mode trials]
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import tyro

from benchmarks.kills import Kills
from gamps.runs.campaign import Mode
from gamps.runs.certificate import sha256_of
from gamps.runs.rounds import HISTORY, in_charge
from gamps.runs.trials import rounds_in

GAMPS = [sys.executable, "-c", "from gamps.cli import main; main()"]
WORDS = (
    "gamps/TwoTanks-v0", "--task", "gamps.envs.tanks:task", "--policy", "gamps.envs.tanks:policy",
    "--episodes", "40", "--iterations", "3", "--workers", "1",
)  # fmt: skip


def ended(out: Path, rounds: int) -> tuple[list[Any], Any]:
    """The word of every round, and all decisions, but for where they lie, to the last digit."""
    run = out / f"round-{rounds}"
    if not run.is_dir():
        tried = rounds_in(out)
        return [one.took_over for one in tried], tried
    history = json.loads((run / HISTORY).read_text(encoding="utf-8"))
    decisions = [one | {"run": "", "log": ""} for one in history]
    return [one["word"] for one in history], (decisions, sha256_of(in_charge(run)))


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    kills: int = 50,
    rounds: int = 3,
    seed: int = 0,
    mode: Mode = "certified",
) -> None:
    """Print what became of every campaign."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "data")
    quiet = {"stdout": subprocess.DEVNULL}

    def command(out: Path) -> list[str]:
        words = ["--mode", mode, "--rounds", str(rounds), "--out", str(out)]
        return [*GAMPS, "campaign", *WORDS, *words]

    subprocess.run(command(folder / "warm"), check=True, **quiet)  # noqa: S603
    began = time.monotonic()
    subprocess.run(command(folder / "whole"), check=True, **quiet)  # noqa: S603
    lasts = time.monotonic() - began
    whole, number = ended(folder / "whole", rounds), 0
    print(f"without a break: {whole[0]}, {lasts:.0f} s", flush=True)
    struck = Kills(kills, 0.6 * lasts, seed)
    while struck.done < kills:
        number += 1
        out = folder / f"killed{number}"
        struck.until_finished(lambda out=out: command(out))
        same = ended(out, rounds) == whole
        print(f"campaign {number}: {struck.done} kills so far, equal: {same}", flush=True)
        if not same:
            sys.exit("the end differs")
    print(f"{struck.done} kills, {number} campaigns, all equal")


if __name__ == "__main__":
    tyro.cli(main)
