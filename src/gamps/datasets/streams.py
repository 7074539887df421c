"""Read logs that do not fit into memory one episode after another."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gamps.datasets import checks
from gamps.datasets.hashes import check_hashes
from gamps.datasets.metadata import (
    behaviour_of,
    discount_of,
    labels_of,
    limits_of,
    place_of,
    read_metadata,
)
from gamps.datasets.reading import each_episode, usable_densities
from gamps.datasets.writing import Labels, Limits
from gamps.policies import Policy
from gamps.trajectories import Episode, from_episodes


class Stream(NamedTuple):
    """A Minari dataset to read in passes; each pass holds one episode at a time.

    Attributes:
      folder: the dataset's folder.
      behaviour: the policy that made it, or None if it could not be stored as plain data.
      discount: γ that the log was made for, or None if the log does not say.
      env_spec: Gymnasium's specification of the environment, or None.
      densities: known, or estimated from the actions.
      metadata: all metadata of the dataset.
    """

    folder: Path
    behaviour: Policy | None
    discount: float | None
    env_spec: Any
    densities: str
    metadata: dict[str, Any]

    @property
    def n_trajectories(self) -> int:
        """Number of episodes according to the metadata; a pass checks it."""
        return int(self.metadata.get("total_episodes", 0))

    @property
    def limits(self) -> Limits | None:
        """The least and the largest action, if the dataset says."""
        return limits_of(self.metadata)

    @property
    def labels(self) -> Labels:
        """Names of columns, controllers and groups."""
        return labels_of(self.metadata)

    def episodes(self) -> Iterator[Episode]:
        """Read all episodes with all checks of `load`; those of the whole log come at the end.

        Raises:
          DatasetError: names the field, the episode and the step that cannot be trusted.
        """
        extremes: checks.Extremes | None = None
        for number, episode in enumerate(self.fields()):
            with checks.naming((number,), file=True):
                row = from_episodes([episode], length=bucket_of(len(episode.rewards)))
                if self.behaviour is not None:
                    checks.check_densities(row, self.behaviour)
            extremes = checks.joined(extremes, checks.extremes_of(row, (number,)))
            yield episode
        checks.check_not_clipped(extremes)
        check_hashes(self.folder)

    def fields(self) -> Iterator[Episode]:
        """Read all episodes; compares the fields of each with one another, but checks no values.

        For callers that check values themselves, many episodes at once, as `write_shards` does.
        """
        return each_episode(self.folder / "data", self.metadata)


def stream(name: str | Path) -> Stream:
    """Open a Minari dataset that may be larger than memory.

    Args:
      name: a dataset's name, or the path of a folder that was copied from elsewhere.

    Returns:
      Its metadata and its episodes: `for episode in stream(name).episodes()`.

    Raises:
      DatasetError: if it does not exist, or its metadata cannot be trusted.
    """
    folder = place_of(name)
    metadata, env_spec = read_metadata(folder / "data")
    behaviour, discount = behaviour_of(metadata), discount_of(metadata)
    densities = usable_densities(name, metadata)
    return Stream(folder, behaviour, discount, env_spec, densities, metadata)


def bucket_of(steps: int) -> int:
    """Length that an episode is padded to: 4, 5, 6 or 7 times a power of two.

    This keeps compiled programs few. Padding adds at most a quarter; episodes of up to eight steps
    share one bucket.

    Examples:
      >>> [bucket_of(steps) for steps in (1, 8, 9, 1000, 1025)]
      [8, 8, 10, 1024, 1280]
    """
    steps = max(steps, 8)
    unit = 1 << (steps.bit_length() - 3)
    return -(-steps // unit) * unit
