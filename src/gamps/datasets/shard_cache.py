"""The shards of a Minari dataset, kept beside its data and made when they are first wanted."""

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
    """The shards of a dataset: those of the last time, if the dataset is still the same.

    Whether it is, its files' sizes and times say; if these differ, their hashes do.

    Args:
      name: a dataset's name, or its folder.
      folder: where the shards are kept; beside the data by default.
      steps: of a shard, about.
      advance: called once an episode while shards are made; `stream(name).n_trajectories` in all.

    Raises:
      DatasetError: if the dataset cannot be trusted.
      OutputError: if shards cannot be written there.
    """
    log = stream(name)
    target = log.folder / FOLDER if folder is None else Path(folder)
    stamps = _stamps(log.folder)
    cached: Shards | None = None
    with contextlib.suppress(DatasetError):  # none yet, or damaged: made again
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
    """Size and time of change of every file of the data."""
    stats = {path.relative_to(folder).as_posix(): path.stat() for path in files_of(folder)}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
