"""Every estimate of one policy, side by side; the verdict rests on one of them."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gamps.evaluation.estimators import ESTIMATORS, Evidence, evidence, on_policy
from gamps.evaluation.fitted_q import fitted_q
from gamps.evaluation.intervals import Interval, interval_of
from gamps.evaluation.ratio_sums import difference
from gamps.evaluation.verdict import ROBUST, Verdict, judge
from gamps.policies import Policy
from gamps.search.importance import Ratios
from gamps.search.values import Imagined
from gamps.tasks import Task
from gamps.trajectories import Trajectories

ROLLOUTS = 20  # imagined from every pair
FITTED, DIRECT = "fitted Q", "direct"
UNSPREAD = (DIRECT, FITTED)
"""Estimates whose bounds leave their own error out: no verdict rests on them."""


class Case(NamedTuple):
    """What an estimate is made of: the evidence and a name of `ESTIMATORS`."""

    found: Evidence
    estimator: str


class Estimate(NamedTuple):
    """Of a policy's value, and of its improvement over the logging one on the same episodes."""

    value: Interval
    improvement: Interval


class Evaluation(NamedTuple):
    """What held-out episodes say of a policy.

    Attributes:
      verdict: deploy, not shown to be better, or worse, by the doubly robust estimate.
      estimates: that one and others beside it, by name.
      cases: what each is made of.
    """

    verdict: Verdict
    estimates: dict[str, Estimate]
    cases: dict[str, Case]


def evaluate(
    policy: Policy,
    learned: Trajectories,
    held_out: Trajectories,
    task: Task,
    *,
    model: Any = None,
    confidence: float = 0.95,
    interval: str = "student",
    seed: int = 0,
) -> Evaluation:
    """Say whether a policy may be deployed, by episodes that nothing was learned from.

    Args:
      policy: to be judged, with the noise that it acts with.
      learned: episodes to fit Q to; the policy may have been learned from them too.
      held_out: episodes to judge by, which neither the policy nor Q has seen.
      task: its discount; and, with a model, reward and termination.
      model: a fitted transition model, for further estimates beside the verdict's.
      confidence: of each bound.
      interval: student or bootstrap.
      seed: of imagined episodes, features and actions.
    """
    key = jax.random.key(seed)
    all_cases = cases(key, policy, learned, held_out, task, model)
    by_name = estimates(all_cases, interval=interval, confidence=confidence)
    evidence = all_cases[ROBUST].found
    verdict = judge(policy, held_out, evidence, interval=interval, confidence=confidence)
    return Evaluation(verdict, by_name, all_cases)


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
) -> dict[str, Case]:
    """By name: doubly robust estimates with the Q that is fitted to the log, and with the model's.

    Arguments as of `evaluate`; the key is of imagined episodes, features and actions.
    """
    key_model, key_fit, key_at = jax.random.split(key, 3)
    discount, steps = float(task.discount), max(learned.n_steps, held_out.n_steps)
    q, v = fitted_q(key_fit, policy, learned, discount, steps=steps).at(key_at, held_out)
    fitted = evidence(policy, held_out, discount, q_values=q, state_values=v)
    by_name = {name: Case(fitted, name) for name in ESTIMATORS if name != DIRECT}
    if model is not None:
        q, v = map(np.asarray, _modelled(key_model, policy, model, task, held_out))
        modelled = evidence(policy, held_out, discount, q_values=q, state_values=v)
        for name in (ROBUST, f"weighted {ROBUST}"):
            by_name[f"{name}, model's Q"] = Case(modelled, name)
        by_name[DIRECT] = Case(modelled, DIRECT)
    return by_name | {FITTED: Case(fitted, DIRECT)}


def estimates(
    given: dict[str, Case], *, interval: str = "student", confidence: float = 0.95
) -> dict[str, Estimate]:
    """Each of the `cases` with its interval; arguments as of `evaluate`."""
    by_name = {}
    for name, case in given.items():
        terms = ESTIMATORS[case.estimator](case.found)
        gain = difference(terms, on_policy(case.found))
        by_name[name] = Estimate(
            *(interval_of(t, interval, confidence=confidence) for t in (terms, gain))
        )
    return by_name
