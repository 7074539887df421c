"""From a user's words to a training, on a log in memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gamps import datasets
from gamps.search import recipes
from gamps.errors import SettingError
from gamps.search.fitting import ClosedForm
from gamps.search.importance import Clip
from gamps.learner import Learner, ModelClass, Settings, model_classes
from gamps.models import LinearGaussian
from gamps.policies import Gaussian, Policy
from gamps.search import Search
from gamps.search.placement import laid_out
from gamps.tasks import Task
from gamps.runs.search_training import Climbing
from gamps.runs.resolve import features_of, model_named, policy_of, task_of
from gamps.runs.state import Training
from gamps.runs.spec import MODEL_FREE, Words, check
from gamps.trajectories import Trajectories
from gamps.search.values import Imagined, PerDecisionReturn
from gamps.search.values.baselines import StateValue

SEARCHES = {
    "gamps": recipes.gamps,
    "gamps_paper": recipes.gamps_paper,
    "ml": recipes.ml,
    "pgt": recipes.pgt,
    "reinforce": recipes.reinforce,
}
LEARNING_RATE = 0.02  # of the paper's recipes, on any log


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


def build(words: Words, data: datasets.Dataset, over: Mesh | None = None) -> Training:
    """The training that the words describe; what `split` holds out, it does not look at.

    Args:
      words: of the user.
      data: the log.
      over: devices to share the log out among; None for one.
    """
    check(words)
    task = task_of(words.task)
    learned, _ = split(data.trajectories, words.held_out, words.seed)
    start = policy_of(words.policy, data._replace(trajectories=learned), words.seed)
    features = features_of(words.features, learned)
    key = jax.random.fold_in(jax.random.key(words.seed), 1)
    if words.recipe == "default":
        learner = _default(words, key, task, features, start, learned)
        learner.climb = _laid_out(learner.climb, over)
        return learner
    # Choosing among policies spoils an estimate: the verdict's episodes are not those.
    learned, judged = split(learned, words.held_out, words.seed)
    search, model = assembled(words, key, task, features, learned)
    search = _laid_out(search, over)
    return Climbing(key, search, start, model, iterations=words.iterations, judged=judged)


def assembled(
    words: Words,
    key: jax.Array,
    task: Task,
    features: Callable[..., Any],
    learned: Trajectories,
) -> tuple[Search, Any]:
    """One of the paper's recipes on a log, and the model that it starts with."""
    parts: dict[str, Any] = {"learning_rate": words.learning_rate or LEARNING_RATE}
    model = None
    if words.recipe != "gamps_paper":
        parts["ratio"] = Clip(10.0)
    if words.recipe == "pgt":
        parts["values"] = PerDecisionReturn(50)
    if words.recipe not in MODEL_FREE:
        if learned.actions.dtype.kind != "f" or learned.states.dtype.kind != "f":
            mend = "Take recipe pgt or reinforce; from Python, gamps.search.recipes with a finite model"
            raise SettingError("recipe", f"{words.recipe}, with choices", mend)
        name = "quadratic" if words.model == "auto" else words.model
        kind = classes(features, name)[name]
        model = _made(kind, name, jax.random.fold_in(key, 2), learned)
        parts |= {"fit": kind.fit, "values": Imagined(rollouts=10, horizon=50)}
        if words.recipe != "gamps_paper":
            parts["baseline"] = StateValue()
    return SEARCHES[words.recipe](learned, task, **parts), model


def _laid_out(search: Search, over: Mesh | None) -> Search:
    if over is None:
        return search
    return dataclasses.replace(search, trajectories=laid_out(search.trajectories, over))


def _default(
    words: Words,
    key: jax.Array,
    task: Task,
    features: Callable[..., Any],
    start: Policy,
    learned: Trajectories,
) -> Learner:
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
    known = dict(model_classes(features))
    if words == "auto":
        return known
    if words == "linear":
        return {"linear": _linear(features)}
    if words in known:
        return {words: known[words]}
    return {words: model_named(words)}


def _linear(features: Callable[..., Any]) -> ModelClass:
    def make(key: jax.Array, log: Trajectories) -> LinearGaussian:
        del key

        def biased(observation: Any, action: Any) -> jax.Array:
            return jnp.pad(features(observation, action), (0, 1), constant_values=1.0)

        size = jax.eval_shape(biased, log.states[0, 0], log.actions[0, 0]).shape[0]
        zeros = jnp.zeros((size, log.states.shape[-1]), dtype=float)
        return LinearGaussian(zeros, zeros, biased, jnp.full(log.states.shape[-1], 1e-3))

    return ModelClass(make, ClosedForm())
