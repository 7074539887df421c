"""Logs: collected, kept on disk, and read back.

`collect` runs any environment under a policy; `save` and `load` keep a log as a Minari dataset,
with the density of every action, the behaviour policy and the discount.
"""

from gamps.datasets.collection import collect, policy_for
from gamps.datasets.reading import Dataset, load
from gamps.datasets.writing import LOG_PROB, folder_of, save

__all__ = ["LOG_PROB", "Dataset", "collect", "folder_of", "load", "policy_for", "save"]
