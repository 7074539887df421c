"""The default: a better policy from a log, with the decisions that the log can take itself.

In rounds: choose the model class and how far ω is trusted, by held-out evidence; fit an ensemble;
climb the all-action gradient in it; ask the ensemble what the policy is worth. The policy handed
out is the one with the highest lower estimate, not the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from gamps import importance, search
from gamps.errors import SettingError
from gamps.fitting import ClosedForm, EachMember, Keep, Minibatches
from gamps.gradients import AllActions
from gamps.models import (
    Ensemble,
    LinearGaussian,
    MLPGaussian,
    Model,
    Quadratic,
    Support,
    concatenated,
)
from gamps.policies import Annealed, Gaussian, Policy, natural_units
from gamps.search import Search
from gamps.tasks import Task
from gamps.trajectories import Trajectories
from gamps.values import Imagined, OthersOfState
from gamps.values.rollouts import draw, returns
from gamps.weights import GradientAware, tempered

LARGE = 5_000  # transitions
FALL = 0.1  # of the learning rate, over a whole training


class ModelClass(NamedTuple):
    """A kind of model, and how it is fitted.

    Attributes:
      make: from a key and the log to a model that is not fitted yet.
      fit: `fitting` part.
      trial: a cheaper one for held-out evidence; None takes `fit`.
    """

    make: Callable[[Key[Array, ""], Trajectories], Model]
    fit: Any
    trial: Any = None


Classes = Mapping[str, ModelClass]


def classes_of(
    features: Callable[[Any, Any], Float[Array, "F"]] = concatenated, *, rectified: bool = False
) -> Classes:
    """The model classes that evidence chooses among, all on the same features of (s, a).

    Args:
      features: of one observation and one action; what the actuators do belongs here.
      rectified: whether an observation never grows; see `models.GaussianDifference`.
    """

    def quadratic(key: Array, log: Trajectories) -> Model:
        del key
        return _closed(Quadratic(features), log, rectified)

    def network(key: Array, log: Trajectories) -> Model:
        return MLPGaussian.create(
            key, log, hidden=(64, 64), features=features, least_std=0.1, rectified=rectified
        )

    return {
        "quadratic": ModelClass(quadratic, ClosedForm()),
        "network": ModelClass(network, _annealed(100), trial=_annealed(40)),
    }


def _annealed(epochs: int) -> Minibatches:
    return Minibatches(epochs=epochs, learning_rate=5e-3, patience=epochs, decay=True)


def _closed(features: Any, log: Trajectories, rectified: bool) -> LinearGaussian:
    example = jax.eval_shape(features, log.states[0, 0], log.actions[0, 0])
    zeros = jnp.zeros((example.shape[0], log.states.shape[-1]), dtype=float)
    least = jnp.full(log.states.shape[-1], 1e-3)
    return LinearGaussian(zeros, zeros, features, least, reweighted=True, rectified=rectified)


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
        weighting=_uniform,
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
        picked, evidence = choose(key_choose, omega, trajectories, order, classes, s)
        # An ensemble of likelihood alone does not depend on the policy, and is kept.
        if model is None or picked != choice or picked[1] > 0:
            choice = picked
            weights = tempered(omega, trajectories.mask, picked[1])
            model = _ensemble(key_fit, trajectories, weights, classes[picked[0]], s.members)
        state = state._replace(model=model)
        state, _, _ = search.run(climb, key_climb, state, iterations=s.iterations)
        policy = state.policy
        estimate, lower = worth(key_worth, policy, model, task, trajectories)
        ess = float(importance.effective_sample_size(_log(weights).ravel()))
        rounds.append(Round(*picked, evidence, ess, estimate, lower, policy))
        best = int(np.argmax([r.lower for r in rounds]))
        advance(f"round {number + 1}: {picked[0]}, β = {picked[1]:g}, worth {lower:.3g}")
    return Outcome(rounds[best].policy, best, rounds)


def _log(weights: Array) -> Array:
    return jnp.where(weights > 0, jnp.log(jnp.where(weights > 0, weights, 1.0)), -jnp.inf)


def _uniform(policy: Policy, trajectories: Trajectories, ratios: Any) -> Float[Array, "N T"]:
    del policy, ratios
    return trajectories.mask.astype(trajectories.rewards.dtype)


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


_fitted = eqx.filter_jit(lambda fit, key, model, log, weights: fit(key, model, log, weights)[0])


def _ensemble(
    key: Key[Array, ""],
    log: Trajectories,
    weights: Float[Array, "N T"],
    kind: ModelClass,
    members: int,
) -> Ensemble:
    key_make, key_fit = jax.random.split(key)
    models = eqx.filter_vmap(lambda k: kind.make(k, log))(jax.random.split(key_make, members))
    ensemble = Ensemble(models, members, Support.of(log))
    fitted: Ensemble = _fitted(EachMember(kind.fit), key_fit, ensemble, log, weights)
    return fitted


def choose(
    key: Key[Array, ""],
    omega: Float[Array, "N T"],
    trajectories: Trajectories,
    order: np.ndarray,
    classes: Classes,
    settings: Settings,
) -> tuple[tuple[str, float], dict[str, float]]:
    """Class and β by the ω-weighted log-likelihood of trajectories that no candidate has seen.

    The best class at the first β is the reference; another candidate takes its place only if it is
    better by more than one standard error, over held-out trajectories, of the difference.
    """
    pairs = [(name, beta) for name in classes for beta in settings.exponents]
    if len(pairs) == 1:
        return pairs[0], {}
    # A small log is held out part by part, until all of it was; of a large one a part is enough.
    parts = np.array_split(order, settings.folds)
    if int(jnp.sum(trajectories.mask)) > LARGE:
        parts = parts[:1]
    held_out = np.concatenate(parts)
    likelihoods = {
        (name, beta): np.concatenate(
            [_unseen(key, omega, trajectories, part, classes[name], beta) for part in parts]
        )
        for name, beta in pairs
    }
    every = tempered(omega[held_out], trajectories.mask[held_out], 1.0)
    weights = np.asarray(every, float)

    def gain(pair: tuple[str, float], over: np.ndarray) -> tuple[float, float]:
        """Weighted mean of the difference, and its standard error over trajectories."""
        difference = np.where(weights > 0, likelihoods[pair] - over, 0.0)
        rows, totals = (weights * difference).sum(axis=1), weights.sum(axis=1)
        mean = rows.sum() / totals.sum()
        error = math.sqrt(np.sum((rows - mean * totals) ** 2)) / totals.sum()
        return float(mean), error

    evidence = {f"{n}, β = {b:g}": gain((n, b), np.zeros_like(weights))[0] for n, b in pairs}
    plain = [pair for pair in pairs if pair[1] == settings.exponents[0]]
    reference = max(plain, key=lambda pair: gain(pair, np.zeros_like(weights))[0])
    gains = {pair: gain(pair, likelihoods[reference]) for pair in pairs}
    best = max(gains, key=lambda pair: gains[pair][0])
    mean, error = gains[best]
    return (best if mean > error else reference), evidence


def _unseen(
    key: Key[Array, ""],
    omega: Float[Array, "N T"],
    trajectories: Trajectories,
    part: np.ndarray,
    kind: ModelClass,
    beta: float,
) -> np.ndarray:
    """Log-densities of some trajectories under a model fitted to the others."""
    # The others by a weight of zero: all parts have one shape, and one program.
    others = trajectories.mask & ~np.isin(np.arange(trajectories.n_trajectories), part)[:, None]
    weights = tempered(omega, others, beta)
    fit = kind.fit if kind.trial is None else kind.trial
    model = _fitted(fit, key, kind.make(key, trajectories), trajectories, weights)
    return np.asarray(_each_log_prob(model, jax.tree.map(lambda x: x[part], trajectories)))


@eqx.filter_jit
def _each_log_prob(model: Model, log: Trajectories) -> Float[Array, "N T"]:
    each = jax.vmap(jax.vmap(model.log_prob))(log.states, log.actions, log.next_states)
    # A point mass that a model rules out, and padding, must not turn a sum into no number.
    each = jnp.where(jnp.isnan(each), -1e3, jnp.maximum(each, -1e3))
    return jnp.where(log.mask, each, 0.0)


def worth(
    key: Key[Array, ""], policy: Policy, model: Ensemble, task: Task, starts: Trajectories
) -> tuple[float, float]:
    """Imagined return from the logged starts: the members' mean, and that less their deviation.

    Of the mean action, which is what will be deployed.
    """
    silent = jnp.full_like(policy.log_std, -jnp.inf)  # type: ignore[attr-defined]
    policy = eqx.tree_at(lambda p: p.log_std, policy, silent)
    each = _by_member(key, policy, model, task, starts.states[:, 0], starts.n_steps)
    mean, std = float(jnp.mean(each)), float(jnp.std(each, ddof=1))
    return mean, mean - std


@eqx.filter_jit
def _by_member(
    key: Array, policy: Policy, model: Ensemble, task: Task, firsts: Array, horizon: int
) -> Float[Array, "K"]:
    rollouts = max(200 // len(firsts), 1)
    states = jnp.moveaxis(jnp.repeat(firsts, rollouts, axis=0), 0, -1)

    def one(i: int) -> Array:
        alone = Ensemble(
            jax.tree.map(lambda x: x[i : i + 1] if eqx.is_array(x) else x, model.members),
            1,
            model.support,
        )
        noise = draw(
            key,
            policy,
            alone,
            starts=states.shape[-1],
            rollouts=1,
            horizon=horizon,
            antithetic=False,
            dtype=states.dtype,
        )
        return jnp.mean(returns(policy, alone, task, noise, states))

    return jnp.stack([one(i) for i in range(model.size)])
