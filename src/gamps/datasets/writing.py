"""Logs as Minari datasets: the field's own format, with what off-policy learning needs besides.

In every episode `infos/behavior_log_prob` is `[T + 1, 1]`: the log-density of action `t` is at
`t + 1`, beside the reward that it brought, and the first entry is NaN. The metadata hold the
behaviour policy as plain data and the discount. `sha256.json` beside the data holds the hash of
each file.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple

from gamps._utils.atomic_io import output_errors, recover_folder, replace_folder, sync_tree
from gamps.datasets.hashes import HASHES, check_hashes, write_hashes
from gamps.datasets.minari_export import LOG_PROB, alike, buffers, space_of
from gamps.datasets.simulation import Make, make_env
from gamps.errors import DatasetError, MissingExtraError, OutputError
from gamps.policies import Policy
from gamps.policies.description import describe_known
from gamps.trajectories import Trajectories

__all__ = [
    "DENSITIES", "DISCOUNT", "HASHES", "LABELS", "LOG_PROB", "POLICY", "Densities", "Labels",
    "check_hashes",
    "folder_of", "minari_package", "save", "save_chunks", "write_hashes",
]  # fmt: skip

POLICY, DISCOUNT, DENSITIES = "gamps_behaviour", "gamps_discount", "gamps_densities"
LABELS = "gamps_labels"
Densities = Literal["known", "estimated", "missing"]


class Labels(NamedTuple):
    """What people call the parts of a log.

    Attributes:
      observations: names of the entries of an observation.
      actions: the same of an action.
      controllers: who chose the actions of each episode; none if it was one and the same.
      groups: that each episode belongs to: a patient, a machine, a day; none if each is its own.
      newest: the controller that made the last episode.
      judged: so many of the first episodes have been judged by before: they are learned from, and
        never held out again.
    """

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    newest: str = ""
    judged: int = 0


def minari_package() -> ModuleType:
    """Minari with its hdf5 storage."""
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
        fix = (
            "Name it like swimmer/random-v0: letters, digits, _ and -, each part of two or more, "
            "and -v with a number at the end"
        )
        raise DatasetError("dataset", f"{name!r} is no name of Minari's", fix) from error
    return recover_folder(Path(get_dataset_path(name)))


def save(
    name: str,
    trajectories: Trajectories,
    behaviour: Policy | None,
    *,
    env: Make | None = None,
    steps: int | None = None,
    discount: float | None = None,
    densities: Densities = "known",
    labels: Labels | None = None,
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
      labels: names of columns, controllers and groups.
      overwrite: replace a dataset of that name.

    Returns:
      The dataset's folder, which `minari.load_dataset(name)` opens.

    Raises:
      OutputError: if there is a dataset of that name already.
    """
    return save_chunks(
        name, [trajectories], behaviour, env=env, steps=steps, discount=discount,
        densities=densities, labels=labels, overwrite=overwrite,
    )  # fmt: skip


def save_chunks(
    name: str,
    chunks: Iterable[Trajectories],
    behaviour: Policy | None,
    *,
    env: Make | None = None,
    steps: int | None = None,
    discount: float | None = None,
    densities: Densities = "known",
    labels: Labels | None = None,
    overwrite: bool = False,
) -> Path:
    """As `save`, for a log of any size: some episodes after the other, one chunk held at a time.

    Raises:
      OutputError: if there is a dataset of that name already.
      DatasetError: if there is no chunk, or one of another space.
    """
    minari = minari_package()
    from minari.dataset.minari_storage import MinariStorage

    target = folder_of(name)
    if target.exists() and not overwrite:
        raise OutputError(f"{target}: exists already. Choose another name, or overwrite it")
    if target.exists() and not (target / "data").is_dir():
        raise OutputError(f"{target}: is a folder, but no dataset. Choose another name")
    env_spec = None
    if env is not None:
        environment = make_env(env, steps)
        env_spec = environment.spec
        environment.close()
    following = iter(chunks)
    first = next(following, None)
    if first is None:
        raise DatasetError("chunks", "none", "Log at least one episode")
    try:
        _namespaces(target.parent, name)
    except OSError as error:
        fix = "Set MINARI_DATASETS_PATH to a folder that you may write to"
        raise OutputError(f"{target.parent}: {error.strerror or error}. {fix}") from error
    with replace_folder(target, overwrite=overwrite) as temporary, output_errors(target):
        storage = MinariStorage.new(
            temporary / "data",
            observation_space=space_of(first.observations),
            action_space=space_of(first.actions),
            env_spec=env_spec,
            data_format="hdf5",
            jpeg_encoding=False,
        )
        metadata = {
            "dataset_id": name,
            "minari_version": minari.__version__,
            "algorithm_name": "unknown" if behaviour is None else type(behaviour).__name__,
            DENSITIES: json.dumps(densities),
            POLICY: json.dumps(describe_known(behaviour)),
            DISCOUNT: json.dumps(discount),
            LABELS: json.dumps(None if labels is None else labels._asdict()),
        }
        storage.update_metadata(metadata)
        known = densities != "missing"
        storage.update_episodes(buffers(alike(first, following), known=known))
        write_hashes(temporary)
        sync_tree(temporary)
    return target


def _namespaces(parent: Path, name: str) -> None:
    """Make the folder around a dataset as Minari wants it."""
    from minari.namespace import create_namespace, list_local_namespaces

    namespace = name.rpartition("/")[0]
    if namespace and namespace not in list_local_namespaces():
        create_namespace(namespace)
    parent.mkdir(parents=True, exist_ok=True)
