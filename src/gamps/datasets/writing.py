"""Write logs as Minari datasets, the usual format, with what off-policy learning also needs.

In every episode `infos/behavior_log_prob` is `[T + 1, 1]`: the log-density of action `t` is at
`t + 1`, next to the reward that it earned, and the first entry is NaN. The metadata hold the
behaviour policy as plain data and the discount. `sha256.json`, next to the data, holds the hash of
each file.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float

from gamps._utils.atomic_io import output_errors, recover_folder, replace_folder, sync_tree
from gamps.datasets.hashes import HASHES, check_hashes, write_hashes
from gamps.datasets.minari_export import LOG_PROB, alike, buffers, space_of
from gamps.datasets.simulation import Make, make_env
from gamps.errors import DatasetError, MissingExtraError, OutputError
from gamps.policies import Policy
from gamps.policies.description import describe_known
from gamps.trajectories import Trajectories

__all__ = [
    "DENSITIES", "DISCOUNT", "HASHES", "LABELS", "LIMITS", "LOG_PROB", "POLICY", "Densities",
    "Labels", "Limits", "check_hashes", "folder_of", "minari_package", "save", "write_hashes",
]  # fmt: skip

POLICY, DISCOUNT, DENSITIES = "gamps_behaviour", "gamps_discount", "gamps_densities"
LIMITS = "gamps_action_limits"
LABELS = "gamps_labels"
Densities = Literal["known", "estimated", "missing"]


class Labels(NamedTuple):
    """Names for the parts of a log.

    Attributes:
      observations: names of the entries of an observation.
      actions: names of the entries of an action.
      controllers: who chose the actions of each episode; empty if there is only one controller.
      groups: the group of each episode (patient, machine, day); empty if each is its own group.
      newest: the controller that made the last episode.
      judged: number of first episodes that have judged a policy before: they are learned from, and
        never held out again.
    """

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    newest: str = ""
    judged: int = 0


Limits = tuple[Float[np.ndarray, "A"], Float[np.ndarray, "A"]]
"""The least and the largest action that the actuators carry out."""


def minari_package() -> ModuleType:
    """Import Minari with its hdf5 storage."""
    try:
        import h5py  # noqa: F401
        import minari
    except ImportError as error:
        raise MissingExtraError(
            f'{error.name} is not installed. Do pip install "gamps[minari]"'
        ) from error
    return minari


def folder_of(name: str) -> Path:
    """A dataset's folder inside `MINARI_DATASETS_PATH`, or `~/.minari/datasets` by default.

    Raises:
      DatasetError: if Minari does not accept the name.
    """
    minari_package()
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage import get_dataset_path

    try:
        parse_dataset_id(name)
    except (ValueError, TypeError) as error:  # the latter where it has no version
        fix = (
            "Use a name like swimmer/random-v0: letters, digits, _ and -, at least two in each "
            "part, and -v with a number at the end"
        )
        raise DatasetError("dataset", f"{name!r} is not a Minari dataset name", fix) from error
    return recover_folder(Path(get_dataset_path(name)))


def save(
    name: str,
    trajectories: Trajectories | Iterable[Trajectories],
    behaviour: Policy | None,
    *,
    env: Make | None = None,
    steps: int | None = None,
    discount: float | None = None,
    densities: Densities = "known",
    labels: Labels | None = None,
    limits: Limits | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a log as a Minari dataset, all of it or nothing.

    Args:
      name: a name like `swimmer/random-v0`.
      trajectories: the log; or chunks of one of any size, of which one is held at a time.
      behaviour: the policy that made it; None if it cannot be stored as plain data.
      env: its environment, stored in the metadata for later evaluation.
      steps: where its episodes were cut off, if not at the environment's own limit.
      discount: γ that the log was made for.
      densities: whether the densities were logged, were estimated, or are still missing.
      labels: names of columns, controllers and groups.
      limits: the least and the largest action that the actuators carry out; by default those of
        the environment, if it is given.
      overwrite: replace a dataset of that name.

    Returns:
      The dataset's folder, which `minari.load_dataset(name)` opens.

    Raises:
      OutputError: if a dataset of that name exists already.
      DatasetError: if there are no chunks, or their spaces differ.
    """
    minari = minari_package()
    from minari.dataset.minari_storage import MinariStorage

    target = folder_of(name)
    if target.exists() and not overwrite:
        raise OutputError(f"{target}: exists already. Choose another name, or overwrite it")
    if target.exists() and not (target / "data").is_dir():
        raise OutputError(f"{target}: is a folder, but not a dataset. Choose another name")
    env_spec = None
    if env is not None:
        environment = make_env(env, steps)
        env_spec = environment.spec
        space = environment.action_space
        if limits is None and isinstance(space, Box):
            limits = (space.low, space.high)
        environment.close()
    chunks = [trajectories] if isinstance(trajectories, Trajectories) else trajectories
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
            LIMITS: json.dumps(None if limits is None else [x.tolist() for x in limits]),
            LABELS: json.dumps(None if labels is None else labels._asdict()),
        }
        storage.update_metadata(metadata)
        known = densities != "missing"
        storage.update_episodes(buffers(alike(first, following), known=known))
        write_hashes(temporary)
        sync_tree(temporary)
    return target


def _namespaces(parent: Path, name: str) -> None:
    """Make the folder around a dataset the way Minari expects it."""
    from minari.namespace import create_namespace, list_local_namespaces

    namespace = name.rpartition("/")[0]
    if namespace and namespace not in list_local_namespaces():
        create_namespace(namespace)
    parent.mkdir(parents=True, exist_ok=True)
