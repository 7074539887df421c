"""Find a Minari dataset and read its metadata: policy, discount, labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

from gamps._utils.atomic_io import recover_folder
from gamps.datasets.writing import (
    DENSITIES,
    DISCOUNT,
    LABELS,
    LIMITS,
    POLICY,
    Labels,
    Limits,
    folder_of,
    minari_package,
)
from gamps.errors import DatasetError, DescriptionError
from gamps.policies import Policy, rebuild


def place_of(name: str | Path) -> Path:
    """The folder of a dataset, given its name or path; it must contain data."""
    minari_package()
    path = recover_folder(Path(name))
    folder = path if path.is_dir() else folder_of(str(name))
    if not (folder / "data").is_dir():
        raise DatasetError(
            "dataset",
            f"no data in {folder}",
            "Write it with `gamps import` or `gamps collect`, or set MINARI_DATASETS_PATH to the "
            "folder that holds it",
        )
    return folder


def kind_of(metadata: dict[str, Any]) -> str:
    """The kind of densities; a log that does not say counts as known."""
    stored = metadata.get(DENSITIES, '"known"')
    for kind in ("known", "estimated", "missing"):
        if stored == json.dumps(kind):
            return kind
    fix = "Expected known, estimated or missing"
    raise DatasetError(f"metadata.json/{DENSITIES}", f"{stored!r:.40}", fix)


def read_metadata(data: Path) -> tuple[dict[str, Any], Any]:
    """The metadata, and the environment's specification; no environment is made from it."""
    fix = "Get the dataset again, or write it with `gamps collect`"
    try:
        metadata = json.loads((data / "metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError("metadata.json", f"cannot be read: {error}", fix) from error
    if not isinstance(metadata, dict):
        raise DatasetError("metadata.json", "is not a table", fix)
    if metadata.get("data_format") != "hdf5":
        raise DatasetError(
            "metadata.json/data_format",
            f"{metadata.get('data_format')!r}",
            'Create it with data_format="hdf5": the arrow format loses steps of long episodes',
        )
    for space in ("observation_space", "action_space"):
        # Without them Minari makes the environment that the file names, which could run any code.
        if not isinstance(metadata.get(space), str):
            raise DatasetError(f"metadata.json/{space}", "missing", fix)
    described = metadata.get("env_spec")
    try:
        env_spec = None if described is None else EnvSpec.from_json(described)
    except Exception as error:  # Gymnasium raises whatever the damage happens to cause
        problem = f"cannot be read: {type(error).__name__}: {error}"
        raise DatasetError("metadata.json/env_spec", problem, fix) from error
    return metadata, env_spec


def behaviour_of(metadata: dict[str, Any]) -> Policy | None:
    """The policy that made the log, rebuilt from its description."""
    try:
        described = json.loads(metadata.get(POLICY, "null"))
        return None if described is None else rebuild(described)
    except (ValueError, TypeError, RecursionError, DescriptionError) as error:
        fix = f"Delete {POLICY} if you do not know the policy; the log keeps its densities"
        raise DatasetError(f"metadata.json/{POLICY}", str(error), fix) from error


def discount_of(metadata: dict[str, Any]) -> float | None:
    """γ that the log was made for, or None if the metadata do not say."""
    try:
        discount = json.loads(metadata.get(DISCOUNT, "null"))
    except (ValueError, TypeError):
        discount = metadata[DISCOUNT]
    number = isinstance(discount, (int, float)) and not isinstance(discount, bool)
    if discount is not None and not (number and 0 < discount <= 1):
        place = f"metadata.json/{DISCOUNT}"
        raise DatasetError(place, f"{discount!r}", "Set a discount in (0, 1]")
    return discount


def limits_of(metadata: dict[str, Any]) -> Limits | None:
    """The least and the largest action: stored, or those of an action space with finite limits."""
    place = LIMITS
    try:
        each = json.loads(metadata.get(LIMITS, "null"))
        if each is None:
            place, space = "action_space", json.loads(metadata["action_space"])
            each = (space.get("low"), space.get("high"))  # choices have none
        low, high = (np.asarray(limit, np.float64) for limit in each)
    except (AttributeError, TypeError, ValueError) as error:
        fix = "Expected the least and the largest value of each entry of an action"
        raise DatasetError(f"metadata.json/{place}", f"cannot be read: {error}", fix) from error
    known = low.ndim == 1 and low.shape == high.shape and np.isfinite([low, high]).all()
    return (low, high) if known and (low < high).all() else None


def labels_of(metadata: dict[str, Any]) -> Labels:
    """Names of columns, controllers and groups, as far as they were stored."""
    try:
        stored = json.loads(metadata.get(LABELS, "null")) or {}
        newest, judged = str(stored.pop("newest", "")), int(stored.pop("judged", 0))
        names = {name: tuple(map(str, x)) for name, x in stored.items()}
        return Labels(**names, newest=newest, judged=judged)
    except (ValueError, TypeError, AttributeError) as error:
        place = f"metadata.json/{LABELS}"
        raise DatasetError(place, f"cannot be read: {error}", "Import the log again") from error
