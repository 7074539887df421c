"""Logs read one episode after the other, for those that do not fit into memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gamps.datasets import checks
from gamps.datasets.hashes import check_hashes
from gamps.datasets.metadata import behaviour_of, discount_of, labels_of, place_of, read_metadata
from gamps.datasets.reading import each_episode, usable_densities
from gamps.datasets.writing import Labels
from gamps.policies import Policy
from gamps.trajectories import Episode, from_episodes


class Stream(NamedTuple):
    """A Minari dataset to be read in passes; each pass holds one episode at a time.

    Attributes:
      folder: where the dataset lies.
      behaviour: the policy that made it, or None if it could not be written down.
      discount: γ that the log was made for, or None if it was not said.
      env_spec: Gymnasium's specification of the environment, or None.
      densities: known, or estimated from the actions.
      metadata: all that the dataset says about itself.
    """

    folder: Path
    behaviour: Policy | None
    discount: float | None
    env_spec: Any
    densities: str
    metadata: dict[str, Any]

    @property
    def n_trajectories(self) -> int:
        """Episodes, as the metadata say; a pass checks it."""
        return int(self.metadata.get("total_episodes", 0))

    @property
    def labels(self) -> Labels:
        """Names of columns, controllers and groups."""
        return labels_of(self.metadata)

    def episodes(self) -> Iterator[Episode]:
        """One pass, with all the checks of `load`: those of the whole log at its end.

        Raises:
          DatasetError: naming the field, the episode and the step that cannot be trusted.
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
        """One pass, the fields of an episode checked against one another, but no number.

        For those who check numbers themselves, many episodes at once, as `write_shards` does.
        """
        return each_episode(self.folder / "data", self.metadata)


def stream(name: str | Path) -> Stream:
    """Open a Minari dataset that may be larger than memory.

    Args:
      name: a dataset's name, or the path of a folder that was copied from elsewhere.

    Returns:
      What its metadata say, and its episodes: `for episode in stream(name).episodes()`.

    Raises:
      DatasetError: if it is not there, or its metadata cannot be trusted.
    """
    folder = place_of(name)
    metadata, env_spec = read_metadata(folder / "data")
    behaviour, discount = behaviour_of(metadata), discount_of(metadata)
    densities = usable_densities(name, metadata)
    return Stream(folder, behaviour, discount, env_spec, densities, metadata)


def bucket_of(steps: int) -> int:
    """What an episode is padded to: 4, 5, 6 or 7 times a power of two, so few programs serve all.

    Padding adds a quarter at the most; below eight steps there is one bucket for all.

    Examples:
      >>> [bucket_of(steps) for steps in (1, 8, 9, 1000, 1025)]
      [8, 8, 10, 1024, 1280]
    """
    steps = max(steps, 8)
    unit = 1 << (steps.bit_length() - 3)
    return -(-steps // unit) * unit
