"""Write the three logs, each as its owner would: `python -m benchmarks.users.logs FOLDER`.

- `oven.csv`: no column of episodes, flags where one ends, the reward as a column.
- `ward.csv`: four treatments with their propensities, ten vital signs, five thousand short stays.
- `pump.csv`: two controllers after one another, named episodes, timestamps, gaps, further columns.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.users.plants import Act, Logged, Oven, Plant, Pump, Ward, run

OVENS, STAYS, SHIFTS = 400, 5_000, 300
NOISE = {"oven": 1.5, "pump": 0.6}
MISSING = 0.003  # share of the pump's rows in which a level is missing


def oven_controller(observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Proportional to what is missing, with too low a mark."""
    mean = oven_mean(observations)
    return (mean + NOISE["oven"] * rng.normal(size=len(mean)))[:, None]


def oven_mean(observations: np.ndarray) -> np.ndarray:
    """Of the power."""
    return np.asarray(4.0 + 0.05 * (135 - observations[:, 0]))


def propensities(observations: np.ndarray) -> np.ndarray:
    """What the ward does: more for those who are worse, and now and then anything."""
    x = observations
    worse = x[:, 3]
    logits = np.stack(
        [0 * worse, 0.6 * worse - 0.3 * x[:, 1], 0.5 * worse + 0.3 * x[:, 4], 0.8 * worse - 1],
        axis=1,
    )
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(0.8 * p / p.sum(axis=1, keepdims=True) + 0.05)


def ward_controller(observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A draw from the propensities."""
    below = propensities(observations).cumsum(axis=1) < rng.random(len(observations))[:, None]
    return np.asarray(below.sum(axis=1).clip(0, 3))


def pump_mean(observations: np.ndarray, gain: float) -> np.ndarray:
    """Of the power: the newer controller looks at the level, the older hardly."""
    return np.asarray(1.2 + gain * (3.0 - observations[:, 1]))


def pump_controller(gain: float) -> Act:
    """One of the two."""

    def act(observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean = pump_mean(observations, gain)
        return (mean + NOISE["pump"] * rng.normal(size=len(mean)))[:, None]

    return act


GAINS = {"old": 0.05, "new": 0.3}
PLANTS: dict[str, Plant] = {"oven": Oven(), "ward": Ward(), "pump": Pump()}
CONTROLLERS: dict[str, Act] = {
    "oven": oven_controller,
    "ward": ward_controller,
    "pump": pump_controller(GAINS["new"]),
}


def log_density(actions: np.ndarray, mean: np.ndarray, std: float) -> np.ndarray:
    """Of one normal number."""
    return np.asarray(-0.5 * ((actions - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi)))


def _write(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(heading)
        writer.writerows(rows)


def _steps(log: Logged) -> Iterable[tuple[int, int, bool]]:
    """Episode, step, and whether it is the last."""
    for i, length in enumerate(log.lengths):
        for t in range(length):
            yield i, t, t == length - 1


def write_oven(path: Path, seed: int) -> None:
    """Flags in place of a column of episodes."""
    log = run(Oven(), oven_controller, OVENS, seed)
    rows = []
    for i, t, last in _steps(log):
        seen, power = log.observations[i, t], log.actions[i, t, 0]
        density = log_density(power, oven_mean(seen[None])[0], NOISE["oven"])
        burnt = last and log.ended[i]
        flags = (int(burnt), int(last and not burnt))
        rows.append([*seen, power, density, log.rewards[i, t], *flags])
    _write(path, (*Oven.names, "power", "logp", "reward", "burnt", "unloaded"), rows)


def write_ward(path: Path, seed: int) -> None:
    """Choices with propensities."""
    log = run(Ward(), ward_controller, STAYS, seed)
    rows = []
    for i, t, last in _steps(log):
        seen, drug = log.observations[i, t], int(log.actions[i, t])
        p = propensities(seen[None])[0, drug]
        rows.append([i, *seen, drug, p, log.rewards[i, t], int(last and log.ended[i])])
    _write(path, ("stay", *Ward.names, "treatment", "p", "score", "discharged"), rows)


def write_pump(path: Path, seed: int) -> None:
    """Two controllers, one after the other; some levels are missing."""
    rng = np.random.default_rng(seed + 1)
    start, rows = datetime(2026, 3, 1, 6, 0), []
    for k, (name, gain) in enumerate(GAINS.items()):
        log = run(Pump(), pump_controller(gain), SHIFTS, seed + 10 * k)
        for i, t, _ in _steps(log):
            seen, power = log.observations[i, t], log.actions[i, t, 0]
            density = log_density(power, pump_mean(seen[None], gain)[0], NOISE["pump"])
            at = start + timedelta(days=SHIFTS * k + i, minutes=5 * t)
            levels = ["" if rng.random() < MISSING else f"{level:.6f}" for level in seen]
            note = rng.choice(["", "ok", "filter changed"])
            rows.append([f"{name}-{i:04d}", at.isoformat(), *levels, f"{power:.6f}",
                         f"{density:.6f}", f"{log.rewards[i, t]:.6f}", name, note])  # fmt: skip
    heading = ("shift", "at", *Pump.names, "power", "logp", "reward", "controller", "note")
    _write(path, heading, rows)


WRITERS = {"oven": write_oven, "ward": write_ward, "pump": write_pump}
IMPORTS = {
    "oven": [
        "--observations", *Oven.names, "--actions", "power", "--reward", "reward",
        "--log-prob", "logp", "--done", "burnt", "--timeout", "unloaded", "--discount", "0.98",
    ],
    "ward": [
        "--episode", "stay", "--observations", *Ward.names, "--actions", "treatment",
        "--discrete", "--propensity", "p", "--reward", "score", "--done", "discharged",
        "--discount", "0.95",
    ],
    "pump": [
        "--episode", "shift", "--time", "at", "--observations", *Pump.names,
        "--actions", "power", "--reward", "reward", "--log-prob", "logp",
        "--controller", "controller", "--discount", "0.97", "--drop-bad-episodes",
    ],
}  # fmt: skip
"""What their owners say to `gamps import` besides the file and the dataset."""


def write(folder: Path, seed: int = 0) -> list[Path]:
    """All three."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, writer in WRITERS.items():
        writer(folder / f"{name}.csv", seed)
    return [folder / f"{name}.csv" for name in WRITERS]


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        print(written)
