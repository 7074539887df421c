"""Task, policy, model and features by the names that a user gives them."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from gamps import datasets
from gamps.errors import SettingError
from gamps.learner import ModelClass
from gamps.models import Quality, WithChoice, concatenated, learned_task
from gamps.policies import Policy, estimation
from gamps.runs.spec import MODELS, TrainSpec
from gamps.tasks import Task
from gamps.trajectories import Trajectories


def imported(target: str, field: str) -> Any:
    """The object that `module:object` names, looked for from the current folder on."""
    module, _, name = target.partition(":")
    fix = "Say it like mytask:task, module and object, both importable from here"
    if not module or not name:
        raise SettingError(field, repr(target), fix)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a user's module may fail in any way
        raise SettingError(field, f"{target}: {type(error).__name__}: {error}", fix) from error
    return found


def _object(target: str, field: str, kind: type, fix: str) -> Any:
    """An object of a kind, or what a function without arguments makes."""
    found = imported(target, field)
    if callable(found) and not isinstance(found, kind):
        try:
            found = found()
        except Exception as error:  # a user's function may fail in any way
            problem = f"{target}() failed: {type(error).__name__}: {error}"
            raise SettingError(field, problem, "It takes no argument") from error
    if not isinstance(found, kind):
        raise SettingError(field, f"{target} is a {type(found).__name__}", fix)
    return found


def task_of(target: str) -> Task:
    """The known part of the problem."""
    fix = "Make it a gamps.Task(reward, discount, terminal)"
    found: Task = _object(target, "task", Task, fix)
    return found


def task_for(
    target: str, data: datasets.Dataset, features: Callable[..., Any], seed: int
) -> tuple[Task, Quality | None]:
    """The task that was named; without a name one that is fitted to the log, and how well.

    Args:
      target: module:object, or empty.
      data: the log that it may be fitted to, with its discount.
      features: of observation and action.
      seed: of the fit.
    """
    if target:
        return task_of(target), None
    if data.discount is None:
        problem = "missing, and the log has no discount"
        raise SettingError("task", problem, "Give one, or import the log with --discount")
    return learned_task(jax.random.key(seed), data.trajectories, data.discount, features)


def check_named(spec: TrainSpec) -> None:
    """Import every object that a specification names, and refuse other kinds, before reading a log.

    Raises:
      SettingError: naming the setting.
    """
    if spec.task:
        task_of(spec.task)
    if ":" in spec.policy:
        policy_named(spec.policy)
    if spec.features:
        features_named(spec.features)
    if spec.model not in MODELS:
        model_named(spec.model)


def features_named(target: str) -> Callable[..., Any]:
    """The function that `module:function` names; it is not called."""
    found = imported(target, "features")
    if not callable(found):
        raise SettingError(
            "features", f"{target} is no function", "Give one of (observation, action)"
        )
    made: Callable[..., Any] = found
    return made


def features_of(target: str, log: Trajectories) -> Callable[..., Any]:
    """The model's input, tried on the shapes of a log."""
    if not target:
        choices = log.actions.dtype.kind == "i"
        return WithChoice(int(log.actions.max()) + 1) if choices else concatenated
    made = features_named(target)
    try:
        shape = jax.eval_shape(made, log.states[0, 0], log.actions[0, 0]).shape
    except Exception as error:  # a user's function may fail in any way
        problem = f"{target} failed: {type(error).__name__}: {error}"
        fix = "It takes one observation and one action and gives a vector"
        raise SettingError("features", problem, fix) from error
    if len(shape) != 1:
        raise SettingError("features", f"{target} gives {shape}", "It has to give one vector")
    return made


def model_named(target: str) -> ModelClass:
    """The class of models that `module:object` names."""
    found = imported(target, "model")
    if not isinstance(found, ModelClass):
        problem = f"{target} is a {type(found).__name__}"
        raise SettingError("model", problem, "Make it a gamps.learner.ModelClass")
    return found


def policy_named(target: str) -> Policy:
    """The policy that `module:object` names."""
    found: Policy = _object(target, "policy", Policy, "Make it a gamps.policies.Policy")
    return found


def policy_of(
    target: str, data: datasets.Dataset, seed: int, space: Trajectories | None = None
) -> Policy:
    """Where the search starts; of a log of several controllers it is fitted to the newest's.

    Args:
      target: behaviour, affine, network, or module:object.
      data: the log that it may be fitted to.
      seed: of the fit.
      space: a log with all choices and numbered states that there are; by default the same.
    """
    log = datasets.of_newest(data)
    space = data.trajectories if space is None else space
    discrete = log.actions.dtype.kind == "i"
    if target == "behaviour":
        if data.behaviour is not None:
            return data.behaviour
        target = "choices" if discrete else "affine"
        fitted = estimation.fit(jax.random.key(seed), log, target, space=space)
        return estimation.recognised(fitted, log)
    if ":" in target:
        return policy_named(target)
    target = "choices" if discrete and target == "affine" else target
    return estimation.fit(jax.random.key(seed), log, target, space=space)
