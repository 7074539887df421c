"""Fit reward and termination to the log, for when nobody can write them as functions.

The fit is an estimate. Certificates do not use it: they use logged rewards.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Key

from gamps._utils.networks import MLP
from gamps.errors import SettingError
from gamps.models.gaussian import WithChoice, concatenated
from gamps.models.mlp_gaussian import Scale
from gamps.tasks import Task, never
from gamps.trajectories import Trajectories, counted_steps, flat, in_pieces, known_transitions

HIDDEN = (64, 64)
UPDATES, SIZE, RATE = 4_000, 256, 3e-3  # of the fit
HELD_OUT = 5  # every fifth episode measures the quality of the fit


class Quality(NamedTuple):
    """How well a task predicts episodes that it was not fitted to.

    Attributes:
      reward: 1 minus the squared error as a share of the variance.
      ends: share of the ends that are predicted; None if the environment ended no episode.
      false_ends: share of the other steps that are predicted to be an end.
    """

    reward: float
    ends: float | None
    false_ends: float


class Outcome(eqx.Module):
    """A number that a network predicts from a transition (s, a, s').

    Attributes:
      network: maps standardised input to the standardised number.
      inputs: standardisation of the input.
      unit: mean and deviation of the number.
      features: function of observation and action.
      ahead: whether it uses s', which a log may not show for last steps.
    """

    network: MLP
    inputs: Scale
    unit: Float[Array, "2"]
    features: Callable[[Any, Any], Float[Array, "F"]] = concatenated
    ahead: bool = eqx.field(default=True, static=True)

    def __call__(self, observation: Any, action: Any, following: Any) -> Float[Array, ""]:
        """The number for one transition."""
        x = _input(self.features, self.ahead, observation, action, following)
        scaled = (x - self.inputs.mean) / self.inputs.std
        return self.unit[0] + self.unit[1] * self.network(scaled)[0]


def _input(
    features: Callable[..., Any], ahead: bool, observation: Any, action: Any, following: Any
) -> Float[Array, "F"]:
    x: Array = features(observation, action)
    return concatenated(x, following) if ahead else x


class Ended(eqx.Module):
    """Whether an episode ends, by a number that is positive where an end is more likely."""

    by: Outcome

    def __call__(self, observation: Any, action: Any, following: Any) -> Bool[Array, ""]:
        """Whether one transition ends the episode."""
        return self.by(observation, action, following) > 0


class TableReward(eqx.Module):
    """Mean logged reward by numbered state and choice, or by the next state.

    Attributes:
      rewards: `[S, A]`, or `[S, 1]` by next state; the overall mean where nothing was seen.
      ahead: whether it is by the next state.
    """

    rewards: Float[Array, "S A"]
    ahead: bool = eqx.field(static=True)

    def __call__(self, observation: Any, action: Any, following: Any) -> Float[Array, ""]:
        """The reward of one transition."""
        return self.rewards[following, 0] if self.ahead else self.rewards[observation, action]


class TableEnds(eqx.Module):
    """Which numbered states end an episode: those where more episodes ended than went on.

    Attributes:
      ends: `[S]`.
    """

    ends: Bool[Array, "S"]

    def __call__(self, observation: Any, action: Any, following: Any) -> Bool[Array, ""]:
        """Whether the next state ends the episode."""
        del observation, action
        return self.ends[following]


def learned_task(
    key: Key[Array, ""],
    log: Trajectories,
    discount: float,
    features: Callable[[Any, Any], Float[Array, "F"]] | None = None,
) -> tuple[Task, Quality]:
    """Fit a task's reward and termination to four fifths of a log.

    Args:
      key: randomness of networks and minibatches.
      log: a log with logged rewards, whose `terminated` marks ends by the environment.
      discount: γ.
      features: function of observation and action; by default both unchanged.

    Returns:
      The task, and how well it predicts the other episodes.
    """
    log = in_pieces(log, counted_steps(log.n_steps, discount))
    unseen = np.arange(log.n_trajectories) % HELD_OUT == HELD_OUT - 1
    part, rest = (jax.tree.map(lambda x, rows=rows: x[rows], log) for rows in (~unseen, unseen))
    if log.states.dtype.kind == "i" and log.states.ndim > 2:
        fix = "Number the states in one column, or give the task"
        raise SettingError("observations", f"{log.states.shape[2:]} whole numbers", fix)
    if log.states.dtype.kind == "i":
        sizes = int(log.observations.max()) + 1, int(log.actions.max()) + 1
        reward, at = _tables(part, sizes)
        task = Task(reward, discount, at)
    else:
        if features is None:
            choices = log.actions.dtype.kind == "i"
            features = WithChoice(int(log.actions.max()) + 1) if choices else concatenated
        unknown = (known_transitions(log) != log.mask).any(axis=1)
        ahead = bool(unknown.mean() < 0.5)  # a few may end where they stood
        ends: Any = never
        if bool(log.terminated.any()):
            # By least squares too: a positive number means an end more often than not.
            targets = 2.0 * _ends(part) - 1
            ends = Ended(_fitted(jax.random.fold_in(key, 1), part, targets, features, ahead))
        task = Task(_fitted(key, part, part.rewards, features, ahead), discount, ends)
    return task, quality(task, rest if len(rest.mask) else part)


@eqx.filter_jit
def _told(task: Task, *transitions: Any) -> tuple[Array, Array]:
    def both(*transition: Any) -> tuple[Array, Array]:
        return task.reward(*transition), task.terminal(*transition)

    return jax.vmap(both)(*transitions)


def quality(task: Task, log: Trajectories) -> Quality:
    """How well a task predicts the rewards and ends of a log."""
    mask, ends = np.asarray(log.mask), np.asarray(_ends(log), bool)
    parts = (log.states, log.actions, log.next_states)
    told, told_ends = (np.asarray(x) for x in _told(task, *(np.asarray(x)[mask] for x in parts)))
    ends = ends[mask]
    logged = np.asarray(log.rewards, np.float64)[mask]
    off = np.mean((told - logged) ** 2)
    found = float(told_ends[ends].mean()) if ends.any() else None
    spread = max(float(logged.var()), 1e-12)
    return Quality(1 - float(off) / spread, found, float(told_ends[~ends].mean()))


def _ends(log: Trajectories) -> Float[Array, "N T"]:
    """One at the last step of an episode that the environment ended, otherwise zero."""
    last = jnp.arange(log.n_steps) == log.lengths[:, None] - 1
    return (last & log.terminated[:, None]).astype(log.rewards.dtype)


@eqx.filter_jit
def _fitted(
    key: Array,
    log: Trajectories,
    targets: Float[Array, "N T"],
    features: Callable[..., Any],
    ahead: bool,
) -> Outcome:
    key_network, key_fit = jax.random.split(key)
    mask, targets = flat(log.mask), flat(targets)
    transitions = (flat(log.states), flat(log.actions), flat(log.next_states))
    x = jax.vmap(partial(_input, features, ahead))(*transitions)
    scale, unit = Scale.of(x, mask), Scale.of(targets[:, None], mask)
    real, count = jnp.argsort(~mask, stable=True), jnp.sum(mask)
    start = Outcome(
        MLP(key_network, (x.shape[1], *HIDDEN, 1)),
        scale,
        jnp.stack([unit.mean[0], unit.std[0]]),
        features,
        ahead,
    )
    x, y = (x - scale.mean) / scale.std, (targets - start.unit[0]) / start.unit[1]
    parameters, static = eqx.partition(start.network, eqx.is_array)
    adam = optax.adam(optax.cosine_decay_schedule(RATE, UPDATES))

    def update(carry: Any, key: Array) -> tuple[Any, None]:
        parameters, moments = carry
        at = real[jax.random.randint(key, (SIZE,), 0, count)]

        def loss(parameters: Any) -> Array:
            return jnp.mean((jax.vmap(eqx.combine(parameters, static))(x[at])[:, 0] - y[at]) ** 2)

        steps, moments = adam.update(jax.grad(loss)(parameters), moments)
        return (eqx.apply_updates(parameters, steps), moments), None

    keys = jax.random.split(key_fit, UPDATES)
    (parameters, _), _ = jax.lax.scan(update, (parameters, adam.init(parameters)), keys)
    fitted: Outcome = eqx.tree_at(lambda o: o.network, start, eqx.combine(parameters, static))
    return fitted


def _tables(log: Trajectories, sizes: tuple[int, int]) -> tuple[TableReward, TableEnds]:
    mask = np.asarray(log.mask)
    states, actions, following = (
        np.asarray(x)[mask] for x in (log.states, log.actions, log.next_states)
    )
    rewards, ends = np.asarray(log.rewards, np.float64)[mask], np.asarray(_ends(log))[mask]

    def means(shape: tuple[int, int], *at: Any) -> tuple[float, np.ndarray]:
        totals, counts = np.zeros(shape), np.zeros(shape)
        np.add.at(totals, at, rewards)
        np.add.at(counts, at, 1)
        table = np.where(counts > 0, totals / np.maximum(counts, 1), rewards.mean())
        # Each fitted number uses up a degree of freedom.
        left = max(len(rewards) - int((counts > 0).sum()), 1)
        return float(((table[at] - rewards) ** 2).sum() / left), table

    (off, table), (off_ahead, ahead) = (
        means(sizes, states, actions), means((sizes[0], 1), following, 0 * following)
    )  # fmt: skip
    chosen = ahead if off_ahead < off else table
    balance = np.zeros(sizes[0])
    np.add.at(balance, following, 2 * ends - 1)
    reward = TableReward(jnp.asarray(chosen, dtype=float), off_ahead < off)
    return reward, TableEnds(jnp.asarray(balance > 0))
