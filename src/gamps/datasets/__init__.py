"""Logs: collected, kept on disk, and read back.

`collect` runs any environment under a policy; `save` and `load` keep a log as a Minari dataset.
"""

from gamps.datasets.collection import collect

__all__ = ["collect"]
