"""Fitted Q evaluation: a policy's value from the log's own transitions, without a model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gamps._utils.noise import normal
from gamps.errors import SettingError
from gamps.evaluation.tabular_q import LARGE, FittedTable, fitted_table
from gamps.models import RandomFourier
from gamps.policies import Boltzmann, Mixture, OneHot, Policy
from gamps.search.values.fitted import moments, sweep
from gamps.trajectories import Trajectories, flat

SAMPLES = 16  # actions of the policy at each state
BLOCK = 4096  # transitions processed together
RIDGE = 1e-4  # the smallest that works in single precision with a hundred cosines


class Crossed(eqx.Module):
    """Features of the observation, one set for each choice.

    Attributes:
      base: features of one observation.
      actions: the number of choices.
    """

    base: Callable[[Any], Float[Array, "F"]]
    actions: int = eqx.field(static=True)

    @property
    def pairs(self) -> int:
        """The number of pairs of numbered states and actions; 0 if states are not numbered."""
        return self.base.size * self.actions if isinstance(self.base, OneHot) else 0

    def __call__(self, observation: Any, action: Any) -> Float[Array, "F"]:
        """`[A F]`, the features of one pair."""
        chosen = jax.nn.one_hot(action, self.actions, dtype=jnp.result_type(float))
        return jnp.outer(chosen, self.base(observation)).ravel()


class Fitted(eqx.Module):
    """Q̂_h(s, a) = w_hᵀ φ(s, a), with h steps left.

    Attributes:
      weights: `[T, F]`, the first with one step left.
      features: φ.
      policy: the policy whose values these are.
      range: the smallest and largest return-to-go in the log. Far from the log a regression may
        predict anything; predictions are clipped to this range.
    """

    weights: Float[Array, "T F"]
    features: Callable[[Any, Any], Float[Array, "F"]]
    policy: Policy
    range: Float[Array, "2"]

    def at(
        self, key: Key[Array, ""], log: Trajectories, horizon: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `[N, T]` Q at the pairs of a log and V at its states.

        Args:
          key: for the policy's actions.
          log: the episodes to predict on.
          horizon: steps of the longest episode, if the log is only a part; the log's by default.
        """
        horizon = log.n_steps if horizon is None else horizon
        if horizon > len(self.weights):
            problem = f"{horizon} steps, but Q was fitted for {len(self.weights)}"
            raise SettingError("log", problem, "Fit Q to episodes as long as those to judge")
        rows, table = _rows(log), np.zeros((2, *log.mask.shape))
        values = np.stack(_at(key, self, rows, horizon))
        table[:, np.asarray(log.mask)] = values[:, rows.valid]
        return table[0], table[1]


def features_of(key: Key[Array, ""], policy: Policy, log: Trajectories) -> Any:
    """Random cosines of observation and action; for choices, the policy's own features, crossed."""
    while isinstance(policy, Mixture):
        policy = policy.second
    if isinstance(policy, Boltzmann):
        return Crossed(policy.features, policy.weights.shape[-1])
    if log.actions.dtype.kind == "f" and log.states.dtype.kind == "f":
        return RandomFourier.create(key, log)
    problem = f"no default for {type(policy).__name__} on {log.states.dtype} observations"
    raise SettingError("features", problem, "Call gamps.evaluation.fitted_q with your own features")


def fitted_q(
    key: Key[Array, ""],
    policy: Policy,
    log: Trajectories,
    discount: float,
    features: Callable[[Any, Any], Float[Array, "F"]] | None = None,
    *,
    steps: int | None = None,
) -> Fitted | FittedTable:
    """Regress r + γ Q̂(s', a'), a' from the policy, on φ(s, a), once for each step.

    Args:
      key: for the features and for the policy's actions.
      policy: the policy to evaluate.
      log: episodes to fit to; for a doubly robust estimate, not those to judge by.
      discount: γ.
      features: φ of one observation and one action; `features_of` by default. With one feature for
        each of many pairs of numbered states and actions, the result is a table.
      steps: length of the episodes to judge by; the log's by default.
    """
    key_features, key_actions = jax.random.split(key)
    if features is None:
        features = features_of(key_features, policy, log)
    sweeps = log.n_steps if steps is None else steps
    if isinstance(features, Crossed) and features.pairs > LARGE:
        return fitted_table(policy, log, discount, features.base, sweeps)
    weights = _fit(key_actions, policy, _rows(log), discount, features, sweeps)
    left = returns_to_go(log, discount)
    ends = jnp.asarray([left.min(), left.max()], weights.dtype)
    return Fitted(weights, features, policy, ends)


def returns_to_go(log: Trajectories, discount: float) -> np.ndarray:
    """The discounted return from each logged step on."""
    mask, left, parts = np.asarray(log.mask), np.zeros(log.n_trajectories), []
    rewards = np.where(mask, np.asarray(log.rewards, np.float64), 0.0)
    for t in reversed(range(log.n_steps)):
        left = rewards[:, t] + discount * left
        parts.append(left[mask[:, t]])
    return np.concatenate(parts)


class _Rows(NamedTuple):
    """The steps that were taken, in whole blocks; filled up by repeating the last, as not valid."""

    states: Any
    actions: Any
    rewards: Any
    following: Any
    goes_on: Any
    steps: Any
    valid: Any


def _rows(log: Trajectories) -> _Rows:
    mask = np.asarray(log.mask)
    rows = np.flatnonzero(mask.ravel())
    count = len(rows)
    size = min(BLOCK, 1 << (count - 1).bit_length())  # a small log is one block
    blocks = -(-count // size)
    few = 1 << max(blocks.bit_length() - 4, 0)  # so that logs of similar size share one program
    rows = np.pad(rows, (0, -(-blocks // few) * few * size - count), mode="edge")
    last = np.arange(log.n_steps) == mask.sum(axis=1)[:, None] - 1
    goes_on = ~(last & np.asarray(log.terminated)[:, None])

    def taken(x: Any) -> np.ndarray:
        return np.asarray(flat(x))[rows]

    return _Rows(
        states=taken(log.states),
        actions=taken(log.actions),
        rewards=taken(log.rewards),
        following=taken(log.next_states),
        goes_on=goes_on.ravel()[rows],
        steps=rows % log.n_steps,
        valid=np.arange(len(rows)) < count,
    )


def _mean(policy: Policy, state: Any, noise: Array, of_action: Callable[[Any], Array]) -> Array:
    """The mean of a function over the policy's actions: over draws, or over all choices."""
    one = policy
    while isinstance(one, Mixture):
        one = one.second
    if isinstance(one, Boltzmann):
        actions = jnp.arange(one.weights.shape[-1])
        shares = jnp.exp(jax.vmap(lambda a: policy.log_prob(state, a))(actions))
        return jnp.tensordot(shares, jax.vmap(of_action)(actions), 1)

    def add(total: Array, z: Array) -> tuple[Array, None]:
        return total + of_action(policy.act(state, z)), None

    # One draw at a time: all at once would not fit into the processor's cache.
    like = jax.eval_shape(lambda z: of_action(policy.act(state, z)), noise[0])
    total, _ = jax.lax.scan(add, jnp.zeros(like.shape, like.dtype), noise)
    return total / len(noise)


def _expected(key: Array, policy: Policy, features: Any, states: Any) -> Array:
    """The mean of φ(s, a) over actions of the policy, at every state."""
    shape = (len(states), SAMPLES, policy.noise_size)
    noise = normal(key, shape, jnp.result_type(float))

    def mean_features(state: Any, noise: Array) -> Array:
        return _mean(policy, state, noise, lambda action: features(state, action))

    return jax.vmap(mean_features)(states, noise)


def _blocks(rows: _Rows) -> _Rows:
    size = min(BLOCK, len(rows.valid))
    return jax.tree.map(lambda x: jnp.asarray(x).reshape(-1, size, *x.shape[1:]), rows)


@eqx.filter_jit
def _fit(
    key: Array, policy: Policy, rows: _Rows, discount: Any, features: Any, sweeps: int
) -> Array:
    """Fit block by block: two matrices are kept, whatever the size of the log."""

    def add(sums: Any, numbered: tuple[Array, _Rows]) -> tuple[Any, None]:
        number, block = numbered
        following = _expected(jax.random.fold_in(key, number), policy, features, block.following)
        phi = jax.vmap(features)(block.states, block.actions)
        ahead = jnp.where(block.goes_on[:, None], following, 0.0)
        return jax.tree.map(jnp.add, sums, moments(phi, block.rewards, ahead, block.valid)), None

    blocks = _blocks(rows)
    first = jax.tree.map(lambda x: x[0, 0], (blocks.states, blocks.actions))
    like = jax.eval_shape(features, *first)
    size = like.shape[0]
    zeros = (jnp.zeros((size, size), like.dtype), jnp.zeros((size, size + 1), like.dtype))
    sums, _ = jax.lax.scan(add, zeros, (jnp.arange(len(blocks.valid)), blocks))
    return sweep(*sums, discount, sweeps=sweeps, ridge=RIDGE)


@eqx.filter_jit
def _at(key: Array, fitted: Fitted, rows: _Rows, horizon: int) -> tuple[Array, Array]:
    policy = fitted.policy

    def q(weights: Array, state: Any, action: Any) -> Array:
        return jnp.clip(fitted.features(state, action) @ weights, *fitted.range)

    def v(weights: Array, state: Any, noise: Array) -> Array:
        """The mean over actions of the clipped Q, so that V and Q agree."""
        return _mean(policy, state, noise, lambda action: q(weights, state, action))

    def block_values(numbered: tuple[Array, _Rows]) -> tuple[Array, Array]:
        number, block = numbered
        left = fitted.weights[horizon - 1 - block.steps]
        shape = (len(block.valid), SAMPLES, policy.noise_size)
        noise = normal(jax.random.fold_in(key, number), shape, left.dtype)
        values = jax.vmap(q)(left, block.states, block.actions)
        return values, jax.vmap(v)(left, block.states, noise)

    blocks = _blocks(rows)
    values, means = jax.lax.map(block_values, (jnp.arange(len(blocks.valid)), blocks))
    return values.ravel(), means.ravel()
