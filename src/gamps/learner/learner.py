"""The loop of the default: rounds of choosing, fitting, climbing and asking what it is worth.

The policy handed out need not be the last: after each round it and the best so far are compared.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from gamps import search
from gamps._utils.console import silent
from gamps._utils.fields import as_number
from gamps.errors import SettingError
from gamps.evaluation import rungs
from gamps.learner.imagined_return import worth
from gamps.learner.model_classes import Classes, ensemble, model_classes, unfitted
from gamps.learner.model_selection import choose
from gamps.learner.types import Outcome, Progress, Round, RunState, Settings
from gamps.policies import Annealed, Gaussian, Policy, estimation, natural_units
from gamps.search import Search, importance
from gamps.search.fitting import Keep
from gamps.search.gradients import AllActions
from gamps.search.values import Imagined, OthersOfState
from gamps.search.weights import Ones, tempered
from gamps.tasks import Task
from gamps.trajectories import Trajectories

FALL = 0.1  # of the learning rate, over a whole training


class Learner:
    """The default, iteration by iteration: `start`, then `step` until `total`.

    Args:
      key: all randomness.
      trajectories: the log.
      task: the known reward, termination and discount.
      behaviour: the policy that made the log, where the search starts; a Gaussian.
      classes: from `model_classes`, or your own; of one entry, nothing is left to choose.
      settings: the same for every problem by default.
      total: iterations, if the last round is to be shorter than the others.
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
        total: int | None = None,
    ) -> None:
        if trajectories.n_trajectories < 5:
            raise SettingError(
                "trajectories", f"{trajectories.n_trajectories}", "Evidence needs at least five"
            )
        s = Settings() if settings is None else settings
        if not isinstance(behaviour, Gaussian):
            raise SettingError(
                "behaviour", type(behaviour).__name__, "Start from a Gaussian policy"
            )
        for name, least in (("rounds", 1), ("iterations", 1), ("members", 2), ("folds", 2)):
            if getattr(s, name) < least:
                raise SettingError(name, f"{getattr(s, name)}", f"Choose at least {least}")
        key_split, self.key = jax.random.split(key)
        self.order = np.asarray(jax.random.permutation(key_split, trajectories.n_trajectories))
        self.trajectories, self.task, self.behaviour = trajectories, task, behaviour
        self.classes, self.settings = classes, s
        self.total = s.rounds * s.iterations if total is None else total
        self.search = _search(trajectories, task, behaviour, s)

    def start(self) -> Progress:
        """Before the first iteration."""
        return Progress(self.search.init(self.behaviour), self.behaviour)

    def like(self, run: RunState) -> Progress:
        """A progress of the same structure, for arrays that were kept on disk."""
        progress = self.start()
        if run.now is not None:
            kind = self.classes[run.now.model_class]
            model = unfitted(jax.random.key(0), self.trajectories, kind, self.settings.members)
            progress = progress._replace(state=progress.state._replace(model=model))
        return progress._replace(run=run)

    def step(self, progress: Progress) -> tuple[Progress, dict[str, float]]:
        """One iteration; the first of a round chooses and fits, the last asks what it is worth."""
        number, within = divmod(int(progress.state.iteration), self.settings.iterations)
        keys = jax.random.split(jax.random.fold_in(self.key, number), 4)
        key_choose, key_fit, key_climb, key_worth = keys
        if within == 0:
            progress = self._fit_models(key_choose, key_fit, progress)
        state, info, _ = search.run(self.search, key_climb, progress.state, iterations=1)
        progress = progress._replace(state=state)
        if within == self.settings.iterations - 1 or int(state.iteration) == self.total:
            progress = self._compare_with_best(key_worth, progress)
        metrics = {
            name: float(getattr(info, name)[0]) for name in ("gradient_norm", "ess", "pareto_k")
        }
        return progress, metrics | _reported(progress.run)

    def _fit_models(self, key_choose: Array, key_fit: Array, progress: Progress) -> Progress:
        """The class and β that evidence prefers, and an ensemble of them."""
        s, log, before = self.settings, self.trajectories, progress.run.now
        omega = _omega(progress.state.policy, log, s.window)
        (name, beta), evidence = choose(
            key_choose, omega, log, self.order, self.classes, exponents=s.exponents, folds=s.folds
        )
        # An ensemble of likelihood alone does not depend on the policy, and is kept.
        if before is not None and before[:2] == (name, beta) and beta == 0:
            now = before._replace(evidence=evidence)
            return progress._replace(run=progress.run._replace(now=now))
        weights, ess = _weights(omega, log.mask, as_number(beta))
        model = ensemble(key_fit, log, weights, self.classes[name], s.members)
        now = Round(name, beta, evidence, float(ess))
        state = progress.state._replace(model=model)
        return progress._replace(state=state, run=progress.run._replace(now=now))

    def _compare_with_best(self, key: Array, progress: Progress) -> Progress:
        """Keep the policy of a round if it is the best so far.

        The best one is judged again beside it, by the same model and with the same noise: what two
        models say of two policies cannot be compared. The first to beat is the behaviour policy.
        Prefer the later policy on ties, as between all that never fall: it has climbed on.
        """
        policy, run = progress.state.policy, progress.run
        model, task, log = progress.state.model, self.task, self.trajectories
        _, to_beat = worth(key, progress.best, model, task, log)
        estimate, promise = worth(key, policy, model, task, log)
        finished = run.now._replace(estimate=estimate, promise=promise)  # type: ignore[union-attr]
        run = run._replace(rounds=(*run.rounds, finished))
        if np.isfinite(promise) and not to_beat > promise:
            run = run._replace(best=len(run.rounds), best_promise=promise)
            return progress._replace(best=policy, run=run)
        best_promise = to_beat if np.isfinite(to_beat) else run.best_promise
        return progress._replace(run=run._replace(best=run.best or 0, best_promise=best_promise))


def _reported(run: RunState) -> dict[str, float]:
    """What an iteration reports of its round, and of the last one that is finished."""
    now: Any = run.now
    chosen = (now.model_class, now.exponent)
    likelihood = {c[:2]: c.log_likelihood for c in now.evidence}.get(chosen, np.nan)
    metrics = {"weights_ess": now.weights_ess, "model_loss": -likelihood}
    if run.rounds:
        metrics |= {"estimate": run.rounds[-1].estimate, "promise": run.rounds[-1].promise}
    return metrics


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
    """A better policy than the one that made the log: all iterations of a `Learner`.

    Args:
      trajectories: the log.
      task: the known reward, termination and discount.
      behaviour: the policy that made the log, where the search starts; a Gaussian. None starts at
        an affine one: the one that made the log, if its densities tell, or one fitted to actions.
      classes: from `model_classes`, or your own; with one entry, nothing is left to choose. None
        takes observations and actions as they are.
      seed: of everything random: a number, or a key of `jax.random`.
      settings: the same for every problem by default.
      advance: called once a round, for a progress bar.

    Returns:
      The learned policy, the ladder that leads to it, and what was decided in each round.
    """
    key = jax.random.key(seed) if isinstance(seed, int) else seed
    if behaviour is None:
        fitted = estimation.fit(key, trajectories, "affine")
        behaviour = estimation.recognised(fitted, trajectories)
    known = model_classes() if classes is None else classes
    learner = Learner(key, trajectories, task, behaviour, known, settings=settings)
    progress, policies = learner.start(), list[Policy]()
    for _ in range(learner.total):
        progress, _ = learner.step(progress)
        rounds = progress.run.rounds
        if len(rounds) > len(policies):
            policies.append(progress.state.policy)
            choice = f"{rounds[-1].model_class}, β = {rounds[-1].exponent:g}"
            advance(f"round {len(rounds)}: {choice}, promises {rounds[-1].promise:.3g}")
    chosen = (progress.run.best or 0) - 1
    ladder = rungs(
        behaviour, progress.best, trajectories, float(task.discount), behaviour=behaviour
    )
    return Outcome(progress.best, ladder, chosen, list(rounds), policies, progress.state.model)


def _search(trajectories: Trajectories, task: Task, behaviour: Gaussian, s: Settings) -> Search:
    """The search of all rounds, in a model that is handed to it."""
    std = jnp.exp(behaviour.log_std)
    units = _units(behaviour, trajectories)
    # The deviation is annealed, whatever its gradient says.
    units = eqx.tree_at(lambda p: p.log_std, units, jnp.zeros_like(std))
    rewards = np.asarray(trajectories.rewards)[np.asarray(trajectories.mask)]
    total = s.rounds * s.iterations
    return Search(
        trajectories,
        task,
        weighting=Ones(),
        fit=Keep(),
        values=Imagined(
            rollouts=1,
            horizon=s.horizon,
            antithetic=False,
            sharing="rows",
            penalty=jnp.asarray(s.pessimism * rewards.std()) if s.pessimism else None,
        ),
        baseline=OthersOfState(),
        learning_rate=s.learning_rate,
        pairs=AllActions(s.states, s.actions, s.roll),
        largest_kl=s.largest_kl,
        units=units,
        explore=Annealed(s.first_std * std, s.least_std * std, total),
        optimiser=_falling_adam(total),
    )


@lru_cache(maxsize=8)
def _falling_adam(total: int) -> optax.GradientTransformation:
    """Kept: a new optimiser object would be a new program to compile."""
    falling = optax.exponential_decay(1.0, total, FALL)
    return optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(falling))


# In one program each: operation by operation, compilation would take seconds.
_units = eqx.filter_jit(natural_units)


@eqx.filter_jit
def _weights(omega: Array, mask: Array, exponent: Array) -> tuple[Float[Array, "N T"], Array]:
    """Of the fit, and how many transitions they leave it effectively."""
    weights = tempered(omega, mask, exponent)
    return weights, importance.effective_sample_size(jnp.log(weights).ravel())


@eqx.filter_jit
def _omega(policy: Policy, log: Trajectories, window: int) -> Float[Array, "N T"]:
    """What of ω belongs to the all-action gradient: its ratio.

    The discount and the norms of the scores come from a gradient that weighs states by γ^t and acts
    as the log did; here states count alike and actions are fresh. Of the behaviour policy itself
    all are one, and there is nothing to choose.
    """
    cumulative = importance.Window(window)(importance.log_rho(policy, log))
    return importance.Ratios.of(cumulative, log.mask, 1.0).discounted_rho
