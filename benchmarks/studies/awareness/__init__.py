"""When does gradient-awareness pay? Model capacity × log size × distance from the behaviour."""

from benchmarks.studies.awareness.command import awareness

__all__ = ["awareness"]
