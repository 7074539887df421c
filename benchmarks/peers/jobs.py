"""What scripts in the environments of peers share: jobs, logs as arrays, quick minibatches."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import d3rlpy
import h5py
import numpy as np
import structlog
import torch


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


def sample_quickly(dataset: d3rlpy.dataset.MDPDataset, seed: int) -> None:
    """Uniform minibatches by one gather, in place of d3rlpy's loop in Python over transitions.

    The draws have the same distribution and take less time.
    """
    picker, buffer = d3rlpy.dataset.BasicTransitionPicker(), dataset.buffer
    every = d3rlpy.dataset.TransitionMiniBatch.from_transitions(
        [picker(*buffer[i]) for i in range(buffer.transition_count)]
    )
    generator = np.random.default_rng(seed)
    names = [field.name for field in dataclasses.fields(every) if field.name != "transitions"]

    def sample(size: int) -> d3rlpy.dataset.TransitionMiniBatch:
        rows = generator.integers(buffer.transition_count, size=size)
        chosen = {name: getattr(every, name)[rows] for name in names}
        return d3rlpy.dataset.TransitionMiniBatch(**chosen, transitions=[])

    dataset.sample_transition_batch = sample


def work(train: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """All jobs of the file that is named on the command line, one after the other, on one core."""
    torch.set_num_threads(1)
    # Weight decay shrinks unused weights to denormal numbers; a step then takes 20 times as long.
    torch.set_flush_denormal(True)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        out = Path(job["out"])
        result = train(job)
        part = out.with_suffix(".part")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.replace(out)
        print(f"{out.stem} {result['seconds']:.1f} s", flush=True)
