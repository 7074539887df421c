"""Trials to run next in the plant: parameters drawn around the best, and the models' choice.

This is the cross-entropy method over whole episodes. Its elites are the parameters that earned most
among all that were ever tried. Half of the next trials are drawn around the elites: the models keep
the better half of twice as many draws. The other trials come from running the same method within
the models, from the same start. A wrong model costs an episode, and the episode corrects the model.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key

from gamps.learner.learner import FEW, units_of
from gamps.learner.model_classes import ModelClass, ensemble
from gamps.models import Ensemble
from gamps.policies import Gaussian, Policy
from gamps.search.values.rollouts import draw, returns
from gamps.tasks import Task
from gamps.trajectories import Trajectories, known_transitions

MEMBERS = 3
POOL, GENERATIONS, BEST = 400, 6, 0.1  # for the search within the models
STARTS = 8  # starting states that each candidate is imagined from
LEAST = 0.1  # spread of a parameter that all elites agree on, in its unit


class Elites(NamedTuple):
    """Where to draw the next trials.

    Attributes:
      centre: mean of the elites' parameters.
      spread: their standard deviation.
    """

    centre: Float[np.ndarray, "D"]
    spread: Float[np.ndarray, "D"]


def parameters_of(policy: Policy) -> Float[np.ndarray, "D"]:
    """All parameters of a policy as one row."""
    return np.asarray(ravel_pytree(eqx.filter(policy, eqx.is_inexact_array))[0])


def with_parameters(policy: Policy, row: Any) -> Policy:
    """The same policy with other parameters."""
    numbers, rest = eqx.partition(policy, eqx.is_inexact_array)
    there: Policy = eqx.combine(ravel_pytree(numbers)[1](jnp.asarray(row)), rest)
    return there


def unit_parameters(policy: Policy, log: Trajectories) -> Float[np.ndarray, "D"]:
    """How far each parameter may move before the policy differs; zero for its deviation."""
    units: Any = units_of(policy, log)
    if isinstance(policy, Gaussian):
        units = eqx.tree_at(lambda p: p.log_std, units, jnp.zeros_like(policy.log_std))
    row = parameters_of(units)
    # If many parameters change by one unit each, the policy changes by many.
    return row * min(1.0, FEW / max(int((row > 0).sum()), 1)) ** 0.5


def elites(
    tried: Float[np.ndarray, "N D"],
    earned: Float[np.ndarray, "N"],
    count: int,
    units: Float[np.ndarray, "D"],
) -> Elites:
    """Mean and spread of the `count` trials that earned most."""
    best = tried[np.argsort(-earned, kind="stable")[:count]]
    return Elites(best.mean(axis=0), best.std(axis=0) + LEAST * units)


def fit(
    key: Key[Array, ""], log: Trajectories, kind: ModelClass, *, members: int = MEMBERS
) -> Ensemble:
    """Fit models to the whole log, whichever policy acted."""
    return ensemble(key, log, known_transitions(log).astype(float), kind, members)


class Imagination(NamedTuple):
    """Models that imagine whole episodes of candidates.

    Attributes:
      model: fitted to the whole log.
      task: reward, termination and discount.
      starts: `[S, ...]`, observations that episodes start with.
      steps: length of an episode.
    """

    model: Ensemble
    task: Task
    starts: Any
    steps: int

    def worth(self, key: Key[Array, ""], policy: Policy, rows: np.ndarray) -> np.ndarray:
        """The return of each row's policy, averaged over models; `policy` gives the structure."""
        # Blocks of one size: another size would be another program.
        whole = np.resize(rows, (-(-len(rows) // POOL) * POOL, rows.shape[1]))
        blocks = [
            _imagined(key, jnp.asarray(block), policy, *self)
            for block in whole.reshape(-1, POOL, rows.shape[1])
        ]
        each = np.concatenate([np.asarray(block, float) for block in blocks])[: len(rows)]
        return np.where(np.isfinite(each), each, -np.inf)


def propose(
    key: Key[Array, ""], around: Elites, count: int, policy: Policy, within: Imagination | None
) -> Float[np.ndarray, "count D"]:
    """Parameters for the next trials, one row for each episode.

    Args:
      key: for all randomness.
      around: the elites to draw around.
      count: number of trials.
      policy: gives the structure of the policies.
      within: models that screen the draws and in which half of the trials are searched; or None.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())

    def drawn(where: Elites, n: int) -> np.ndarray:
        return where.centre + where.spread * rng.standard_normal((n, len(where.centre)))

    if within is None:
        return drawn(around, count)

    def best(rows: np.ndarray, n: int) -> np.ndarray:
        return rows[np.argsort(-within.worth(key, policy, rows), kind="stable")[:n]]

    plain = best(drawn(around, 2 * (count - count // 2)), count - count // 2)
    pool = drawn(around, POOL)
    for _ in range(GENERATIONS):
        top = best(pool, round(BEST * POOL))
        pool = drawn(Elites(top.mean(axis=0), top.std(axis=0) + LEAST * around.spread), POOL)
    searched = best(pool, max(POOL // 4, count))
    return np.concatenate([plain, rng.permutation(searched)[: count // 2]])


@eqx.filter_jit
def _imagined(
    key: Key[Array, ""],
    rows: Float[Array, "P D"],
    policy: Policy,
    model: Ensemble,
    task: Task,
    starts: Any,
    steps: int,
) -> Float[Array, "P"]:
    states = jnp.moveaxis(starts, 0, -1)

    def member(arrays: Any) -> Array:
        alone = model.alone(arrays)
        noise = draw(
            key, policy, alone, starts=states.shape[-1], rollouts=1, horizon=steps,
            antithetic=False, dtype=states.dtype,
        )  # fmt: skip

        def one(row: Array) -> Array:
            return jnp.mean(returns(with_parameters(policy, row), alone, task, noise, states))

        return jax.vmap(one)(rows)

    return jnp.mean(jax.lax.map(member, eqx.filter(model.members, eqx.is_array)), axis=0)
