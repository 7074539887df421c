"""Collect logs, import them, store them on disk and read them back.

`collect` runs any environment under a policy; `read_table` and `from_flat` import existing logs;
`save` and `load` store a log as a Minari dataset, with the density of every action, the behaviour
policy, the discount and the limits of the actuators. For logs larger than memory, `stream` and
`stream_table` read them, `save` writes them in chunks, and `shards_of` and `write_shards` split
them into pieces for learning.
"""

from gamps.datasets.collection import action_limits, collect, policy_for
from gamps.datasets.dataset import Dataset, newest, of_newest, pooled, split_dataset
from gamps.datasets.from_flat import from_flat
from gamps.datasets.minari_export import LOG_PROB
from gamps.datasets.reading import load, load_episodes, names_in
from gamps.datasets.shard_cache import shards_of
from gamps.datasets.shard_reader import Shards, open_shards
from gamps.datasets.shard_writer import write_shards
from gamps.datasets.streams import Stream, stream
from gamps.datasets.table_columns import Account, Columns, Labelled, newest_of
from gamps.datasets.table_values import check_precision, out_of_order
from gamps.datasets.tables import read_table, stream_labelled, stream_table
from gamps.datasets.writing import Labels, Limits, folder_of, save

__all__ = [
    "LOG_PROB",
    "Account",
    "Columns",
    "Dataset",
    "Labelled",
    "Labels",
    "Limits",
    "Shards",
    "Stream",
    "action_limits",
    "check_precision",
    "collect",
    "folder_of",
    "from_flat",
    "load",
    "load_episodes",
    "names_in",
    "newest",
    "newest_of",
    "of_newest",
    "open_shards",
    "out_of_order",
    "policy_for",
    "pooled",
    "read_table",
    "save",
    "shards_of",
    "split_dataset",
    "stream",
    "stream_labelled",
    "stream_table",
    "write_shards",
]
