"""All estimates of one policy, side by side; the verdict rests on one of them."""

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
from gamps.evaluation.ratio_sums import Terms, difference, terms_by_group
from gamps.evaluation.verdict import ROBUST
from gamps.policies import Policy, log_probs
from gamps.search.importance import Ratios
from gamps.search.values import Imagined
from gamps.tasks import Task
from gamps.trajectories import Trajectories

ROLLOUTS = 20  # imagined episodes from every pair
IMAGINED = 2_000_000  # steps that are imagined for one of these: longer logs use fewer episodes
LEAST = 10  # episodes; if fewer can be imagined from, the model gives no estimate
GROUPS = 3  # fewest for an interval
RAGGED = 10  # a log is ragged if it has more than 10 times as many steps with padding as without
FITTED, DIRECT = "fitted Q", "direct"
UNSPREAD = (DIRECT, FITTED)
"""Estimates whose bounds leave out the error of their own Q; no verdict rests on them."""
Assumption = Literal["nothing", "markov"]
"""What is assumed about a log: nothing, or that each observation decides what comes next."""
KNOWN = 1e-3  # largest difference between a policy's log-densities and the logged ones


class Case(NamedTuple):
    """The data that an estimate is computed from.

    Attributes:
      evidence: evidence about the policy.
      estimator: a name in `ESTIMATORS`.
      base: evidence about the logging policy, from the same features and draws; None if it is not
        known, and the logged returns are used in its place.
      assume: what the ratios assume.
      rows: the episodes that the evidence is from; None for all.
    """

    evidence: Evidence
    estimator: str
    base: Evidence | None = None
    assume: Assumption = "nothing"
    rows: np.ndarray | None = None

    @property
    def log_ratios(self) -> np.ndarray:
        """`[N]` log-ratios that show how many episodes support the estimate."""
        found = self.evidence
        return carrying(found.rho, found.seen) if self.assume == "markov" else whole_episode(found)

    @property
    def value(self) -> Terms:
        """Terms of the policy's value."""
        return ESTIMATORS[self.estimator](self.evidence)

    @property
    def improvement(self) -> Terms:
        """Terms of the improvement over the logging policy; errors of Q that both share cancel."""
        if self.base is None:
            return difference(self.value, on_policy(self.evidence))
        return difference(self.value, ESTIMATORS[self.estimator](self.base))


class Estimate(NamedTuple):
    """Intervals for a policy's value and for its improvement over the logging policy, paired."""

    value: Interval
    improvement: Interval


class FittedEvidence:
    """Evidence about any policy with a Q fitted to other episodes; all share features and draws.

    Args:
      keys: for the fit, and for the actions at the episodes to judge by.
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
        """A function that gives the evidence about `policy` on a log, or on a numbered piece."""
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
        """Evidence about the logging policy, with ratios of one; None if it did not make `log`."""
        if behaviour is None or not made(behaviour, log):
            return None
        return as_behaviour(self.of(behaviour)(log, 0))


def as_behaviour(found: Evidence) -> Evidence:
    """Evidence about the policy that made the log: its ratios are set to exactly one."""
    seen = found.seen.astype(np.float64)
    return found._replace(rho=seen, before=seen)


def made(policy: Policy, log: Trajectories) -> bool:
    """Whether a policy's densities for the logged actions are those in the log."""
    apart = np.asarray(_log_probs(policy, log)) - np.asarray(log.behaviour_log_prob)
    return bool(np.abs(apart[np.asarray(log.mask)]).max() < KNOWN)


_log_probs = eqx.filter_jit(log_probs)


@eqx.filter_jit
def _modelled(
    key: Array, policy: Policy, model: Any, task: Task, log: Trajectories
) -> tuple[Array, Array | None]:
    """Q and V of the model, from imagined episodes as long as the log's."""
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
    """Return all estimates by name, with the Q that is fitted to the log and with the model's Q.

    Args:
      key: for imagined episodes, features and actions.
      policy: the policy to judge, with the noise that it acts with.
      learned: episodes to fit Q to; the policy may have been learned from them too.
      held_out: episodes to judge by, which neither the policy nor Q has seen.
      task: its discount; a model also needs its reward and termination.
      model: a fitted transition model, for further estimates. It is not used on a ragged log, where
        imagined episodes as long as the longest would cost more than all the rest.
      behaviour: the policy that made the log, if known; errors of Q that both share then cancel.
    """
    key_model, *keys = jax.random.split(key, 3)
    discount = float(task.discount)
    fitted = FittedEvidence((keys[0], keys[1]), learned, discount, held_out.n_steps)
    found, base = fitted.of(policy)(held_out, 0), fitted.base(behaviour, held_out)
    by_name = {name: Case(found, name, base) for name in ESTIMATORS if name != DIRECT}
    rows = None if model is None else _few(held_out)
    if rows is not None:
        few = jax.tree.map(lambda x: x[rows], held_out)

        def modelled(one: Policy) -> Evidence:
            q, v = map(np.asarray, _modelled(key_model, one, model, task, few))
            return evidence(one, few, discount, q_values=q, state_values=v)

        imagined = modelled(policy)
        imagined_base = (
            as_behaviour(modelled(behaviour)) if base is not None and behaviour else None
        )
        for name in (ROBUST, f"weighted {ROBUST}"):
            by_name[f"{name}, model's Q"] = Case(imagined, name, imagined_base, rows=rows)
        by_name[DIRECT] = Case(imagined, DIRECT, imagined_base, rows=rows)
    return by_name | {FITTED: Case(found, DIRECT, base)}


def _few(log: Trajectories) -> np.ndarray | None:
    """Choose as many episodes, evenly spaced, as there is time to imagine from, if any are enough.

    None for a ragged log: imagined episodes as long as the longest would cost more than all else.
    """
    steps, n = int(log.mask.sum()), log.n_trajectories
    kept = int(n * IMAGINED / max(steps * log.n_steps, 1))
    if log.mask.size > RAGGED * steps or kept < LEAST:
        return None
    return np.linspace(0, n - 1, min(kept, n)).astype(int)


def estimates(
    given: dict[str, Case],
    *,
    interval: str = "student",
    confidence: float = 0.95,
    groups: np.ndarray | None = None,
) -> dict[str, Estimate]:
    """Return the intervals of each case; none from fewer than three groups.

    Args:
      given: the result of `cases`.
      interval: student or bootstrap.
      confidence: of each bound.
      groups: the group of each episode, if only groups are independent and not episodes.
    """
    found = {}
    for name, case in given.items():
        own = groups if groups is None or case.rows is None else groups[case.rows]
        if own is None or len(np.unique(own)) >= GROUPS:
            both = (terms_by_group(terms, own) for terms in (case.value, case.improvement))
            found[name] = Estimate(*(interval_of(t, interval, confidence=confidence) for t in both))
    return found
