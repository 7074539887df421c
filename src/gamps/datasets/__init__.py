"""Logs: collected, imported, kept on disk, and read back.

`collect` runs any environment under a policy; `read_table` and `from_flat` take what others logged;
`save` and `load` keep a log as a Minari dataset, with the density of every action, the behaviour
policy and the discount.
"""

from gamps.datasets.collection import collect, policy_for
from gamps.datasets.flat import from_flat
from gamps.datasets.reading import Dataset, load, load_episodes
from gamps.datasets.tables import Columns, read_table
from gamps.datasets.writing import LOG_PROB, folder_of, save

__all__ = [
    "LOG_PROB",
    "Columns",
    "Dataset",
    "collect",
    "folder_of",
    "from_flat",
    "load",
    "load_episodes",
    "policy_for",
    "read_table",
    "save",
]
