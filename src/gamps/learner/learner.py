"""The default learner's loop: climb on the log, then in an ensemble, and estimate the gain."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Key

from gamps import search
from gamps._utils.console import silent
from gamps.errors import SettingError
from gamps.evaluation import rungs
from gamps.learner.border import draw_border
from gamps.learner.finite import FiniteLearner, is_finite
from gamps.learner.imagined_return import promised, worth
from gamps.learner.model_classes import Classes, ensemble, model_classes, unfitted
from gamps.learner.types import Outcome, Progress, RunState, Settings
from gamps.models import Ensemble, Quality, WithChoice, concatenated
from gamps.policies import (
    Annealed,
    Boltzmann,
    Gaussian,
    Policy,
    Sharpened,
    estimation,
    natural_units,
)
from gamps.search import Search
from gamps.search.fitting import Keep
from gamps.search.gradients import AllActions
from gamps.search.logged_climb import climb_on_log
from gamps.search.sampling import drawn, single
from gamps.search.values import Border, Imagined, NoBaseline, OthersOfState
from gamps.search.weights import Ones
from gamps.tasks import Task
from gamps.trajectories import Trajectories, counted_steps, in_pieces, known_transitions

FALL = 0.1  # the learning rate at the end of training, relative to the start
UNITS = 2_000  # logged steps used to estimate a parameter's natural unit
FEW = 20  # with more parameters than this, steps are shortened
LOOK = 10  # iterations between two estimates of the policy's return
BELIEVED = 0.5  # share of a gain on the log that is believed: another policy sees other states


class Learner:
    """The default learner, one iteration at a time: `start`, then `step` until `total`.

    Args:
      key: for all randomness.
      trajectories: the log.
      task: the known reward, termination and discount.
      behaviour: the policy that made the log, where the search starts; a Gaussian or a softmax.
      classes: model classes from `model_classes`, or your own; the first is fitted.
      settings: the same for every problem by default.
    """

    def __init__(
        self,
        key: Key[Array, ""],
        trajectories: Trajectories,
        task: Task,
        behaviour: Policy,
        classes: Classes,
        *,
        settings: Settings | None = None,
    ) -> None:
        if trajectories.n_trajectories < 5:
            raise SettingError(
                "trajectories", f"{trajectories.n_trajectories}", "Learn from at least five"
            )
        s = Settings() if settings is None else settings
        if not isinstance(behaviour, (Gaussian, Boltzmann)):
            fix = "Start from a Gaussian policy, or for choices from a Boltzmann policy"
            raise SettingError("behaviour", type(behaviour).__name__, fix)
        for name, least in (("iterations", 1), ("members", 2)):
            if getattr(s, name) < least:
                raise SettingError(name, f"{getattr(s, name)}", f"Choose at least {least}")
        self.key, self.total = key, s.iterations
        counted = counted_steps(trajectories.n_steps, float(task.discount))
        trajectories = in_pieces(trajectories, counted)
        self.trajectories, self.task, self.behaviour = trajectories, task, behaviour
        self.classes, self.settings = classes, s
        rewards = np.where(trajectories.mask, np.asarray(trajectories.rewards, np.float64), 0.0)
        powers = float(task.discount) ** np.arange(trajectories.n_steps)
        own = np.asarray(estimation.made_by(behaviour, trajectories))
        # If several controllers made the log, use the episodes of the one to start from.
        self.shown = float((rewards @ powers)[own if own.any() else ~own].mean())
        self.search = _search(trajectories, task, behaviour, s)
        self.border: Border | None = None
        self.controller: Policy = behaviour  # the search may start at a better one
        self.outcomes: Quality | None = None
        self.say: Callable[[str], None] = silent  # told what the next minutes are spent on
        self.compiled = False
        self.first: tuple[Policy, float | None] | None = None

    def start(self) -> Progress:
        """The progress before the first iteration."""
        return Progress(self.search.init(self.behaviour), self.behaviour)

    def like(self, run: RunState) -> Progress:
        """A progress of the same structure, to be filled with arrays from disk."""
        progress = self.start()
        if run.model_class:
            kind = self.classes[run.model_class]
            model = unfitted(jax.random.key(0), self.trajectories, kind, self.settings.members)
            progress = progress._replace(state=progress.state._replace(model=model))
        return progress._replace(run=run)

    def step(self, progress: Progress) -> tuple[Progress, dict[str, float]]:
        """One iteration; the first climbs on the log, and some estimate the policy's return."""
        key_fit, key_border, key_climb, key_worth = jax.random.split(self.key, 4)
        if self.first is None:
            self.say("climbing on the log")
            self.first = self._climb_on_log(jax.random.fold_in(self.key, 4))
        if progress.state.model is None:
            first, promise = self.first
            progress = Progress(self.search.init(first), first, RunState(logged=promise))
            self.say(f"fitting {self.settings.members} models to the log")
            progress = self._fit_models(key_fit, progress)
        if self.border is None and self.settings.border:
            self.say("finding where the models can be trusted")
            self._draw_border(key_border, progress.state.model)
        if not self.compiled:
            self.say("compiling the search in the models")
        self.compiled = True
        state, info, _ = search.run(self.search, key_climb, progress.state, iterations=1)
        progress = progress._replace(state=state)
        done = int(state.iteration)
        if done % LOOK == 0 or done == self.settings.iterations:
            progress = self._compare(key_worth, progress, self.first[0])
        names = ("gradient_norm", "ess", "pareto_k")
        metrics = {name: float(getattr(info, name)[0]) for name in names}
        run = progress.run
        if run.estimate is not None and run.promise is not None:
            metrics |= {"estimate": run.estimate, "promise": run.promise}
        return progress, metrics

    def _climb_on_log(self, key: Array) -> tuple[Policy, float | None]:
        """Once per process: the first policy, and what the log promises of it if it has changed."""
        s, units, discount = self.settings, self.search.units, float(self.task.discount)
        if not s.clip:
            return self.behaviour, None
        climbed = climb_on_log(
            key, self.behaviour, units, self.trajectories, discount, trace=s.trace, clip=s.clip
        )
        promise = self.shown + BELIEVED * climbed.gain - climbed.error
        if not promise > self.shown:
            return self.behaviour, None
        if not isinstance(self.behaviour, Gaussian):
            return climbed.policy, promise
        std = self.behaviour.log_std + jnp.log(s.least_std)
        return eqx.tree_at(lambda p: p.log_std, climbed.policy, std), promise

    def _fit_models(self, key: Array, progress: Progress) -> Progress:
        """Fit an ensemble of the first class."""
        name, kind = next(iter(self.classes.items()))
        weights = known_transitions(self.trajectories).astype(float)
        model = ensemble(key, self.trajectories, weights, kind, self.settings.members)
        run = progress.run._replace(model_class=name)
        return progress._replace(state=progress.state._replace(model=model), run=run)

    def _draw_border(self, key: Array, model: Ensemble) -> None:
        """Once per process: the border follows from the models."""
        s = self.settings
        parts = (key, self.behaviour, model, self.task, self.trajectories)
        self.border = draw_border(*parts, steps=s.horizon, seldom=s.border)
        values: Any = self.search.values
        self.search = replace(self.search, values=replace(values, border=self.border))

    def _compare(self, key: Array, progress: Progress, first: Policy) -> Progress:
        """Keep the policy, unless it promises less than the log shows for the first one.

        Prefer the policy on ties, such as between policies that never fall: it has climbed further.
        """
        policy, model, run = progress.state.policy, progress.state.model, progress.run
        parts = (model, self.task, self.trajectories, self.border)
        before = worth(key, self.behaviour, *parts) if run.start is None else run.start
        after = worth(key, policy, *parts)
        promise = promised(before, after, self.shown)
        run = run._replace(start=before, estimate=after, promise=promise)
        least = self.shown if run.logged is None else run.logged
        if np.isfinite(promise) and promise >= least:
            run = run._replace(best=int(progress.state.iteration), best_promise=promise)
            return progress._replace(best=policy, run=run)
        run = run._replace(best=0, best_promise=least)
        return progress._replace(best=first, run=run)


def learn(
    trajectories: Trajectories,
    task: Task,
    behaviour: Policy | None = None,
    classes: Classes | None = None,
    *,
    seed: int | Key[Array, ""] = 0,
    settings: Settings | None = None,
    advance: Callable[[str], None] = silent,
) -> Outcome:
    """Learn a better policy than the one that made the log: all iterations of a `Learner`.

    Args:
      trajectories: the log.
      task: the known reward, termination and discount.
      behaviour: the policy that made the log, where the search starts; a Gaussian, or for choices
        a softmax. None starts from an affine policy: the one that made the log, if it can be
        recognised from its densities, or one fitted to the actions.
      classes: model classes from `model_classes`, or your own; the first is fitted. None uses
        observations and actions without further features.
      seed: for all randomness: a number, or a key of `jax.random`.
      settings: the same for every problem by default.
      advance: called once per iteration, for a progress bar.

    Returns:
      The learned policy, the ladder that leads to it, and the decisions made on the way.
    """
    key = jax.random.key(seed) if isinstance(seed, int) else seed
    if behaviour is None:
        kind = "affine" if trajectories.actions.dtype.kind == "f" else "choices"
        fitted = estimation.fit(key, trajectories, kind)
        behaviour = estimation.recognised(fitted, trajectories)
    count = behaviour.choices
    known = model_classes(concatenated if count is None else WithChoice(count))
    known = known if classes is None else classes
    learner: Learner | FiniteLearner
    if classes is None and is_finite(behaviour, trajectories):
        learner = FiniteLearner(key, trajectories, task, behaviour, settings=settings)
    else:
        learner = Learner(key, trajectories, task, behaviour, known, settings=settings)
    progress = learner.start()
    for i in range(learner.total):
        progress, metrics = learner.step(progress)
        promise = f", promises {metrics['promise']:.3g}" if "promise" in metrics else ""
        advance(f"iteration {i + 1}{promise}")
    ladder = rungs(
        behaviour, progress.best, trajectories, float(task.discount), behaviour=behaviour
    )
    state = progress.state
    return Outcome(progress.best, ladder, state.policy, progress.run, state.model)


def _search(trajectories: Trajectories, task: Task, behaviour: Policy, s: Settings) -> Search:
    """The search in a fitted model that it is given."""
    units = units_of(behaviour, trajectories)
    explore: Any = Sharpened(s.least_std ** (-1 / s.iterations))
    if isinstance(behaviour, Gaussian):
        std = jnp.exp(behaviour.log_std)
        explore = Annealed(s.first_std * std, s.least_std * std, s.iterations)
        # The standard deviation follows a schedule, whatever its gradient.
        units = eqx.tree_at(lambda p: p.log_std, units, jnp.zeros_like(std))
    # If many parameters move by one unit each, the policy moves by many.
    size = sum(leaf.size for leaf in jax.tree.leaves(units))
    units = jax.tree.map(lambda unit: unit * min(1.0, FEW / size) ** 0.5, units)
    return Search(
        trajectories,
        task,
        weighting=Ones(),
        fit=Keep(),
        values=Imagined(rollouts=1, horizon=s.horizon, antithetic=False, sharing="rows"),
        # In a sum over all choices, a term that is the same for all adds nothing.
        baseline=OthersOfState() if behaviour.choices is None else NoBaseline(),
        learning_rate=s.learning_rate,
        pairs=AllActions(s.states, s.actions, s.roll),
        largest_kl=s.largest_kl,
        units=units,
        explore=explore,
        optimiser=_falling_adam(s.iterations),
    )


@lru_cache(maxsize=8)
def _falling_adam(total: int) -> optax.GradientTransformation:
    """Adam with a falling rate; cached, since a new object would be a new program to compile."""
    falling = optax.exponential_decay(1.0, total, FALL)
    return optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(falling))


@eqx.filter_jit  # compiling each operation alone would take seconds
def units_of(policy: Policy, log: Trajectories) -> Policy:
    """Natural units from a sample of steps: a network's scores on a long log would fill memory."""
    at = drawn(jax.random.key(0), log.mask.astype(float), min(UNITS, log.mask.size))
    return natural_units(policy, single(log, *at))
