"""The loop of the default: rounds of choosing, fitting, climbing and asking what it is worth.

The policy handed out is the one with the highest lower estimate, not the last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from gamps import importance, search
from gamps.errors import SettingError
from gamps.fitting import Keep
from gamps.gradients import AllActions
from gamps.learning.classes import Classes, ensemble
from gamps.learning.evidence import choose
from gamps.learning.worth import worth
from gamps.policies import Annealed, Gaussian, Policy, natural_units
from gamps.search import Search
from gamps.tasks import Task
from gamps.trajectories import Trajectories
from gamps.values import Imagined, OthersOfState
from gamps.weights import GradientAware, Ones, tempered

FALL = 0.1  # of the learning rate, over a whole training


class Settings(NamedTuple):
    """What is the same in every problem.

    Attributes:
      rounds: of choosing, fitting and climbing.
      iterations: policy steps a round.
      learning_rate: in natural units, falling to a tenth over all rounds.
      first_std: of the policy, relative to the behaviour's standard deviation.
      least_std: the same at the end.
      states: logged states an iteration.
      actions: fresh ones at each.
      roll: imagined steps that states are moved on, at most.
      horizon: imagined steps of a value.
      members: of the ensemble.
      pessimism: what one unit of doubt costs, in standard deviations of the logged rewards.
      largest_kl: of one step.
      exponents: β to choose from; the first is preferred unless another is better for sure.
      folds: parts of the log that are held out in turn, for evidence.
      window: steps of the ratio in ω.
    """

    rounds: int = 4
    iterations: int = 40
    learning_rate: float = 0.06
    first_std: float = 0.5
    least_std: float = 0.25
    states: int = 200
    actions: int = 8
    roll: int = 50
    horizon: int = 50
    members: int = 5
    pessimism: float = 0.0
    largest_kl: float = 0.5
    exponents: tuple[float, ...] = (0.0, 0.5, 1.0)
    folds: int = 5
    window: int = 3


class Round(NamedTuple):
    """What a round decided and found.

    Attributes:
      model_class: chosen.
      exponent: β, chosen.
      evidence: held-out weighted log-likelihood of every class and β.
      weights_ess: effective number of transitions in the fit.
      estimate: mean imagined return of the policy after the round.
      lower: the estimate less the members' standard deviation.
      policy: after the round.
    """

    model_class: str
    exponent: float
    evidence: dict[str, float]
    weights_ess: float
    estimate: float
    lower: float
    policy: Policy


class Outcome(NamedTuple):
    """The policy handed out, and how it came about.

    Attributes:
      policy: of the round with the highest lower estimate.
      chosen: which round, from zero.
      rounds: all of them.
    """

    policy: Policy
    chosen: int
    rounds: list[Round]


def _silent(doing: str) -> None:
    del doing


def learn(
    key: Key[Array, ""],
    trajectories: Trajectories,
    task: Task,
    behaviour: Policy,
    classes: Classes,
    *,
    settings: Settings | None = None,
    advance: Callable[[str], None] = _silent,
) -> Outcome:
    """A better policy than the one that made the log.

    Args:
      key: all randomness.
      trajectories: the log.
      task: the known reward, termination and discount.
      behaviour: the policy that made the log, where the search starts; a Gaussian.
      classes: from `classes_of`, or your own; of one entry, nothing is left to choose.
      settings: the same for every problem by default.
      advance: called once a round, for a progress bar.

    Returns:
      The policy to be evaluated, and what was decided in each round.
    """
    if trajectories.n_trajectories < 5:
        raise SettingError(
            "trajectories", f"{trajectories.n_trajectories}", "Evidence needs at least five"
        )
    s = Settings() if settings is None else settings
    if not isinstance(behaviour, Gaussian):
        raise SettingError("behaviour", type(behaviour).__name__, "Start from a Gaussian policy")
    for name, least in (("rounds", 1), ("members", 2), ("folds", 2)):
        if getattr(s, name) < least:
            raise SettingError(name, f"{getattr(s, name)}", f"Choose at least {least}")
    key_split, key = jax.random.split(key)
    order = np.asarray(jax.random.permutation(key_split, trajectories.n_trajectories))
    std = jnp.exp(behaviour.log_std)
    units = natural_units(behaviour, trajectories)
    # The deviation is annealed, whatever its gradient says.
    units = eqx.tree_at(lambda p: p.log_std, units, jnp.zeros_like(std))
    rewards = np.asarray(trajectories.rewards)[np.asarray(trajectories.mask)]
    total = s.rounds * s.iterations
    climb = Search(
        trajectories,
        task,
        weighting=Ones(),
        fit=Keep(),
        values=Imagined(
            rollouts=1,
            horizon=s.horizon,
            antithetic=False,
            sharing="rows",
            penalty=jnp.asarray(s.pessimism * rewards.std()),
        ),
        baseline=OthersOfState(),
        learning_rate=s.learning_rate,
        pairs=AllActions(s.states, s.actions, s.roll),
        largest_kl=s.largest_kl,
        units=units,
        explore=Annealed(s.first_std * std, s.least_std * std, total),
        optimiser=_falling_adam(total),
    )
    state, model, choice = climb.init(behaviour), None, None
    rounds: list[Round] = []
    for number in range(s.rounds):
        key_choose, key_fit, key_climb, key_worth = jax.random.split(
            jax.random.fold_in(key, number), 4
        )
        omega = _omega(state.policy, trajectories, task, s.window)
        picked, evidence = choose(
            key_choose, omega, trajectories, order, classes, exponents=s.exponents, folds=s.folds
        )
        # An ensemble of likelihood alone does not depend on the policy, and is kept.
        if model is None or picked != choice or picked[1] > 0:
            choice = picked
            weights = tempered(omega, trajectories.mask, picked[1])
            model = ensemble(key_fit, trajectories, weights, classes[picked[0]], s.members)
        state = state._replace(model=model)
        state, _, _ = search.run(climb, key_climb, state, iterations=s.iterations)
        policy = state.policy
        estimate, lower = worth(key_worth, policy, model, task, trajectories)
        ess = float(importance.effective_sample_size(jnp.log(weights).ravel()))
        rounds.append(Round(*picked, evidence, ess, estimate, lower, policy))
        best = int(np.argmax([r.lower for r in rounds]))
        advance(f"round {number + 1}: {picked[0]}, β = {picked[1]:g}, worth {lower:.3g}")
    return Outcome(rounds[best].policy, best, rounds)


@lru_cache(maxsize=8)
def _falling_adam(total: int) -> optax.GradientTransformation:
    """Kept: a new optimiser object would be a new program to compile."""
    falling = optax.exponential_decay(1.0, total, FALL)
    return optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(falling))


@eqx.filter_jit
def _omega(policy: Policy, log: Trajectories, task: Task, window: int) -> Float[Array, "N T"]:
    cumulative = importance.Window(window)(importance.log_rho(policy, log))
    ratios = importance.Ratios.of(cumulative, log.mask, task.discount)
    return GradientAware()(policy, log, ratios)
