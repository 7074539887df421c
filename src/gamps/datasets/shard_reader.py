"""Logs larger than memory: padded pieces on disk; the next is read while the current one is used.

A folder of shards holds one safetensors file per shard, one with the numbers and lengths of all
trajectories, and `manifest.json`, which is written last and holds the SHA-256 of each file and of
itself. Shards of episodes of similar length form a bucket and are returned in one shape, so that a
program is compiled once per bucket, not once per shard.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from gamps._utils.atomic_io import recover_folder
from gamps.errors import DatasetError, DescriptionError
from gamps.policies import Policy, rebuild
from gamps.trajectories import Trajectories, split_rows

MANIFEST, ROWS, TITLE = "manifest.json", "rows.safetensors", "gamps shards 1"
REPEATED, ZEROED = ("observations", "actions"), ("rewards", "behaviour_log_prob")
FIX = "Make the shards again from the log"


class Entry(NamedTuple):
    """The manifest's entry for one shard.

    Attributes:
      file: name of its file.
      sha256: hash of its bytes.
      first: row of `rows.safetensors` that describes its first trajectory.
      last: the row after its last trajectory.
      rows: number of selected trajectories; all of them in the manifest.
      steps: number of their steps, padding excluded.
      bucket: shards of the same bucket share one shape.
      longest: number of steps in its longest trajectory.
    """

    file: str
    sha256: str
    first: int
    last: int
    rows: int
    steps: int
    bucket: int
    longest: int


@dataclasses.dataclass(frozen=True, eq=False)
class Shards:
    """A log on disk, in pieces that fit into memory; iterating yields `Trajectories`.

    Attributes:
      folder: where the shards are.
      entries: one per shard.
      shapes: `(N, T)` of the shards of each bucket. Rows that a shard lacks are filled up and
        masked entirely.
      behaviour: the policy that made the log, or None if it could not be stored as plain data.
      discount: γ that the log was made for, or None if the log does not say.
      densities: known, or estimated from the actions.
      rows_sha256: hash of the file of numbers and lengths.
      source: what the log was made from, as passed to `write_shards`.
      kept: `[episodes of the log]`, which of them are selected; None for all.
    """

    folder: Path
    entries: tuple[Entry, ...]
    shapes: dict[int, tuple[int, int]]
    behaviour: Policy | None
    discount: float | None
    densities: str
    rows_sha256: str
    source: Any
    kept: np.ndarray | None = None
    # Shared with every selection: which files passed the hash check, and the file of rows.
    _checked: set[str] = dataclasses.field(default_factory=set, repr=False)
    _rows: dict[str, np.ndarray] = dataclasses.field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories in all shards, excluding rows that only fill up a shape."""
        return sum(entry.rows for entry in self.entries)

    @property
    def n_steps(self) -> int:
        """Number of steps in all shards, padding excluded."""
        return sum(entry.steps for entry in self.entries)

    @property
    def longest(self) -> int:
        """Number of steps in the longest trajectory."""
        return max(int(self._columns(i)[1].max()) for i in range(len(self)))

    @property
    def sha256(self) -> str:
        """Hash that identifies the selected trajectories."""
        told = json.dumps([entry.sha256 for entry in self.entries]) + self.rows_sha256
        kept = b"" if self.kept is None else np.packbits(self.kept).tobytes()
        return hashlib.sha256(told.encode() + kept).hexdigest()

    def numbers(self, i: int) -> np.ndarray:
        """Numbers, from zero, of the log's episodes that the first rows of a shard hold."""
        return self._columns(i)[0]

    def shard(self, i: int) -> Trajectories:
        """Read a shard.

        The first read, by these shards or any selection of them, compares its bytes with the hash.

        Raises:
          DatasetError: names the file, if it is gone or is not what was written.
        """
        entry = self.entries[i]
        arrays = self._read(entry.file, entry.sha256)
        if self.kept is not None:
            rows = np.flatnonzero(self.kept[arrays["episodes"]])
            arrays = {name: values[rows] for name, values in arrays.items()}
        n, steps = self.shapes[entry.bucket]
        lengths = _filled(arrays["lengths"], (n,), repeat=False)
        fields = {name: _filled(arrays[name], (n, steps), repeat=False) for name in ZEROED}
        fields["observations"] = _filled(arrays["observations"], (n, steps + 1), repeat=True)
        fields["actions"] = _filled(arrays["actions"], (n, steps), repeat=True)
        fields["mask"] = np.arange(steps) < lengths[:, None]
        fields["terminated"] = _filled(arrays["terminated"], (n,), repeat=False)
        return Trajectories(**jax.device_put(fields))

    def __iter__(self) -> Iterator[Trajectories]:
        """Yield the shards in turn; a thread reads the next one while this one is used."""
        with ThreadPoolExecutor(1, thread_name_prefix="gamps-shards") as reader:
            coming = reader.submit(self.shard, 0) if self.entries else None
            for i in range(1, len(self) + 1):
                if coming is None:
                    return
                current = coming.result()
                coming = reader.submit(self.shard, i) if i < len(self) else None
                yield current
                del current  # otherwise it stays in memory while the shard after next is read

    def sample(self, steps: int, seed: int = 0) -> Trajectories:
        """Load about `steps` steps, the same share of every shard, or all if there are fewer.

        Shards are grouped by length, so a few shards alone would hold one kind of episode only.
        Episodes are drawn at random within a shard, because the first of a log may differ from the
        last. They come in the log's order, so sampling all of a log equals loading it.
        """
        share = min(1.0, steps / self.n_steps)
        chosen = [
            np.random.default_rng([seed, i]).permutation(e.rows)[: math.ceil(share * e.rows)]
            for i, e in enumerate(self.entries)
        ]
        known = [tuple(x[rows] for x in self._columns(i)) for i, rows in enumerate(chosen)]
        longest, parts = max(int(lengths.max()) for _, lengths in known), []
        for i, rows in enumerate(chosen):
            fields = vars(self.shard(i)).items()
            part = {name: np.asarray(v)[rows] for name, v in fields if name != "before"}
            for name in part.keys() - {"terminated"}:
                steps = longest + (name == "observations")
                part[name] = _filled(
                    part[name][:, :steps], (len(rows), steps), repeat=name in REPEATED
                )
            parts.append(part)
        order = np.argsort(np.concatenate([numbers for numbers, _ in known]))
        joined = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
        for name, values in joined.items():
            if values.dtype.kind == "f":  # as in a log that is loaded whole
                joined[name] = values.astype(jnp.result_type(float))
        return Trajectories(**jax.device_put(joined))

    def only(self, indices: Sequence[int]) -> Shards:
        """Select shards, in the order of the indices."""
        return dataclasses.replace(self, entries=tuple(self.entries[i] for i in indices))

    def split(self, held_out: float, seed: int) -> tuple[Shards, Shards]:
        """Split into the part to learn from, and the held-out part that learning never sees.

        The same share and seed hold out the same episodes as for a log in memory.

        Raises:
          SettingError: if the share is invalid, or leaves fewer than five episodes to learn from.
        """
        parts = split_rows(self.n_trajectories, held_out, seed)
        columns = [self._columns(i) for i in range(len(self))]
        numbers = np.sort(np.concatenate([episodes for episodes, _ in columns]))
        learned, unseen = (self._keep(numbers[rows], columns) for rows in parts)
        return learned, unseen

    def _keep(self, chosen: np.ndarray, columns: list[tuple[np.ndarray, np.ndarray]]) -> Shards:
        """Select whole trajectories; a bucket keeps as many rows as its fullest shard needs."""
        # The files also hold the episodes that an earlier selection left out.
        size = 1 + max(int(episodes.max()) for episodes, _ in columns)
        kept = np.zeros(size if self.kept is None else len(self.kept), dtype=bool)
        kept[chosen] = True
        entries = []
        for entry, (episodes, lengths) in zip(self.entries, columns, strict=True):
            selected = kept[episodes]
            if selected.any():
                steps = int(lengths[selected].sum())
                entries.append(entry._replace(rows=int(selected.sum()), steps=steps))
        shapes = {
            bucket: (max(e.rows for e in entries if e.bucket == bucket), self.shapes[bucket][1])
            for bucket in {entry.bucket for entry in entries}
        }
        return dataclasses.replace(self, entries=tuple(entries), shapes=shapes, kept=kept)

    def _columns(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and lengths of a shard's selected trajectories."""
        if not self._rows:
            self._rows.update(self._read(ROWS, self.rows_sha256))
        rows = slice(self.entries[i].first, self.entries[i].last)
        episodes, lengths = self._rows["episodes"][rows], self._rows["lengths"][rows]
        if self.kept is None:
            return episodes, lengths
        return episodes[self.kept[episodes]], lengths[self.kept[episodes]]

    def _read(self, file: str, digest: str) -> dict[str, np.ndarray]:
        path = self.folder / file
        try:
            content = path.read_bytes()
            if file not in self._checked:
                if hashlib.sha256(content).hexdigest() != digest:
                    problem = "is not the file that was written: its hash differs"
                    raise DatasetError(str(path), problem, FIX)
                self._checked.add(file)
            return safetensors.numpy.load(content)
        except (OSError, safetensors.SafetensorError) as error:
            raise DatasetError(str(path), f"cannot be read: {error}", FIX) from error


def open_shards(folder: str | Path) -> Shards:
    """Open shards that `write_shards` finished; the shards themselves are read when used.

    Raises:
      DatasetError: if there is no manifest, or it is not the one that was written.
    """
    folder = recover_folder(Path(folder))
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        body, digest = content["shards"], content["sha256"]
        if digest != body_sha256(body) or body["title"] != TITLE:
            raise ValueError("its hash or its title differs")
        entries = tuple(Entry(**entry) for entry in body["entries"])
        described = body["behaviour"]
        behaviour = None if described is None else rebuild(described)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise DatasetError(str(path), problem, "Write the shards to the end") from error
    except (ValueError, TypeError, KeyError, RecursionError, DescriptionError) as error:
        raise DatasetError(str(path), f"is not a manifest of shards: {error}", FIX) from error
    shapes = {
        bucket: (max(e.rows for e in members), max(e.longest for e in members))
        for bucket in {entry.bucket for entry in entries}
        if (members := [entry for entry in entries if entry.bucket == bucket])
    }
    facts = (body[name] for name in ("discount", "densities", "rows_sha256", "source"))
    return Shards(folder, entries, shapes, behaviour, *facts)


def body_sha256(body: Any) -> str:
    """The SHA-256 of a manifest's content."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _filled(values: np.ndarray, shape: tuple[int, ...], *, repeat: bool) -> np.ndarray:
    """Fill up rows and steps, with the last one repeated or with zeros."""
    if values.shape[: len(shape)] == shape:
        return values
    widths = [(0, target - size) for size, target in zip(values.shape, shape, strict=False)]
    widths += [(0, 0)] * (values.ndim - len(shape))
    return np.pad(values, widths, mode="edge") if repeat else np.pad(values, widths)
