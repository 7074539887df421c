"""The shards of a Minari dataset, made when first needed and kept in the dataset's folder."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from gamps._utils.console import silent
from gamps.datasets.hashes import check_hashes, files_of, hashes_of
from gamps.datasets.shard_reader import Shards, open_shards
from gamps.datasets.shard_writer import write_shards
from gamps.datasets.streams import stream
from gamps.errors import DatasetError

FOLDER = "shards"


def shards_of(
    name: str | Path,
    *,
    folder: str | Path | None = None,
    steps: int = 200_000,
    advance: Callable[[str], None] = silent,
) -> Shards:
    """The shards of a dataset; reuses existing shards if the dataset has not changed.

    Sizes and times of the files are compared first, and hashes if those differ.

    Args:
      name: a dataset's name, or its folder.
      folder: where the shards are kept; in the dataset's folder by default.
      steps: approximate number of steps in a shard.
      advance: called after each episode while shards are made, `stream(name).n_trajectories` times.

    Raises:
      DatasetError: if the dataset cannot be trusted.
      OutputError: if shards cannot be written there.
    """
    log = stream(name)
    target = log.folder / FOLDER if folder is None else Path(folder)
    stamps = _stamps(log.folder)
    cached: Shards | None = None
    with contextlib.suppress(DatasetError):  # none yet, or damaged: make them
        cached = open_shards(target)
    source = cached.source if cached is not None and isinstance(cached.source, dict) else {}
    same_steps = source.get("steps") == steps
    if cached is not None and same_steps and source.get("stamps") == stamps:
        return cached
    digests = hashes_of(log.folder)
    if cached is not None and same_steps and source.get("sha256") == digests:
        return cached
    check_hashes(log.folder, digests)
    return write_shards(
        log.fields(), target, behaviour=log.behaviour, discount=log.discount,
        densities=log.densities, steps=steps,
        source={"stamps": stamps, "steps": steps, "sha256": digests},
        overwrite=True,  # another process may have made them meanwhile
        advance=advance,
    )  # fmt: skip


def _stamps(folder: Path) -> dict[str, list[int]]:
    """Size and modification time of every data file."""
    stats = {path.relative_to(folder).as_posix(): path.stat() for path in files_of(folder)}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
