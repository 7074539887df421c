"""Logs as Minari datasets: the field's own format, with what off-policy learning needs besides.

In every episode `infos/behavior_log_prob` is `[T + 1, 1]`: the log-density of action `t` is at
`t + 1`, beside the reward that it brought, and the first entry is NaN. The metadata hold the
behaviour policy as plain data and the discount. `sha256.json` beside the data holds the hash of
each file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import gymnasium
import numpy as np

from gamps.datasets.simulation import Make, make_env
from gamps.errors import DatasetError, DescriptionError, MissingExtraError, OutputError
from gamps.policies import Policy, describe
from gamps.trajectories import Trajectories

LOG_PROB = "behavior_log_prob"
POLICY, DISCOUNT, DENSITIES = "gamps_behaviour", "gamps_discount", "gamps_densities"
HASHES = "sha256.json"
Densities = Literal["known", "estimated", "missing"]


def minari_package() -> ModuleType:
    """Minari with its hdf5 storage.

    Raises:
      MissingExtraError: if it is not installed.
    """
    try:
        import h5py  # noqa: F401
        import minari
    except ImportError as error:
        raise MissingExtraError(
            f'{error.name} is not installed. Do pip install "gamps[minari]"'
        ) from error
    return minari


def folder_of(name: str) -> Path:
    """Where Minari keeps a dataset of that name: `MINARI_DATASETS_PATH`, or `~/.minari/datasets`.

    Raises:
      DatasetError: if it is no name of Minari's.
    """
    minari_package()
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage import get_dataset_path

    try:
        parse_dataset_id(name)
    except (ValueError, TypeError) as error:  # the latter where it has no version
        mend = (
            "Name it like swimmer/random-v0: letters, digits, _ and -, each part of two or more, "
            "and -v with a number at the end"
        )
        raise DatasetError("dataset", f"{name!r} is no name of Minari's", mend) from error
    return Path(get_dataset_path(name))


def save(
    name: str,
    trajectories: Trajectories,
    behaviour: Policy | None,
    *,
    env: Make | None = None,
    steps: int | None = None,
    discount: float | None = None,
    densities: Densities = "known",
    overwrite: bool = False,
) -> Path:
    """Write a log as a Minari dataset, all of it or nothing.

    Args:
      name: like `swimmer/random-v0`.
      trajectories: the log.
      behaviour: the policy that made it; None if it cannot be written down.
      env: its environment, kept in the metadata for whoever wants to evaluate.
      steps: where its episodes were cut off, if not where the environment does.
      discount: γ that the log was made for.
      densities: whether those of the log were logged, were estimated, or are missing yet.
      overwrite: replace a dataset of that name.

    Returns:
      The dataset's folder, which `minari.load_dataset(name)` opens.

    Raises:
      OutputError: if there is a dataset of that name already.
    """
    minari = minari_package()
    from minari.dataset.minari_storage import MinariStorage

    target = folder_of(name)
    if target.exists() and not overwrite:
        raise OutputError(f"{target}: exists already. Choose another name, or overwrite it")
    if target.exists() and not (target / "data").is_dir():
        raise OutputError(f"{target}: is a folder, but no dataset. Choose another name")
    try:
        described: Any = None if behaviour is None else describe(behaviour)
    except DescriptionError:
        described = None  # a class of the user's own; the densities are in the log all the same
    env_spec = None
    if env is not None:
        made = make_env(env, steps)
        env_spec = made.spec
        made.close()
    seen, acted = np.asarray(trajectories.observations), np.asarray(trajectories.actions)
    replaced = target.with_name(f".{target.name}-replaced-{os.getpid()}")
    try:
        _namespaces(target.parent, name)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    except OSError as error:
        mend = "Set MINARI_DATASETS_PATH to a folder that you may write to"
        raise OutputError(f"{target.parent}: {error.strerror or error}. {mend}") from error
    try:
        storage = MinariStorage.new(
            temporary / "data",
            observation_space=_space(seen),
            action_space=_space(acted),
            env_spec=env_spec,
            data_format="hdf5",
            jpeg_encoding=False,
        )
        metadata = {
            "dataset_id": name,
            "minari_version": minari.__version__,
            "algorithm_name": "unknown" if behaviour is None else type(behaviour).__name__,
            DENSITIES: json.dumps(densities),
            POLICY: json.dumps(described),
            DISCOUNT: json.dumps(discount),
        }
        storage.update_metadata(metadata)
        storage.update_episodes(_buffers(trajectories, known=densities != "missing"))
        write_hashes(temporary)
        _sync(temporary)
        temporary.chmod(0o755)
        if overwrite and target.exists():
            target.replace(replaced)
        temporary.replace(target)
    except OSError as error:
        finding = error.strerror or error
        raise OutputError(f"{target}: {finding}. Is another process writing it?") from error
    finally:
        if replaced.exists() and not target.exists():
            replaced.replace(target)
        for left in (temporary, replaced):
            shutil.rmtree(left, ignore_errors=True)
    return target


def _namespaces(parent: Path, name: str) -> None:
    """Make the folder around a dataset as Minari wants it."""
    from minari.namespace import create_namespace, list_local_namespaces

    namespace = name.rpartition("/")[0]
    if namespace and namespace not in list_local_namespaces():
        create_namespace(namespace)
    parent.mkdir(parents=True, exist_ok=True)


def _space(values: np.ndarray) -> gymnasium.spaces.Box:
    """The space of raw values: an actuator's limits are no limits of what was drawn."""
    shape = values.shape[2:]
    if values.dtype.kind == "f":
        return gymnasium.spaces.Box(-np.inf, np.inf, shape, values.dtype.type)
    limits = np.iinfo(values.dtype)
    return gymnasium.spaces.Box(limits.min, limits.max, shape, values.dtype.type)


def _buffers(trajectories: Trajectories, *, known: bool) -> Iterable[Any]:
    """One of Minari's buffers an episode, as long as it really was."""
    from minari.data_collector import EpisodeBuffer

    arrays = {
        name: np.asarray(getattr(trajectories, name)) for name in Trajectories.__annotations__
    }
    for i, steps in enumerate(np.asarray(trajectories.lengths)):
        ends = np.arange(steps) == steps - 1
        own = arrays["behaviour_log_prob"][i, :steps]
        log_prob = np.concatenate([[np.nan], own if known else np.full(steps, np.nan)])
        yield EpisodeBuffer(
            id=i,
            observations=arrays["observations"][i, : steps + 1],
            actions=arrays["actions"][i, :steps],
            rewards=arrays["rewards"][i, :steps],
            terminations=ends & arrays["terminated"][i],
            truncations=ends & ~arrays["terminated"][i],
            infos={LOG_PROB: log_prob[:, None]},
        )


def write_hashes(folder: Path) -> None:
    """Write the SHA-256 of every file of the data beside them."""
    (folder / HASHES).write_text(json.dumps(_hashes(folder), indent=1) + "\n", encoding="utf-8")


def check_hashes(folder: Path) -> None:
    """Compare the files with their hashes, if there are any; other people's logs have none.

    Raises:
      DatasetError: at the first file that differs.
    """
    if not (folder / HASHES).exists():
        return
    mend = "Get the dataset again; if you changed it on purpose, delete sha256.json"
    try:
        expected = json.loads((folder / HASHES).read_text(encoding="utf-8"))
        expected = {str(name): str(digest) for name, digest in expected.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise DatasetError(HASHES, "is not a table of hashes", mend) from error
    found = _hashes(folder)
    for name in sorted(expected | found):
        if expected.get(name) != found.get(name):
            raise DatasetError(name, "is not the file that was written: its hash differs", mend)


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in (folder / "data").rglob("*") if path.is_file())
    digests = {}
    for path in files:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        digests[path.relative_to(folder).as_posix()] = digest
    return digests


def _sync(folder: Path) -> None:
    """Flush a folder's entries to disk, and what lies below it."""
    for path in (folder, *folder.rglob("*")):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
