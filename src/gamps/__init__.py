"""Batch policy search with gradient-aware models.

The data flow is the architecture; each stage is a module of that name:

    trajectories -> importance -> weights -> fitting -> values -> gradients -> search -> recipes
       [N, T]        log ρ, ESS      ω          p̂         Q         ∇J        the loop

Shape letters, the same in every docstring: `N` logged trajectories, `T` steps of the longest one,
`M` imagined rollouts, `H` imagined steps; `S` states and `A` actions of a finite problem, or `D`
and `A` numbers of an observation and an action; `F` features, `d` policy parameters; `Z` standard
normal numbers of a draw, `B` trajectories rolled out side by side. Padded steps are those where
`mask` is False.
"""

from gamps._version import __version__
from gamps.deployment.load import load_policy
from gamps.search import Search, run
from gamps.search.recipes import gamps, gamps_paper, ml, pgt, reinforce
from gamps.tasks import Task
from gamps.trajectories import Episode, Trajectories, from_episodes

__all__ = [
    "Episode",
    "Search",
    "Task",
    "Trajectories",
    "__version__",
    "from_episodes",
    "gamps",
    "gamps_paper",
    "load_policy",
    "ml",
    "pgt",
    "reinforce",
    "run",
]
