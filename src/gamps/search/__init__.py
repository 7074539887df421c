"""The paper's Algorithm 1: one module or folder for each stage, and `Search` is the loop."""

from gamps.search.algorithm import Info, Search, State, run

__all__ = ["Info", "Search", "State", "run"]
