"""Task, policy, model and features by the names that a user gives them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from gamps.policies import estimation
from gamps import datasets
from gamps.errors import SettingError
from gamps.learner import ModelClass
from gamps.models import concatenated
from gamps.policies import Policy
from gamps.tasks import Task
from gamps.runs.spec import MODELS, Words
from gamps.trajectories import Trajectories


def imported(words: str, field: str) -> Any:
    """The object that `module:object` names, looked for from the current folder on."""
    module, _, name = words.partition(":")
    mend = "Say it like mytask:task, module and object, both importable from here"
    if not module or not name:
        raise SettingError(field, repr(words), mend)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a user's module may fail in any way
        raise SettingError(field, f"{words}: {type(error).__name__}: {error}", mend) from error
    return found


def _object(words: str, field: str, kind: type, mend: str) -> Any:
    """An object of a kind, or what a function without arguments makes."""
    found = imported(words, field)
    if callable(found) and not isinstance(found, kind):
        try:
            found = found()
        except Exception as error:  # a user's function may fail in any way
            finding = f"{words}() failed: {type(error).__name__}: {error}"
            raise SettingError(field, finding, "It takes no argument") from error
    if not isinstance(found, kind):
        raise SettingError(field, f"{words} is a {type(found).__name__}", mend)
    return found


def task_of(words: str) -> Task:
    """The known part of the problem."""
    mend = "Make it a gamps.Task(reward, discount, terminal)"
    found: Task = _object(words, "task", Task, mend)
    return found


def check_named(words: Words) -> None:
    """Import all that the words name, and refuse what is of another kind, before a log is read.

    Raises:
      SettingError: naming the setting.
    """
    task_of(words.task)
    if ":" in words.policy:
        policy_named(words.policy)
    if words.features:
        features_named(words.features)
    if words.model not in MODELS:
        model_named(words.model)


def features_named(words: str) -> Callable[..., Any]:
    """The function that `module:function` names; it is not called."""
    found = imported(words, "features")
    if not callable(found):
        raise SettingError(
            "features", f"{words} is no function", "Give one of (observation, action)"
        )
    made: Callable[..., Any] = found
    return made


def features_of(words: str, log: Trajectories) -> Callable[..., Any]:
    """The model's input, tried on the shapes of a log."""
    if not words:
        return concatenated
    made = features_named(words)
    try:
        shape = jax.eval_shape(made, log.states[0, 0], log.actions[0, 0]).shape
    except Exception as error:  # a user's function may fail in any way
        finding = f"{words} failed: {type(error).__name__}: {error}"
        mend = "It takes one observation and one action and gives a vector"
        raise SettingError("features", finding, mend) from error
    if len(shape) != 1:
        raise SettingError("features", f"{words} gives {shape}", "It has to give one vector")
    return made


def model_named(words: str) -> ModelClass:
    """The class of models that `module:object` names."""
    found = imported(words, "model")
    if not isinstance(found, ModelClass):
        finding = f"{words} is a {type(found).__name__}"
        raise SettingError("model", finding, "Make it a gamps.learner.ModelClass")
    return found


def policy_named(words: str) -> Policy:
    """The policy that `module:object` names."""
    found: Policy = _object(words, "policy", Policy, "Make it a gamps.policies.Policy")
    return found


def policy_of(words: str, data: datasets.Dataset, seed: int) -> Policy:
    """Where the search starts."""
    if words == "behaviour":
        if data.behaviour is not None:
            return data.behaviour
        words = "affine" if data.trajectories.actions.dtype.kind == "f" else "choices"
    if ":" in words:
        return policy_named(words)
    return estimation.fit(jax.random.key(seed), data.trajectories, words)
