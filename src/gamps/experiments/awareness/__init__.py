"""When does gradient-awareness pay? Model capacity × log size × distance from the behaviour."""

from gamps.experiments.awareness.command import awareness

__all__ = ["awareness"]
