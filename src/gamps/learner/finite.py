"""The default learner for numbered states and actions: exact values of a pessimistic table.

If a pair of state and action was seen n times, its frequencies count as n of n + ½ parts; the
rest is the worst return in the log. So a pair that was never tried has the worst value, and one
tried once little more. The softmax follows natural gradients, which in a table are advantages.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gamps.errors import SettingError
from gamps.evaluation.fitted_q import returns_to_go
from gamps.learner.types import Progress, RunState, Settings
from gamps.models import Quality
from gamps.policies import Boltzmann, OneHot, Policy
from gamps.search import State
from gamps.tasks import Task
from gamps.trajectories import Trajectories, known_transitions

DISTRUST = 0.5  # transitions to the worst return, added to those of each pair
RATE = 0.5  # step of the logits, in units of the first policy's advantages
NEVER = -20.0  # logits fall at most this far below the largest


class Table:
    """The log of a finite problem as a pessimistic table.

    Attributes:
      visits: `[S]`, how many actions were taken in each state.
      starts: `[S]`, share of the episodes that start in each state.
    """

    def __init__(self, log: Trajectories, task: Task, shape: tuple[int, int]) -> None:
        mask = np.asarray(log.mask)
        known = np.asarray(known_transitions(log))[mask]
        triples = np.stack(
            [np.asarray(x)[mask] for x in (log.states, log.actions, log.next_states)], axis=1
        )
        kinds, counts = np.unique(np.c_[triples, known], axis=0, return_counts=True)
        rewards, ends = (np.asarray(x) for x in _outcomes(task, kinds[:, :3]))
        self.shape, self.discount = shape, float(task.discount)
        self.pairs = kinds[:, 0] * shape[1] + kinds[:, 1]
        self.following = kinds[:, 2]
        n = np.bincount(self.pairs, counts, minlength=shape[0] * shape[1])
        worst = float(returns_to_go(log, self.discount).min())
        self.shares = counts / (n[self.pairs] + DISTRUST) * ~(ends | (kinds[:, 3] == 0))
        total = np.bincount(self.pairs, counts * rewards, minlength=len(n))
        self.rewards = (total + DISTRUST * worst) / (n + DISTRUST)
        self.visits = n.reshape(shape).sum(axis=1)
        self.starts = np.bincount(np.asarray(log.states[:, 0]), minlength=shape[0])
        self.starts = self.starts / self.starts.sum()

    def values(self, pi: np.ndarray, sweeps: int) -> np.ndarray:
        """Q of a policy, `[S, A]`, with `sweeps` steps to go."""
        q = np.zeros(self.shape)
        for _ in range(sweeps):
            v = (pi * q).sum(axis=1)
            ahead = np.bincount(self.pairs, self.shares * v[self.following], len(self.rewards))
            q = (self.rewards + self.discount * ahead).reshape(self.shape)
        return q


@eqx.filter_jit
def _outcomes(task: Task, kinds: Any) -> tuple[Array, Array]:
    each = (jnp.asarray(kinds[:, i]) for i in range(3))
    return jax.vmap(lambda *one: (task.reward(*one), task.terminal(*one)))(*each)


class FiniteLearner:
    """The default learner for finite problems, one iteration at a time, with `Learner`'s methods.

    Args:
      key: not used; nothing is random.
      trajectories: the log, with numbered states and choices.
      task: reward, termination and discount.
      behaviour: the policy that made the log, as a table.
      settings: only the number of iterations is used.
    """

    def __init__(
        self,
        key: Key[Array, ""],
        trajectories: Trajectories,
        task: Task,
        behaviour: Policy,
        *,
        settings: Settings | None = None,
    ) -> None:
        del key
        if not isinstance(behaviour, Boltzmann) or not isinstance(behaviour.features, OneHot):
            fix = "Start from a Boltzmann policy on OneHot features"
            raise SettingError("behaviour", type(behaviour).__name__, fix)
        self.total = (Settings() if settings is None else settings).iterations
        self.task, self.behaviour = task, behaviour
        self.controller: Policy = behaviour  # the search may start at a better one
        self.outcomes: Quality | None = None
        states, count = behaviour.weights.shape
        self.table = Table(trajectories, task, (states, count))
        self.sweeps = trajectories.n_steps
        powers = float(task.discount) ** np.arange(self.sweeps)
        rewards = np.where(trajectories.mask, np.asarray(trajectories.rewards, np.float64), 0.0)
        self.shown = float((rewards @ powers).mean())
        first = _table_of(behaviour)
        q = self.table.values(first, self.sweeps)
        self.before = float(self.table.starts @ (first * q).sum(axis=1))
        self.unit = self._spread(first, q)

    def start(self) -> Progress:
        """The progress before the first iteration."""
        return Progress(State(self.behaviour, None, (), jnp.asarray(0)), self.behaviour)

    def like(self, run: RunState) -> Progress:
        """A progress of the same structure, which never changes."""
        return self.start()._replace(run=run)

    def step(self, progress: Progress) -> tuple[Progress, dict[str, float]]:
        """One iteration: add the advantages to the logits."""
        policy: Any = progress.state.policy
        iteration = progress.state.iteration
        pi = _table_of(policy)
        q = self.table.values(pi, self.sweeps)
        advantages = q - (pi * q).sum(axis=1, keepdims=True)
        moves = (self.table.visits > 0)[:, None] * RATE * advantages / self.unit
        logits = np.log(np.maximum(pi, np.exp(NEVER))) + moves
        logits = np.maximum(logits - logits.max(axis=1, keepdims=True), NEVER)
        weights = jnp.asarray(logits, policy.weights.dtype)
        policy = eqx.tree_at(lambda p: p.weights, policy, weights)
        new = _table_of(policy)
        worth = float(self.table.starts @ (new * self.table.values(new, self.sweeps)).sum(axis=1))
        state = State(policy, None, (), iteration + 1)
        run = progress.run._replace(start=self.before, estimate=worth, promise=worth)
        best = policy
        if worth < self.before:
            run, best = run._replace(best=0, best_promise=self.shown), self.behaviour
        else:
            run = run._replace(best=int(iteration) + 1, best_promise=worth)
        metrics = {"gradient_norm": self._spread(pi, q), "estimate": worth, "promise": worth}
        return Progress(state, best, run), metrics

    def _spread(self, pi: np.ndarray, q: np.ndarray) -> float:
        """Root mean square of the advantages, at the log's states."""
        squares = (pi * (q - (pi * q).sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
        visits = self.table.visits
        return float(np.sqrt((visits * squares).sum() / visits.sum())) or 1.0


def is_finite(behaviour: Policy, log: Trajectories) -> bool:
    """Whether a log has numbered states and choices, and its policy is a table."""
    table = isinstance(behaviour, Boltzmann) and isinstance(behaviour.features, OneHot)
    return table and log.states.ndim == 2 and log.states.dtype.kind == "i"


def _table_of(policy: Any) -> np.ndarray:
    logits = np.asarray(policy.weights, np.float64)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
