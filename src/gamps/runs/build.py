"""Build a training from a specification, on a log in memory or on disk."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gamps import datasets
from gamps._utils.console import silent
from gamps.errors import SettingError
from gamps.learner import FiniteLearner, Learner, ModelClass, Settings, is_finite, model_classes
from gamps.models import LinearGaussianModel
from gamps.policies import Gaussian, Policy
from gamps.runs.resolve import better_controller, features_of, model_named, policy_of, task_for
from gamps.runs.search_training import SearchTraining
from gamps.runs.spec import MODEL_FREE, TrainSpec, check
from gamps.runs.state import Training
from gamps.search import Search, placement, recipes, streaming
from gamps.search.fitting import ClosedForm
from gamps.search.importance import Clip
from gamps.search.placement import laid_out
from gamps.search.values import Imagined, PerDecisionReturn
from gamps.search.values.baselines import StateValue
from gamps.tasks import Task
from gamps.trajectories import Trajectories, episodes_of, split

LEARNING_RATE = 0.02  # for the paper's recipes, on any log
CLIP = 10.0  # limit of their ratios, except in gamps_paper
SELECTION = 0.2  # share of the training episodes by which these choose their policy
STARTS = 50_000  # steps that an iteration of a streamed default looks at
LEARNED = 500_000  # steps of a log on disk that the default learns from, drawn at random
RUNGS = 100_000  # steps of these that choose the rungs, and that Q is fitted to
SAMPLE = 500_000  # steps of a log on disk held in memory, for judging and inspecting


def read(
    spec: TrainSpec, over: Mesh | None = None, advance: Callable[[str], None] = silent
) -> tuple[datasets.Dataset, Callable[[], Training]]:
    """Read the log of a training, or some of it; return it and a function that builds the training.

    Args:
      spec: settings of the training.
      over: devices to split the log over; None for one.
      advance: called for each episode of a log that is cut into shards first.
    """
    if not spec.stream:
        data = datasets.load(spec.log)
        return data, lambda: build(spec, data, over)
    refuse_labels(spec.log)
    if jax.process_index() == 0:  # the others use the shards that it has cut
        datasets.shards_of(spec.log, advance=advance)
    placement.wait("cut into shards")
    shards = datasets.shards_of(spec.log)
    sample = sampled(shards, spec.log)
    return sample, lambda: build_streamed(spec, shards, sample, over)


def refuse_labels(log: str) -> None:
    """Refuse to stream a log whose labels decide how it is split.

    Shards do not know who logged an episode, what it belongs to, or whether it has judged before.
    """
    labels = datasets.stream(log).labels
    for name in ("controllers", "groups", "judged"):
        if getattr(labels, name):
            fix = "Leave it out: only logs in memory can use labels"
            raise SettingError("stream", f"{log} has labels ({name})", fix)


def build(spec: TrainSpec, data: datasets.Dataset, over: Mesh | None = None) -> Training:
    """Build the training that a specification describes, on a log in memory.

    It does not look at the episodes that `trajectories.split` holds out.

    Args:
      spec: settings of the training.
      data: the log.
      over: devices to split the log over; None for one.
    """
    check(spec)
    part, rest = datasets.split_dataset(data, spec.held_out, seed=spec.seed)
    for name, one in (("learned from", part), ("held out", rest)):
        if one.labels.controllers and not datasets.newest(one).any():
            problem = f"no episode of {data.labels.newest}, the newest controller, is {name}"
            fix = "Log more episodes with it, or choose another seed"
            raise SettingError("log", problem, fix)
    learned = part.trajectories
    start = policy_of(spec.policy, part, spec.seed, data.trajectories)
    key = jax.random.fold_in(jax.random.key(spec.seed), 1)
    features = features_of(spec.features, data.trajectories, data.limits)
    # Rewards may charge for the action as it was drawn, so they are told by that one.
    raw = features_of(spec.features, data.trajectories)
    task, outcomes = task_for(spec.task, part, raw, spec.seed)
    training: Training
    if spec.recipe == "default":
        better = None
        if spec.policy == "behaviour":
            discount = float(task.discount)
            better = better_controller(part, start, discount)
        training = _default(spec, key, better or start, learned, task, features)
        training.controller = _of_fixed_std(start)
        if isinstance(training, Learner):
            training.search = _laid_out(training.search, over)
    else:
        # Choosing a policy biases its estimate, so the verdict uses other episodes.
        learned, held_out = split(learned, min(spec.held_out, SELECTION), seed=spec.seed)
        search, model = assembled(spec, key, learned, task, features)
        search = _laid_out(search, over)
        training = SearchTraining(
            key, search, start, model, iterations=spec.iterations, held_out=held_out
        )
    training.outcomes = outcomes
    return training


def build_streamed(
    spec: TrainSpec, shards: datasets.Shards, sample: datasets.Dataset, over: Mesh | None = None
) -> Training:
    """Like `build`, on a log that is read from disk shard by shard."""
    check(spec)
    learned, _ = shards.split(spec.held_out, spec.seed)
    default = spec.recipe == "default"
    if not default:
        learned, held_out = learned.split(min(spec.held_out, SELECTION), spec.seed)
    if spec.some > len(learned):
        raise SettingError("some", f"{spec.some} of {len(learned)} shards", "Choose fewer, or 0")
    some = learned.sample(LEARNED if default else SAMPLE)
    part = sample._replace(trajectories=some)
    start = policy_of(spec.policy, part, spec.seed)
    key = jax.random.fold_in(jax.random.key(spec.seed), 1)
    features = features_of(spec.features, some, sample.limits)
    task, outcomes = task_for(spec.task, part, features_of(spec.features, some), spec.seed)
    if default:
        # Its fits make the same number of updates on any log: more steps would not be drawn.
        learner = _default(spec, key, start, some, task, features)
        if isinstance(learner, Learner):
            learner.search = _laid_out(_of_some(learner.search, STARTS, spec.seed), over)
        learner.outcomes = outcomes
        return learner
    search, model = assembled(spec, key, some, task, features)
    streaming.check(search)

    def run(search: Search, key: Any, state: Any, *, iterations: int) -> Any:
        some = spec.some or None
        return streaming.run(
            search, learned, key, state, iterations=iterations, some=some, over=over
        )

    judged = held_out.sample(SAMPLE)
    training = SearchTraining(
        key, search, start, model, iterations=spec.iterations, held_out=judged, run=run
    )
    training.outcomes = outcomes
    return training


def sampled(shards: datasets.Shards, log: str) -> datasets.Dataset:
    """Return a sample of the log, with what is known about the whole."""
    known = (shards.behaviour, shards.discount, None, shards.densities)
    limits = datasets.stream(log).limits
    return datasets.Dataset(shards.sample(SAMPLE), *known, limits=limits)


def assembled(
    spec: TrainSpec, key: jax.Array, learned: Trajectories, task: Task, features: Callable[..., Any]
) -> tuple[Search, Any]:
    """Return one of the paper's recipes on a log, and the model that it starts with."""
    parts: dict[str, Any] = {"learning_rate": spec.learning_rate or LEARNING_RATE}
    model = None
    if spec.recipe != "gamps_paper":
        parts["ratio"] = Clip(CLIP)
    if spec.recipe == "pgt":
        parts["values"] = PerDecisionReturn(50)
    if spec.recipe not in MODEL_FREE:
        if learned.actions.dtype.kind != "f" or learned.states.dtype.kind != "f":
            fix = "Use recipe pgt or reinforce; from Python, gamps.recipes with a finite model"
            raise SettingError("recipe", f"{spec.recipe}, with choices", fix)
        name = "quadratic" if spec.model == "auto" else spec.model
        kind = classes(features, name)[name]
        model = _made(kind, name, jax.random.fold_in(key, 2), learned)
        parts |= {"fit": kind.fit, "values": Imagined(rollouts=10, horizon=50)}
        if spec.recipe != "gamps_paper":
            parts["baseline"] = StateValue()
    recipe: Callable[..., Search] = getattr(recipes, spec.recipe)
    return recipe(learned, task, **parts), model


def weight_ratio(spec: TrainSpec) -> dict[str, int | float]:
    """Return how a training transforms the ratios in its fit's weights, as stored in run.json."""
    return {} if spec.recipe in ("default", "gamps_paper") else {"clip": CLIP}


def _of_some(search: Search, steps: int, seed: int) -> Search:
    """Keep about this many steps of whole episodes, drawn at random: where imagination starts."""
    log = search.trajectories
    share = steps / int(log.mask.sum())
    if share >= 1:
        return search
    rows = np.random.default_rng(seed).permutation(len(log.mask))
    kept = np.sort(rows[: math.ceil(share * len(rows))])
    return dataclasses.replace(search, trajectories=episodes_of(log, kept))


def _laid_out(search: Search, over: Mesh | None) -> Search:
    if over is None:
        return search
    return dataclasses.replace(search, trajectories=laid_out(search.trajectories, over))


def _of_fixed_std(policy: Policy) -> Policy:
    """The default learner reduces the deviation by a schedule, so its gradient is not needed."""
    return dataclasses.replace(policy, learn_std=False) if isinstance(policy, Gaussian) else policy


def _default(
    spec: TrainSpec,
    key: jax.Array,
    start: Policy,
    learned: Trajectories,
    task: Task,
    features: Callable[..., Any],
) -> Learner | FiniteLearner:
    rate = spec.learning_rate or Settings().learning_rate
    settings = Settings(iterations=spec.iterations, learning_rate=rate)
    start = _of_fixed_std(start)
    if learned.states.dtype.kind == "i" and not is_finite(start, learned):
        problem = f"default, with {type(start).__name__} and whole numbers as observations"
        fix = "Number the states in one column, or use recipe pgt or reinforce"
        raise SettingError("recipe", problem, fix)
    if is_finite(start, learned):
        return FiniteLearner(key, learned, task, start, settings=settings)
    kinds = classes(features, spec.model)
    for name, kind in kinds.items():
        _made(kind, name, key, learned)
    return Learner(key, learned, task, start, kinds, settings=settings)


def _made(kind: ModelClass, name: str, key: jax.Array, log: Trajectories) -> Any:
    try:
        return kind.make(key, log)
    except Exception as error:  # a user's class may fail in any way
        problem = f"{name} failed: {type(error).__name__}: {error}"
        raise SettingError("model", problem, "Its make must accept a key and the log") from error


def classes(features: Callable[..., Any], name: str) -> dict[str, ModelClass]:
    """Return the named class; by default the network, and those that version 0.1 chose from."""
    known = dict(model_classes(features))
    if name == "auto":
        return known
    if name == "linear":
        return {"linear": _linear(features)}
    if name in known:
        return {name: known[name]}
    return {name: model_named(name)}


def _linear(features: Callable[..., Any]) -> ModelClass:
    def make(key: jax.Array, log: Trajectories) -> LinearGaussianModel:
        del key

        def biased(observation: Any, action: Any) -> jax.Array:
            return jnp.pad(features(observation, action), (0, 1), constant_values=1.0)

        size = jax.eval_shape(biased, log.states[0, 0], log.actions[0, 0]).shape[0]
        zeros = jnp.zeros((size, log.states.shape[-1]), dtype=float)
        return LinearGaussianModel(zeros, zeros, biased, jnp.full(log.states.shape[-1], 1e-3))

    return ModelClass(make, ClosedForm())
