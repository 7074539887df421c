"""kill -9 at random moments of `gamps train`: every time `gamps resume` goes on to the same end.

A training of the two-tank log is run once without a break. Then runs of the same settings are
started and killed at random moments, from the first import to the last checkpoint, and taken up
again until they are finished. Of every run the final checkpoint must equal the unbroken one bit for
bit, and after every kill no more than one iteration may be missing.

Usage: python -m benchmarks.kills [--kills 100] [--iterations 300] [--recipe pgt]
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import tyro

from gamps import datasets
from gamps.envs import TwoTanks, collect, tanks
from gamps.runs import checkpoints

GAMPS = [sys.executable, "-c", "from gamps.cli import main; main()"]


class Kills:
    """Kills a command at random moments and starts it again until it is finished.

    Args:
      count: how often, over all calls.
      latest: seconds within which the moment lies.
      seed: of the moments.
    """

    def __init__(self, count: int, latest: float, seed: int) -> None:
        self.count, self.latest, self.done = count, latest, 0
        self.moments = np.random.default_rng(seed)

    def until_finished(
        self, command: Callable[[], list[str]], look: Callable[[], None] = lambda: None
    ) -> None:
        """One command to its end; `look` is called after each kill."""
        while True:
            process = subprocess.Popen(command(), stdout=subprocess.DEVNULL)  # noqa: S603
            if self.done < self.count:
                try:
                    process.wait(self.moments.uniform(0, self.latest))
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    self.done += 1
            if process.wait() == 0:
                return
            if process.returncode != -signal.SIGKILL:
                sys.exit(f"it did not go on after kill {self.done}: {process.returncode}")
            look()


def command(out: Path, iterations: int, recipe: str) -> list[str]:
    """Go on with a run, or start it."""
    if (out / "run.json").exists():
        return [*GAMPS, "resume", str(out)]
    words = ["--task", "gamps.envs.tanks:task", "--recipe", recipe, "--iterations", str(iterations)]
    return [*GAMPS, "train", "tanks/kills-v0", *words, "--out", str(out)]


def reported(out: Path) -> int:
    """Whole lines of metrics: iterations that were finished and said so."""
    path = out / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def main(kills: int = 100, iterations: int = 300, seed: int = 0, recipe: str = "pgt") -> None:
    """Print what became of every run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["MINARI_DATASETS_PATH"] = str(folder / "data")
        log = collect(TwoTanks(), tanks.policy(), jax.random.key(seed), n=20, steps=20)
        datasets.save("tanks/kills-v0", log, tanks.policy())
        quiet = {"stdout": subprocess.DEVNULL}
        subprocess.run(command(folder / "warm", iterations, recipe), check=True, **quiet)  # noqa: S603
        began = time.monotonic()
        subprocess.run(command(folder / "whole", iterations, recipe), check=True, **quiet)  # noqa: S603
        lasts = time.monotonic() - began
        whole, _ = checkpoints.latest(folder / "whole" / "checkpoints")
        run = inside = lost = 0
        struck = Kills(kills, 1.1 * lasts, seed)
        while struck.done < kills:
            out, run = folder / f"run{run}", run + 1

            def look(out: Path = out) -> None:
                nonlocal inside, lost
                inside += bool(list((out / "checkpoints").glob(".*.writing-*")))
                found, refused = checkpoints.latest(out / "checkpoints")
                number = 0 if found is None else found.number
                if refused:
                    sys.exit(f"a kill left a damaged checkpoint: {refused}")
                lost = max(lost, reported(out) - number)

            struck.until_finished(lambda out=out: command(out, iterations, recipe), look)
            found, _ = checkpoints.latest(out / "checkpoints")
            same = whole.plain == found.plain and all(
                np.array_equal(whole.arrays[k], found.arrays[k]) for k in whole.arrays
            )
            print(f"run {run}: {struck.done} kills so far, bit-equal: {same}", flush=True)
            if not same or reported(out) != reported(folder / "whole"):
                sys.exit("the end differs")
        print(f"{struck.done} kills, {run} runs, all bit-equal")
        print(f"{inside} inside a checkpoint's writing; at most {lost} iteration lost")


if __name__ == "__main__":
    tyro.cli(main)
