"""Batch policy search with gradient-aware models.

From a log to a verdict:

    log = gamps.load("tanks/day-v0")              or gamps.from_episodes(...) from your own arrays
    gamps.inspect(log.trajectories, task)         is it fit to learn from?
    learned, held_out = gamps.split(log.trajectories)
    outcome = gamps.learn(learned, task)          the default learner
    found = gamps.evaluate(outcome.ladder, learned, held_out, task)
    gamps.export(found.policy, learned, "policy") if found.verdict.word is deploy

`gamps.recipes` has the paper's algorithm and its baselines.

Every docstring uses the same shape letters: `N` logged trajectories, `T` steps of the longest one,
`M` imagined rollouts, `H` imagined steps; `S` states and `A` actions of a finite problem, or `D`
numbers in an observation and `A` in an action; `F` features, `d` policy parameters; `Z` standard
normal numbers in a draw, `B` trajectories rolled out together. Steps where `mask` is False are
padding.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gamps._version import __version__

if TYPE_CHECKING:
    from gamps.datasets import load
    from gamps.deployment.load import load_policy
    from gamps.deployment.write import export
    from gamps.evaluation import evaluate
    from gamps.learner import learn
    from gamps.runs.inspection import inspect
    from gamps.search import recipes
    from gamps.tasks import Task
    from gamps.trajectories import Episode, Trajectories, from_episodes, split

__all__ = [
    "Episode",
    "Task",
    "Trajectories",
    "__version__",
    "evaluate",
    "export",
    "from_episodes",
    "inspect",
    "learn",
    "load",
    "load_policy",
    "recipes",
    "split",
]

# Where each name is defined. Importing on first use keeps `gamps --help` quick.
_HOMES = {
    "Episode": "gamps.trajectories",
    "Task": "gamps.tasks",
    "Trajectories": "gamps.trajectories",
    "evaluate": "gamps.evaluation",
    "export": "gamps.deployment.write",
    "from_episodes": "gamps.trajectories",
    "inspect": "gamps.runs.inspection",
    "learn": "gamps.learner",
    "load": "gamps.datasets",
    "load_policy": "gamps.deployment.load",
    "split": "gamps.trajectories",
}
# The paper's recipes, policies to start from or to judge, and environments to experiment in.
_MODULES = {"recipes": "gamps.search.recipes", "policies": "gamps.policies", "envs": "gamps.envs"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    else:
        raise AttributeError(f"module 'gamps' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
