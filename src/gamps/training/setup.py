"""From a user's words to a training: log, task, policy, model and recipe by their names."""

from __future__ import annotations

import dataclasses
import importlib
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gamps import behaviour, datasets, recipes
from gamps.errors import SettingError
from gamps.fitting import ClosedForm
from gamps.importance import Clip
from gamps.learning import Learner, ModelClass, Settings, classes_of
from gamps.models import LinearGaussian, concatenated
from gamps.policies import Gaussian, Policy
from gamps.tasks import Task
from gamps.training.climbing import Climbing
from gamps.training.types import Training
from gamps.training.words import MODEL_FREE, Words, check
from gamps.trajectories import Trajectories
from gamps.values import Imagined, PerDecisionReturn
from gamps.values.baselines import StateValue

SEARCHES = {
    "gamps": recipes.gamps,
    "gamps_paper": recipes.gamps_paper,
    "ml": recipes.ml,
    "pgt": recipes.pgt,
    "reinforce": recipes.reinforce,
}
LEARNING_RATE = 0.02  # of the paper's recipes, on any log


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


def features_of(words: str, log: Trajectories) -> Callable[..., Any]:
    """The model's input."""
    if not words:
        return concatenated
    found = imported(words, "features")
    if not callable(found):
        raise SettingError(
            "features", f"{words} is no function", "Give one of (observation, action)"
        )
    made: Callable[..., Any] = found
    try:
        shape = jax.eval_shape(made, log.states[0, 0], log.actions[0, 0]).shape
    except Exception as error:  # a user's function may fail in any way
        finding = f"{words} failed: {type(error).__name__}: {error}"
        mend = "It takes one observation and one action and gives a vector"
        raise SettingError("features", finding, mend) from error
    if len(shape) != 1:
        raise SettingError("features", f"{words} gives {shape}", "It has to give one vector")
    return made


def policy_of(words: str, data: datasets.Dataset, seed: int) -> Policy:
    """Where the search starts."""
    if words == "behaviour":
        if data.behaviour is not None:
            return data.behaviour
        words = "affine" if data.trajectories.actions.dtype.kind == "f" else "choices"
    if ":" in words:
        found: Policy = _object(words, "policy", Policy, "Make it a gamps.policies.Policy")
        return found
    return behaviour.fit(jax.random.key(seed), data.trajectories, words)


def split(log: Trajectories, share: float, seed: int) -> tuple[Trajectories, Trajectories]:
    """The part to learn from, and the part that learning never sees."""
    if not 0 < share < 1:
        raise SettingError("held_out", f"{share}", "Choose a share between 0 and 1")
    n = log.n_trajectories
    held = max(math.ceil(share * n), 3)
    if n - held < 5:
        finding = f"{n} episodes, of which {held} are held out"
        raise SettingError("log", finding, "Log more episodes: learning needs at least five")
    order = np.asarray(jax.random.permutation(jax.random.key(seed), n))
    parts = np.sort(order[held:]), np.sort(order[:held])
    learned, judged = (jax.tree.map(lambda x, rows=rows: x[rows], log) for rows in parts)
    return learned, judged


def build(words: Words, data: datasets.Dataset) -> Training:
    """The training that the words describe; what `split` holds out, it does not look at."""
    check(words)
    task = task_of(words.task)
    learned, _ = split(data.trajectories, words.held_out, words.seed)
    start = policy_of(words.policy, data._replace(trajectories=learned), words.seed)
    features = features_of(words.features, learned)
    key = jax.random.fold_in(jax.random.key(words.seed), 1)
    if words.recipe == "default":
        return _default(words, key, task, features, start, learned)
    # Choosing among policies spoils an estimate: the verdict's episodes are not those.
    learned, judged = split(learned, words.held_out, words.seed)
    parts: dict[str, Any] = {"learning_rate": words.learning_rate or LEARNING_RATE}
    model = None
    if words.recipe != "gamps_paper":
        parts["ratio"] = Clip(10.0)
    if words.recipe == "pgt":
        parts["values"] = PerDecisionReturn(50)
    if words.recipe not in MODEL_FREE:
        if learned.actions.dtype.kind != "f" or learned.states.dtype.kind != "f":
            mend = "Take recipe pgt or reinforce; from Python, gamps.recipes with a finite model"
            raise SettingError("recipe", f"{words.recipe}, with choices", mend)
        name = "quadratic" if words.model == "auto" else words.model
        kind = classes(features, name)[name]
        model = _made(kind, name, jax.random.fold_in(key, 2), learned)
        parts |= {"fit": kind.fit, "values": Imagined(rollouts=10, horizon=50)}
        if words.recipe != "gamps_paper":
            parts["baseline"] = StateValue()
    search = SEARCHES[words.recipe](learned, task, **parts)
    return Climbing(key, search, start, model, iterations=words.iterations, judged=judged)


def _default(
    words: Words,
    key: jax.Array,
    task: Task,
    features: Callable[..., Any],
    start: Policy,
    learned: Trajectories,
) -> Training:
    settings = Settings()
    rounds = min(settings.rounds, words.iterations)
    settings = settings._replace(
        rounds=rounds,
        iterations=math.ceil(words.iterations / rounds),
        learning_rate=words.learning_rate or settings.learning_rate,
    )
    if not isinstance(start, Gaussian):
        mend = "Take recipe pgt or reinforce for choices"
        raise SettingError("recipe", f"default, with {type(start).__name__}", mend)
    start = dataclasses.replace(start, learn_std=False)
    kinds = classes(features, words.model)
    for name, kind in kinds.items():
        _made(kind, name, key, learned)
    return Learner(
        key,
        learned,
        task,
        start,
        kinds,
        settings=settings,
        total=words.iterations,
    )


def _made(kind: ModelClass, name: str, key: jax.Array, log: Trajectories) -> Any:
    try:
        return kind.make(key, log)
    except Exception as error:  # a class of the user's own may fail in any way
        finding = f"{name} failed: {type(error).__name__}: {error}"
        raise SettingError("model", finding, "Make it from a key and the log") from error


def classes(features: Callable[..., Any], words: str) -> dict[str, ModelClass]:
    """What evidence may choose among: all, or the one that was named."""
    known = dict(classes_of(features))
    if words == "auto":
        return known
    if words == "linear":
        return {"linear": _linear(features)}
    if words in known:
        return {words: known[words]}
    found = imported(words, "model")
    if not isinstance(found, ModelClass):
        finding = f"{words} is a {type(found).__name__}"
        raise SettingError("model", finding, "Make it a gamps.learning.ModelClass")
    return {words: found}


def _linear(features: Callable[..., Any]) -> ModelClass:
    def make(key: jax.Array, log: Trajectories) -> LinearGaussian:
        del key

        def biased(observation: Any, action: Any) -> jax.Array:
            return jnp.pad(features(observation, action), (0, 1), constant_values=1.0)

        size = jax.eval_shape(biased, log.states[0, 0], log.actions[0, 0]).shape[0]
        zeros = jnp.zeros((size, log.states.shape[-1]), dtype=float)
        return LinearGaussian(zeros, zeros, biased, jnp.full(log.states.shape[-1], 1e-3))

    return ModelClass(make, ClosedForm())
