"""The gradient that a fitted model and the truth are compared by."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key

from benchmarks.studies.awareness.weighting import Weighting
from gamps.learner import ModelClass
from gamps.models import Model
from gamps.policies import Policy
from gamps.search import gradients, importance
from gamps.search.gradients import AllActions
from gamps.search.values import Imagined, OthersOfState
from gamps.tasks import Task
from gamps.trajectories import Trajectories

ACTIONS = 8
WINDOW = 3  # steps of the ratio, as in the default recipe


def gradient(
    key: Key[Array, ""],
    policy: Policy,
    model: Model,
    task: Task,
    log: Trajectories,
    *,
    states: int,
    horizon: int,
) -> Float[Array, "d"]:
    """Of so many logged states; the same key has the same states, actions and noise."""
    key_pairs, key_values = jax.random.split(key)
    size = states * ACTIONS
    values = Imagined(rollouts=1, horizon=horizon, antithetic=False, sharing="rows", block=size)
    unit = importance.Ratios.of(jnp.zeros_like(log.rewards), log.mask, task.discount)
    at, ratios = AllActions(states, ACTIONS)(key_pairs, policy, model, task, log, unit)
    found = values(key_values, policy, model, task, at, ratios)
    baseline = OthersOfState()(policy, at, ratios, found)
    climbed = gradients.off_policy(policy, at, found.weighted_q_values - baseline)
    return ravel_pytree(climbed)[0]


def fitted(
    key_make: Key[Array, ""],
    key_fit: Key[Array, ""],
    policy: Policy,
    kind: ModelClass,
    weights: str,
    task: Task,
    log: Trajectories,
) -> Model:
    """A model of the log with the weights of that name."""
    log_rho = importance.Window(WINDOW)(importance.log_rho(policy, log))
    ratios = importance.Ratios.of(log_rho, log.mask, task.discount)
    omega = Weighting(weights, task.discount)(policy, log, ratios)
    fit = kind.fit
    model: Model = fit(key_fit, kind.make(key_make, log), log, omega)[0]
    return model
