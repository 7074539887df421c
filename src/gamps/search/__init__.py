"""The paper: each stage of Algorithm 1 is a module or folder of its name, and `Search` the loop."""

from gamps.search.algorithm import Info, Search, State, run

__all__ = ["Info", "Search", "State", "run"]
