"""Compute the numbers behind the pictures of a run, as NumPy arrays."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gamps._utils.noise import normal
from gamps.learner import Settings, draw_border, worth
from gamps.models import Ensemble
from gamps.policies import Policy
from gamps.runs.open_run import OpenRun
from gamps.search import importance
from gamps.search.weights import GradientAware
from gamps.tasks import Task
from gamps.trajectories import Trajectories, flat

SAMPLES = 64  # imagined next observations per transition
TRANSITIONS = 2_000  # transitions to look at, at most
LANES = 20  # imagined episodes per logged one
EPISODES = 200  # logged episodes to imagine, at most


class Weighing(NamedTuple):
    """How much weight each logged step has in the estimate and in the fit.

    Attributes:
      ess: `[T]`, effective number of episodes that reach a step.
      episodes: `[T]`, number of episodes that reach it.
      omega: `[N, T]`, gradient-aware weights, summing to one.
      uniform: `[N, T]`, maximum-likelihood weights, summing to one.
    """

    ess: np.ndarray
    episodes: np.ndarray
    omega: np.ndarray
    uniform: np.ndarray


def weighing(policy: Policy, log: Trajectories, discount: Any, ratio: Any) -> Weighing:
    """Return ratios over time and both weightings of a fit; `ratio` transforms the ratios of ω."""
    ess, omega = map(np.asarray, _weigh(policy, log, discount, ratio))
    mask = np.asarray(log.mask)
    return Weighing(ess, mask.sum(axis=0), omega / max(omega.sum(), 1e-300), mask / mask.sum())


@eqx.filter_jit
def _weigh(policy: Policy, log: Trajectories, discount: Any, ratio: Any) -> tuple[Array, Array]:
    log_rho = importance.log_rho(policy, log)
    real_rho = jnp.where(log.mask, log_rho, -jnp.inf)
    ess = jax.vmap(importance.effective_sample_size, in_axes=1)(real_rho)
    ratios = importance.Ratios.of(ratio(log_rho), log.mask, discount)
    return ess, GradientAware()(policy, log, ratios)


class Predictions(NamedTuple):
    """One-step predictions of the model at logged pairs.

    Attributes:
      logged: `[n, D]`, how the observation changed.
      predicted: `[n, D]`, how the model expects it to change.
      rank: `[n, D]`, share of imagined changes below the logged one: uniform if calibrated.
    """

    logged: np.ndarray
    predicted: np.ndarray
    rank: np.ndarray


def predictions(key: Key[Array, ""], model: Any, log: Trajectories) -> Predictions:
    """Predict one step at logged transitions, at most `TRANSITIONS` of them."""
    rows = np.flatnonzero(np.asarray(log.mask).ravel())
    if len(rows) > TRANSITIONS:
        rows = np.random.default_rng(0).choice(rows, TRANSITIONS, replace=False)
    pairs = flat(log.states)[rows], flat(log.actions)[rows]
    draws = np.asarray(_next_draws(key, model, *pairs))
    states, following = (np.asarray(flat(x))[rows] for x in (log.states, log.next_states))
    below = (draws < following[:, None]).mean(axis=1)
    equal = (draws == following[:, None]).mean(axis=1)
    uniform = np.random.default_rng(1).random(below.shape)  # ties get a random rank among theirs
    rank = (below * SAMPLES + (equal * SAMPLES + 1) * uniform) / (SAMPLES + 1)
    return Predictions(following - states, draws.mean(axis=1) - states, rank)


@eqx.filter_jit
def _next_draws(key: Array, model: Any, states: Any, actions: Any) -> Array:
    noise = normal(key, (len(states), SAMPLES, model.noise_size), states.dtype)
    draws = jax.vmap(model.step, in_axes=(None, None, 0))
    return jax.vmap(draws)(states, actions, noise)


def open_loop(
    key: Key[Array, ""], model: Any, task: Task, log: Trajectories
) -> tuple[np.ndarray, np.ndarray]:
    """Run the logged actions from the logged starts, in the model alone.

    Returns:
      `[LANES, N, T, D]` imagined observations, and `[LANES, N, T]` whether the imagined episode
      was still running.
    """
    imagined, going = _open_loop(key, model, task, log)
    return np.asarray(imagined), np.asarray(going)


@eqx.filter_jit
def _open_loop(key: Array, model: Any, task: Task, log: Trajectories) -> tuple[Array, Array]:
    size = (LANES, *log.mask.shape, model.noise_size)
    noise = normal(key, size, log.states.dtype)

    def episode(start: Array, actions: Array, noise: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Array], inputs: tuple[Array, Array]) -> Any:
            state, going = carry
            action, noise = inputs
            following = model.step(state, action, noise)
            ends = task.terminal(state, action, following)
            return (following, going & ~ends), (following, going)

        begun = (start, jnp.asarray(True))
        return jax.lax.scan(step, begun, (actions, noise))[1]

    lanes = jax.vmap(episode, in_axes=(None, None, 0))
    each = jax.vmap(lanes, in_axes=(0, 0, 1), out_axes=1)
    return each(log.states[:, 0], log.actions, noise)


def promised_gains(
    key: Key[Array, ""], policies: Sequence[Policy], behaviour: Policy, opened: OpenRun
) -> list[float] | None:
    """Return what the models say each policy gains over the logging one; None without an ensemble.

    The evidence about the same policies shows how far to believe what the models say of others.
    """
    model, task, log = opened.progress.state.model, opened.task, opened.learned
    if not isinstance(model, Ensemble):
        return None
    key_border, key_worth = jax.random.split(key)
    settings = Settings()
    border = draw_border(
        key_border, behaviour, model, task, log, steps=settings.horizon, seldom=settings.border
    )
    before, *after = (
        worth(key_worth, policy, model, task, log, border) for policy in (behaviour, *policies)
    )
    return [value - before for value in after]


def mean_actions(policy: Policy, log: Trajectories) -> np.ndarray:
    """Return `[n, A]`, the policy's actions without noise at every logged state."""
    rows = np.asarray(log.mask).ravel()
    actions = np.asarray(_modes(policy, flat(log.states)))[rows]
    return actions.reshape(len(actions), -1)


@eqx.filter_jit
def _modes(policy: Policy, states: Any) -> Array:
    return jax.vmap(policy.mode)(states)


def probabilities(policy: Policy, log: Trajectories, actions: int) -> np.ndarray:
    """Return `[n, A]`, the probability of every choice at every logged state."""
    rows = np.asarray(log.mask).ravel()
    return np.exp(np.asarray(_of_choices(policy, flat(log.states), actions)))[rows]


@eqx.filter_jit
def _of_choices(policy: Policy, states: Any, actions: int) -> Array:
    log_probs = jax.vmap(policy.log_prob, in_axes=(None, 0))
    return jax.vmap(lambda s: log_probs(s, jnp.arange(actions)))(states)
