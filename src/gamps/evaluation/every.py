"""Every estimator's verdict on one policy, side by side."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Key

from gamps.errors import SettingError
from gamps.evaluation.estimators import ESTIMATORS, Evidence, evidence
from gamps.evaluation.fitted import fitted_q
from gamps.evaluation.verdict import Verdict, evidence_of, judge
from gamps.policies import Policy
from gamps.tasks import Task
from gamps.trajectories import Trajectories

FITTED = "fitted Q"
# Estimates whose spread leaves their own error out: shown, and no ground for a verdict.
UNFIT = ("direct", FITTED)
MODELLED = ("doubly robust", "weighted doubly robust")


def chosen(every: dict[str, Verdict], name: str) -> str:
    """The name, if a verdict can rest on it.

    Raises:
      SettingError: if not.
    """
    if name not in every or name in UNFIT:
        mend = f"Choose one of {', '.join(n for n in every if n not in UNFIT)}"
        raise SettingError("estimator", repr(name), mend)
    return name


def cases(
    key: Key[Array, ""],
    policy: Policy,
    learned: Trajectories,
    held_out: Trajectories,
    task: Task,
    model: Any = None,
) -> dict[str, tuple[Evidence, str]]:
    """What each estimate is made of, by name: the evidence and the estimator.

    Doubly robust estimates take the Q that is fitted to the log, and once more that of the model:
    a policy was trained to look good in the model, so it errs where that counts.

    Args:
      key: of imagined episodes, features and actions.
      policy: to be judged.
      learned: episodes to fit Q to.
      held_out: episodes to judge by.
      task: the known part of the problem.
      model: of the training.
    """
    key_model, key_fit, key_at = jax.random.split(key, 3)
    discount = float(task.discount)
    q, v = fitted_q(key_fit, policy, learned, discount).at(key_at, held_out)
    fitted = evidence(policy, held_out, discount, q_values=q, state_values=v)
    found = {name: (fitted, name) for name in ESTIMATORS if name != "direct"}
    if model is not None:
        modelled = evidence_of(key_model, policy, held_out, task, model)
        found |= {f"{name}, model's Q": (modelled, name) for name in MODELLED}
        found["direct"] = (modelled, "direct")
    return found | {FITTED: (fitted, "direct")}


def verdicts(
    policy: Policy,
    held_out: Trajectories,
    given: dict[str, tuple[Evidence, str]],
    *,
    interval: str,
    confidence: float,
) -> dict[str, Verdict]:
    """The verdict that each of the `cases` gives by itself."""
    rest = {"interval": interval, "confidence": confidence}
    return {
        name: judge(policy, held_out, found, estimator=estimator, **rest)._replace(estimator=name)  # type: ignore[arg-type]
        for name, (found, estimator) in given.items()
    }
