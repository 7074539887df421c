"""Every estimate of one policy, side by side; the verdict rests on one of them."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gamps.evaluation.estimators import ESTIMATORS, Evidence, evidence, on_policy, whole_episode
from gamps.evaluation.fitted_q import features_of, fitted_q
from gamps.evaluation.intervals import Interval, interval_of
from gamps.evaluation.marginal import carrying
from gamps.evaluation.ratio_sums import Terms, difference
from gamps.evaluation.verdict import ROBUST
from gamps.policies import Policy, log_probs
from gamps.search.importance import Ratios
from gamps.search.values import Imagined
from gamps.tasks import Task
from gamps.trajectories import Trajectories

ROLLOUTS = 20  # imagined from every pair
RAGGED = 10  # times as many steps with padding as without
FITTED, DIRECT = "fitted Q", "direct"
UNSPREAD = (DIRECT, FITTED)
"""Estimates whose bounds leave their own error out: no verdict rests on them."""
Assumption = Literal["nothing", "markov"]
"""What is taken for granted of a log: nothing, or that observations decide what comes next."""
KNOWN = 1e-3  # by how much logarithms of a policy's densities may differ from the logged ones


class Case(NamedTuple):
    """What an estimate is made of.

    Attributes:
      evidence: of the policy.
      estimator: a name of `ESTIMATORS`.
      base: evidence of the behaviour policy by the same features and draws; None if it is not
        known, and the logged returns stand for it.
      assume: what its ratios assume.
    """

    evidence: Evidence
    estimator: str
    base: Evidence | None = None
    assume: Assumption = "nothing"

    @property
    def log_ratios(self) -> np.ndarray:
        """`[N]`, that show how many episodes carry the estimate."""
        found = self.evidence
        return carrying(found.rho, found.seen) if self.assume == "markov" else whole_episode(found)

    @property
    def value(self) -> Terms:
        """Of the policy."""
        return ESTIMATORS[self.estimator](self.evidence)

    @property
    def improvement(self) -> Terms:
        """Over the behaviour policy; what Q misses of both alike cancels."""
        if self.base is None:
            return difference(self.value, on_policy(self.evidence))
        return difference(self.value, ESTIMATORS[self.estimator](self.base))


class Estimate(NamedTuple):
    """Of a policy's value, and of its improvement over the logging one on the same episodes."""

    value: Interval
    improvement: Interval


class FittedEvidence:
    """Evidence with a Q fitted to other episodes, for any policy by the same features and draws.

    Args:
      keys: of the fit, and of the actions at the episodes to judge by.
      learned: episodes to fit Q to.
      discount: γ.
      horizon: steps of the longest episode to judge by.
    """

    def __init__(
        self,
        keys: tuple[Key[Array, ""], Key[Array, ""]],
        learned: Trajectories,
        discount: float,
        horizon: int,
    ) -> None:
        self.key_fit, self.key_at = keys
        self.learned, self.discount, self.horizon = learned, discount, horizon
        self.features: Any = None

    def of(self, policy: Policy) -> Callable[[Trajectories, int], Evidence]:
        """Of a policy: at episodes to judge by, or at a piece of them with its number."""
        steps = max(self.learned.n_steps, self.horizon)
        if self.features is None:
            self.features = features_of(jax.random.split(self.key_fit)[0], policy, self.learned)
        fitted = fitted_q(
            self.key_fit, policy, self.learned, self.discount, self.features, steps=steps
        )

        def at(log: Trajectories, number: int = 0) -> Evidence:
            key = jax.random.fold_in(self.key_at, number) if number else self.key_at
            q, v = fitted.at(key, log, self.horizon)
            return evidence(policy, log, self.discount, q_values=q, state_values=v)

        return at

    def base(self, behaviour: Policy | None, log: Trajectories) -> Evidence | None:
        """Of the behaviour policy, whose ratios are one; None if it did not make these episodes."""
        if behaviour is None or not made(behaviour, log):
            return None
        return as_behaviour(self.of(behaviour)(log, 0))


def as_behaviour(found: Evidence) -> Evidence:
    """Evidence of the policy that made the log: ratios are one, and not nearly one."""
    seen = found.seen.astype(np.float64)
    return found._replace(rho=seen, before=seen)


def made(policy: Policy, log: Trajectories) -> bool:
    """Whether a policy gives the logged actions the densities that the log gives them."""
    apart = np.asarray(_log_probs(policy, log)) - np.asarray(log.behaviour_log_prob)
    return bool(np.abs(apart[np.asarray(log.mask)]).max() < KNOWN)


_log_probs = eqx.filter_jit(log_probs)


@eqx.filter_jit
def _modelled(
    key: Array, policy: Policy, model: Any, task: Task, log: Trajectories
) -> tuple[Array, Array | None]:
    """Q and V of the model, by imagined episodes as long as the log's."""
    ratios = Ratios.of(jnp.zeros(log.mask.shape), log.mask, jnp.asarray(1.0))
    imagined = Imagined(rollouts=ROLLOUTS, horizon=log.n_steps)
    values = imagined(key, policy, model, task, log, ratios)
    return values.weighted_q_values, values.state_values


def cases(
    key: Key[Array, ""],
    policy: Policy,
    learned: Trajectories,
    held_out: Trajectories,
    task: Task,
    model: Any = None,
    *,
    behaviour: Policy | None = None,
) -> dict[str, Case]:
    """By name: doubly robust estimates with the Q that is fitted to the log, and with the model's.

    Args:
      key: of imagined episodes, features and actions.
      policy: to be judged, with the noise that it acts with.
      learned: episodes to fit Q to; the policy may have been learned from them too.
      held_out: episodes to judge by, which neither the policy nor Q has seen.
      task: its discount; and, with a model, reward and termination.
      model: a fitted transition model, for further estimates; not of a ragged log, in which
        imagined episodes as long as the longest would cost more than all the rest.
      behaviour: the policy that made the log, if it is known: what a Q misses of both cancels.
    """
    key_model, *keys = jax.random.split(key, 3)
    discount = float(task.discount)
    fitted = FittedEvidence((keys[0], keys[1]), learned, discount, held_out.n_steps)
    found, base = fitted.of(policy)(held_out, 0), fitted.base(behaviour, held_out)
    by_name = {name: Case(found, name, base) for name in ESTIMATORS if name != DIRECT}
    if model is not None and held_out.mask.size <= RAGGED * int(held_out.mask.sum()):

        def modelled(one: Policy) -> Evidence:
            q, v = map(np.asarray, _modelled(key_model, one, model, task, held_out))
            return evidence(one, held_out, discount, q_values=q, state_values=v)

        imagined = modelled(policy)
        imagined_base = (
            as_behaviour(modelled(behaviour)) if base is not None and behaviour else None
        )
        for name in (ROBUST, f"weighted {ROBUST}"):
            by_name[f"{name}, model's Q"] = Case(imagined, name, imagined_base)
        by_name[DIRECT] = Case(imagined, DIRECT, imagined_base)
    return by_name | {FITTED: Case(found, DIRECT, base)}


def estimates(
    given: dict[str, Case], *, interval: str = "student", confidence: float = 0.95
) -> dict[str, Estimate]:
    """Each of the `cases` with its interval.

    Args:
      given: from `cases`.
      interval: student or bootstrap.
      confidence: of each bound.
    """
    return {
        name: Estimate(
            interval_of(case.value, interval, confidence=confidence),
            interval_of(case.improvement, interval, confidence=confidence),
        )
        for name, case in given.items()
    }
