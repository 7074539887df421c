"""Write a log of any size as shards, in one pass that holds a few of them at a time."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from gamps._utils.atomic_io import output_errors, recover_folder, replace_folder, write_synced
from gamps._utils.console import silent
from gamps.datasets import checks
from gamps.datasets.shard_reader import (
    MANIFEST,
    ROWS,
    TITLE,
    Entry,
    Shards,
    body_sha256,
    open_shards,
)
from gamps.datasets.streams import bucket_of
from gamps.errors import DatasetError, OutputError, SettingError
from gamps.policies import Policy
from gamps.policies.description import describe_known
from gamps.trajectories import Episode, Trajectories, from_episodes

FIELDS = ("observations", "actions", "rewards", "behaviour_log_prob")


def write_shards(
    episodes: Iterable[Episode],
    folder: str | Path,
    *,
    behaviour: Policy | None = None,
    discount: float | None = None,
    densities: str = "known",
    steps: int = 200_000,
    source: Any = None,
    overwrite: bool = False,
    advance: Callable[[str], None] = silent,
) -> Shards:
    """Write a log as shards, all of it or nothing, without holding it in memory.

    Episodes of similar length are collected until they have about `steps` steps; then they are
    checked, padded and written. Numbers are stored in single precision.

    Args:
      episodes: any number, one after another.
      folder: the folder to make.
      behaviour: the policy that drew the actions; every density is compared with it.
      discount: γ that the log was made for.
      densities: known, or estimated from the actions.
      steps: approximate steps in a shard, and the most that each bucket of lengths holds in memory.
      source: what the log was made from, as plain data, to recognise it later.
      overwrite: replace existing shards.
      advance: called after each episode, for a progress bar.

    Raises:
      DatasetError: names the field, the episode and the step that cannot be used.
      OutputError: if the folder exists, or cannot be written.
    """
    if steps < 1:
        raise SettingError("steps", f"{steps}", "Choose at least 1; 200000 is usual")
    if discount is not None and not 0 < discount <= 1:
        raise SettingError("discount", f"{discount}", "Choose it in (0, 1]")
    if densities not in ("known", "estimated"):
        raise SettingError("densities", f"{densities}", "Choose known or estimated")
    target = recover_folder(Path(folder))
    if target.exists() and not (overwrite and (target / MANIFEST).is_file()):
        fix = "Choose another folder, or overwrite it if it holds shards"
        raise OutputError(f"{target}: exists already. {fix}")
    with replace_folder(target, overwrite=overwrite) as temporary:
        writer = _Writer(temporary, target, behaviour, steps)
        for episode in episodes:
            writer.add(episode)
            advance(f"{writer.count} episodes")
        body = {
            "title": TITLE,
            "behaviour": describe_known(behaviour),
            "discount": discount,
            "densities": densities,
            "source": source,
            "steps": steps,
            **writer.finished(),
        }
        manifest = {"shards": body, "sha256": body_sha256(body)}
        with output_errors(target):
            write_synced(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())
    return open_shards(target)


class _Writer:
    """Episodes waiting in their buckets, and the shards written so far."""

    def __init__(self, folder: Path, target: Path, behaviour: Policy | None, steps: int) -> None:
        self.folder, self.target, self.behaviour, self.steps = folder, target, behaviour, steps
        self.count = self.rows = 0
        self.entries: list[Entry] = []
        self.columns: dict[str, list[np.ndarray]] = {"episodes": [], "lengths": []}
        self.waiting: dict[int, list[tuple[int, Episode]]] = {}
        self.extremes: checks.Extremes | None = None
        self.spaces: tuple[Any, ...] = ()

    def add(self, episode: Episode) -> None:
        """Add an episode to its bucket; write the bucket if it is full."""
        with checks.naming((self.count,)):
            slim = _slim(episode)
        bucket = bucket_of(len(slim.rewards))
        bucketed = self.waiting.setdefault(bucket, [])
        bucketed.append((self.count, slim))
        self.count += 1
        if len(bucketed) >= max(round(self.steps / bucket), 1):
            self._write(bucket, self.waiting.pop(bucket))

    def finished(self) -> dict[str, Any]:
        """Write the remaining episodes, and check what only the whole log shows."""
        if self.count == 0:
            raise DatasetError("episodes", "none", "Log at least one")
        for bucket in sorted(self.waiting):
            self._write(bucket, self.waiting[bucket])
        checks.check_not_clipped(self.extremes)
        columns = {name: np.concatenate(parts) for name, parts in self.columns.items()}
        entries = [entry._asdict() for entry in self.entries]
        return {"rows_sha256": self._file(ROWS, columns), "entries": entries}

    def _write(self, bucket: int, episodes: list[tuple[int, Episode]]) -> None:
        numbers = [number for number, _ in episodes]
        with checks.naming(numbers):
            log = from_episodes([episode for _, episode in episodes], length=bucket)
            self._check_space(log)
            if self.behaviour is not None:
                checks.check_densities(log, self.behaviour)
        self.extremes = checks.joined(self.extremes, checks.extremes_of(log, numbers))
        lengths = np.asarray([len(episode.rewards) for _, episode in episodes], dtype=np.int32)
        longest = int(lengths.max())
        arrays = {name: _single(getattr(log, name))[:, :longest] for name in FIELDS[1:]}
        arrays["observations"] = _single(log.observations)[:, : longest + 1]
        arrays |= {
            "lengths": lengths,
            "terminated": np.asarray(log.terminated),
            "episodes": np.asarray(numbers, dtype=np.int64),
        }
        for name, parts in self.columns.items():
            parts.append(arrays[name])
        file = f"shard-{len(self.entries):06d}.safetensors"
        digest = self._file(file, arrays)
        first, self.rows = self.rows, self.rows + len(episodes)
        steps = int(lengths.sum())
        self.entries.append(
            Entry(file, digest, first, self.rows, len(episodes), steps, bucket, longest)
        )

    def _file(self, name: str, arrays: dict[str, np.ndarray]) -> str:
        """Write arrays, and return the hash of the file."""
        contiguous = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
        content = safetensors.numpy.save(contiguous)
        with output_errors(self.target):
            write_synced(self.folder / name, content)
        return hashlib.sha256(content).hexdigest()

    def _check_space(self, log: Trajectories) -> None:
        """Refuse observations or actions whose shape or kind differs from earlier shards."""
        spaces = tuple((x.shape[2:], x.dtype.kind) for x in (log.observations, log.actions))
        self.spaces = self.spaces or spaces
        for name, now, first in zip(FIELDS, spaces, self.spaces, strict=False):
            if now != first:
                problem = f"{now[0]} of kind {now[1]} per step, but {first[0]} of {first[1]} before"
                raise DatasetError(name, problem, "All episodes must share one space", index=0)


def _slim(episode: Episode) -> Episode:
    """Convert the episode's fields to arrays, floating-point ones to single precision."""
    arrays = {}
    for name in FIELDS:
        values = getattr(episode, name)
        if values is None:
            fix = "Log them, or estimate the logging policy: gamps.policies.estimation.estimate"
            raise DatasetError(name, "missing", fix, index=0)
        try:
            array = np.asarray(values)
        except ValueError as error:
            problem = f"not an array: {error}"
            raise DatasetError(name, problem, "Pass rows of equal length", index=0) from error
        arrays[name] = _single(array)
    if arrays["rewards"].ndim == 0:
        raise DatasetError("rewards", "a scalar", "Pass one value per step", index=0)
    return Episode(**arrays, terminated=bool(episode.terminated))


def _single(values: Any) -> np.ndarray:
    array = np.asarray(values)
    with np.errstate(over="ignore"):  # an overflow becomes infinite, and is refused as such
        if array.dtype.kind == "f":
            return array.astype(np.float32, copy=False)
    return array.astype(np.int32, copy=False) if array.dtype.kind in "iub" else array
