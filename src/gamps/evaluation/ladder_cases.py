"""What episodes say about each policy of a ladder, with ratios of histories or of states."""

from collections.abc import Sequence

import jax
import numpy as np

from gamps.evaluation.estimates import Case, FittedEvidence
from gamps.evaluation.estimators import Evidence
from gamps.evaluation.marginal import StateRatios, by_states
from gamps.evaluation.verdict import ROBUST
from gamps.policies import Policy
from gamps.trajectories import Trajectories

FOLDS = 5  # of the episodes to judge by, for Q and ratios of states


def fit_keys(seed: int) -> tuple[jax.Array, jax.Array]:
    """The same keys as in `cases`, so that both give the same numbers."""
    _, key_fit, key_at = jax.random.split(jax.random.key(seed), 3)
    return key_fit, key_at


def ladder_cases(
    policies: Sequence[Policy],
    learned: Trajectories,
    held_out: Trajectories,
    discount: float,
    *,
    behaviour: Policy | None = None,
    seed: int = 0,
) -> list[Case]:
    """Return a case for each policy: one Q each, with the same features and draws.

    Args:
      policies: policies that were chosen before anyone looked at the held-out episodes.
      learned: episodes to fit Q to.
      held_out: episodes to judge by.
      discount: γ.
      behaviour: the logging policy, if known.
      seed: for features and actions.
    """
    found = FittedEvidence(fit_keys(seed), learned, discount, held_out.n_steps)
    base = found.base(behaviour, held_out)
    return [Case(found.of(policy)(held_out, 0), ROBUST, base) for policy in policies]


def markov_cases(
    policies: Sequence[Policy],
    held_out: Trajectories,
    discount: float,
    *,
    behaviour: Policy | None = None,
    groups: np.ndarray | None = None,
    seed: int = 0,
) -> tuple[list[Case], list[Case]]:
    """Return a case for each policy with ratios of states, and with ratios of histories.

    Ratios of states and every Q are fitted to held-out episodes of other groups than those that
    they judge. The training part flatters a policy that was learned from it, and estimates with
    both from there would be too high: only ratios of histories make up for any error of Q.

    Args:
      policies: policies that were chosen before anyone looked at the held-out episodes.
      held_out: episodes to judge by.
      discount: γ.
      behaviour: the logging policy, if known.
      groups: the group of each episode, if only groups are independent.
      seed: for features, actions and folds.
    """
    of = np.arange(held_out.n_trajectories)
    if groups is not None:
        of = np.unique(groups, return_inverse=True)[1]
    folds = np.random.default_rng(seed).permutation(of.max() + 1)[of] % FOLDS
    found: list[tuple[list[Case], list[Case]]] = []
    rows = [np.flatnonzero(folds == k) for k in range(FOLDS) if (folds == k).any()]
    for own in rows:
        others = np.setdiff1d(np.arange(len(folds)), own)
        fitted_to, part = (jax.tree.map(lambda x, at=at: x[at], held_out) for at in (others, own))
        plain = ladder_cases(policies, fitted_to, part, discount, behaviour=behaviour, seed=seed)
        ratios = StateRatios(fit_keys(seed)[0], fitted_to)
        states = [
            case._replace(evidence=by_states(case.evidence, ratios(policy, part)), assume="markov")
            for case, policy in zip(plain, policies, strict=True)
        ]
        found.append((states, plain))
    order = np.argsort(np.concatenate(rows))
    states, histories = (
        [_joined(cases, order) for cases in zip(*kind, strict=True)]
        for kind in zip(*found, strict=True)
    )
    return states, histories


def _joined(cases: Sequence[Case], order: np.ndarray) -> Case:
    """One case of all episodes, from those of folds; `order` brings the episodes into theirs."""

    def together(parts: Sequence[Evidence]) -> Evidence:
        return jax.tree.map(lambda *x: np.concatenate(x)[order] if x[0].ndim > 1 else x[0], *parts)

    base = [case.base for case in cases if case.base is not None]
    whole = together([case.evidence for case in cases])
    return cases[0]._replace(
        evidence=whole, base=together(base) if len(base) == len(cases) else None
    )
