"""A log of Minari as plain arrays, for the scripts that run in environments of peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np


def arrays(folder: Path, bounds: tuple[float, float]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Steps of all episodes one after the other, and the start states.

    Actions are clipped to what the actuators do with them, which changes nothing but the reach of
    a policy that learns from them.
    """
    fields: dict[str, list[Any]] = {
        name: [] for name in ("observations", "actions", "rewards", "terminals", "timeouts")
    }
    starts = []
    with h5py.File(folder / "data" / "main_data.hdf5") as file:
        for i in range(len(file)):
            episode = file[f"episode_{i}"]
            observations = np.asarray(episode["observations"], np.float32)
            starts.append(observations[0])
            fields["observations"].append(observations[:-1])
            fields["actions"].append(np.clip(np.asarray(episode["actions"], np.float32), *bounds))
            fields["rewards"].append(np.asarray(episode["rewards"], np.float32))
            ended = np.asarray(episode["terminations"], bool)
            fields["terminals"].append(ended.astype(np.float32))
            cut = np.zeros_like(ended)
            cut[-1] = not ended[-1]
            fields["timeouts"].append(cut.astype(np.float32))
    return {name: np.concatenate(values) for name, values in fields.items()}, np.stack(starts)
