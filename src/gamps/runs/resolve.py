"""Find the task, policy, model and features that a user names."""

import importlib
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gamps import datasets
from gamps.errors import SettingError
from gamps.learner import ModelClass
from gamps.models import Quality, WithChoice, WithinLimits, concatenated, learned_task
from gamps.policies import Policy, estimation
from gamps.policies.paths import has_path
from gamps.runs.spec import MODELS, TrainSpec
from gamps.tasks import Task
from gamps.trajectories import Trajectories, episodes_of, returns_of


def imported(target: str, field: str) -> Any:
    """Import the object that `module:object` names, from the current folder first."""
    module, _, name = target.partition(":")
    fix = "Give module:object, like mytask:task, importable from here"
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
    """Return an object of a kind, or the one that a function without arguments makes."""
    found = imported(target, field)
    if callable(found) and not isinstance(found, kind):
        try:
            found = found()
        except Exception as error:  # a user's function may fail in any way
            problem = f"{target}() failed: {type(error).__name__}: {error}"
            raise SettingError(field, problem, "It is called without arguments") from error
    if not isinstance(found, kind):
        raise SettingError(field, f"{target} is a {type(found).__name__}", fix)
    return found


def task_of(target: str) -> Task:
    """Return the task that `module:object` names."""
    fix = "Make it a gamps.Task(reward, discount, terminal)"
    found: Task = _object(target, "task", Task, fix)
    return found


def task_for(
    target: str, data: datasets.Dataset, features: Callable[..., Any], seed: int
) -> tuple[Task, Quality | None]:
    """Return the named task; without a name, one fitted to the log, and how well it fits.

    Args:
      target: module:object, or empty.
      data: the log that it may be fitted to, with its discount.
      features: function of observation and action.
      seed: seed of the fit.
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
    """Return the function that `module:function` names, without calling it."""
    found = imported(target, "features")
    if not callable(found):
        raise SettingError(
            "features", f"{target} is not a function", "Give one of (observation, action)"
        )
    made: Callable[..., Any] = found
    return made


def features_of(
    target: str, log: Trajectories, limits: datasets.Limits | None = None
) -> Callable[..., Any]:
    """Return the function that gives the model's input, checked on the shapes of a log.

    Args:
      target: module:function; if empty, observation and action, clipped to the limits if known.
      log: gives the shapes.
      limits: of the actuators.
    """
    if not target:
        if log.actions.dtype.kind == "i":
            return WithChoice(int(log.actions.max()) + 1)
        if limits is None:
            return concatenated
        for limit in limits:
            if limit.shape != log.actions.shape[2:]:
                problem = f"{limit.tolist()}, for actions of shape {log.actions.shape[2:]}"
                raise SettingError("limits", problem, "Store one number per entry of an action")
        return WithinLimits(*(tuple(limit.tolist()) for limit in limits))
    made = features_named(target)
    try:
        shape = jax.eval_shape(made, log.states[0, 0], log.actions[0, 0]).shape
    except Exception as error:  # a user's function may fail in any way
        problem = f"{target} failed: {type(error).__name__}: {error}"
        fix = "It must take one observation and one action, and give a vector"
        raise SettingError("features", problem, fix) from error
    if len(shape) != 1:
        raise SettingError("features", f"{target} gives {shape}", "It must give one vector")
    return made


def model_named(target: str) -> ModelClass:
    """Return the class of models that `module:object` names."""
    found = imported(target, "model")
    if not isinstance(found, ModelClass):
        problem = f"{target} is a {type(found).__name__}"
        raise SettingError("model", problem, "Make it a gamps.learner.ModelClass")
    return found


def policy_named(target: str) -> Policy:
    """Return the policy that `module:object` names."""
    found: Policy = _object(target, "policy", Policy, "Make it a gamps.policies.Policy")
    return found


def policy_of(
    target: str, data: datasets.Dataset, seed: int, space: Trajectories | None = None
) -> Policy:
    """Return the policy where the search starts; a fit uses the newest controller's episodes.

    Args:
      target: behaviour, affine, network, or module:object.
      data: the log that it may be fitted to.
      seed: seed of the fit.
      space: a log that contains all choices and numbered states; by default the same log.
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


def better_controller(data: datasets.Dataset, start: Policy, discount: float) -> Policy | None:
    """Return the policy of an older controller that the log shows to be better than the newest.

    A search that starts at a poor controller ends near it. Better is a mean return that is higher
    by two standard errors; where episodes were cut off, they must have been cut off after as many
    steps as the newest's. The policy must be of the newest controller's class, and its densities
    those of the log.

    Args:
      data: the log, with the names of its controllers.
      start: the newest controller.
      discount: γ.

    Returns:
      The best such policy, or None.
    """
    if not data.labels.controllers:
        return None
    names, returns = np.asarray(data.labels.controllers), returns_of(data.trajectories, discount)
    lengths = np.asarray(data.trajectories.lengths)
    cut_off = ~np.asarray(data.trajectories.terminated)
    last = names == data.labels.newest
    newest, limit = returns[last], lengths[last & cut_off]
    best: tuple[float, Policy] | None = None
    for name in dict.fromkeys(data.labels.controllers):
        rows = names == name
        gap = returns[rows].mean() - newest.mean()
        errors = [x.var(ddof=1) / len(x) for x in (returns[rows], newest) if len(x) > 1]
        own = lengths[rows & cut_off]
        if len(own) and len(limit) and own.max() != limit.max():
            continue
        if len(errors) < 2 or gap <= 2 * math.sqrt(sum(errors)) or (best and gap <= best[0]):
            continue
        log = episodes_of(data.trajectories, np.flatnonzero(rows))
        policy = estimation.recognised(start, log)
        alike = policy is not start and has_path(start, policy)
        if alike and estimation.made_by(policy, log).all():
            best = (float(gap), policy)
    return None if best is None else best[1]
