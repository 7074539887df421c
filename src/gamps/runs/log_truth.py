"""Check whether the logged densities can be those of the actions, and whether a log drifts.

False propensities fool every gate, but the log itself can refute them. If p is true, the product
of g(a|s) / p(a|s) over steps has expectation one for any density g that was fitted to other
episodes: it exceeds 1/α with a chance of at most α. The closer g is to the truth, the sooner it
exposes a false p. Choices need no fit: the mean of 1[a = k] / p is at most one.
"""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, ndtri

from gamps.datasets import Labels
from gamps.policies import Gaussian, Policy
from gamps.trajectories import Trajectories

FALSE_ALARM = 1e-3  # chance of one, over all checks of a log
QUARTERS = 4
FEWEST = 20  # smaller parts are not checked
MUCH = 0.02  # nats per step, or excess frequency of a choice
BETS = (0.02, 0.1, 0.4)  # shares of the stake, on a choice being taken more often than said


def false_densities(
    log: Trajectories, labels: Labels, policy: Policy | None
) -> Iterator[tuple[str, bool]]:
    """Yield the parts of the log whose densities are refuted, by controller and quarter.

    Each comes with whether the error is large: a long log reveals errors too small to matter.

    Args:
      log: with logged densities.
      labels: its controllers.
      policy: a policy whose mean may be the logging policy's; None if there is none.
    """
    parts = list(_parts(log, labels))
    limit = math.log(len(parts) / FALSE_ALARM) if parts else 0.0
    for name, rows in parts:
        part: Trajectories = jax.tree.map(lambda x, rows=rows: np.asarray(x)[rows], log)
        if part.actions.dtype.kind == "i":
            evidence, choice = _of_choices(part)
            if evidence > limit:
                p = np.exp(-part.behaviour_log_prob[part.mask])
                often = float(np.mean(p * (part.actions[part.mask] == choice)))
                found = f"{name}: choice {choice} was taken {often:.2f} times as often as they say"
                yield found, often > 1 + MUCH
        elif part.actions.ndim == 3 and part.states.ndim == 3:
            mean_of = policy if isinstance(policy, Gaussian) else None
            evidence, better = _of_numbers(part, mean_of)
            if evidence > limit:
                found = f"{name}: a fit is {better:.2g} nats per step better on held-out actions"
                yield found, better > MUCH


def _of_choices(log: Trajectories) -> tuple[float, int]:
    """Return the log of what betting on a choice won, the stake split over all bets; the choice."""
    inverse = np.exp(-np.asarray(log.behaviour_log_prob, np.float64)[log.mask])
    actions = np.asarray(log.actions)[log.mask]
    choices = np.unique(actions)
    won = [
        logsumexp([np.log1p(bet * ((actions == k) * inverse - 1)).sum() for bet in BETS])
        for k in choices
    ]
    shared = math.log(len(BETS) * len(choices))
    return float(max(won)) - shared, int(choices[int(np.argmax(won))])


def _of_numbers(log: Trajectories, policy: Gaussian | None) -> tuple[float, float]:
    """Return the log evidence of two fits, each judged by the other's episodes; mean per step."""
    mask = np.asarray(log.mask)
    states = np.asarray(log.states)[mask]
    x = np.concatenate([states, np.ones((len(states), 1))], axis=1).astype(np.float64)
    if policy is not None:
        mean = jax.jit(jax.vmap(policy.mean))(jnp.asarray(states))
        x = np.concatenate([x, np.asarray(mean, np.float64)], axis=1)
    actions = np.asarray(log.actions)[mask].astype(np.float64)
    logged = np.asarray(log.behaviour_log_prob)[mask].astype(np.float64)
    odd = np.nonzero(mask)[0] % 2
    won, steps = [], 0
    for half in (0, 1):
        fit, seen = odd == half, odd != half
        weights = np.linalg.lstsq(x[fit], actions[fit], rcond=None)[0]
        std = np.maximum((actions[fit] - x[fit] @ weights).std(axis=0), 1e-6)
        z = (actions[seen] - x[seen] @ weights) / std
        density = (-(z**2) / 2 - np.log(std) - math.log(2 * math.pi) / 2).sum(axis=1)
        won.append(float((density - logged[seen]).sum()))
        steps += int(seen.sum())
    return float(logsumexp(won)) - math.log(2), sum(won) / steps


def drifts(log: Trajectories, labels: Labels) -> Iterator[str]:
    """Yield what differs between the earlier and the later half of a controller's episodes."""
    asked = []
    rewards, mask = np.asarray(log.rewards, np.float64), np.asarray(log.mask)
    returns = np.where(mask, rewards, 0.0).sum(axis=1)[:, None]
    starts = np.asarray(log.observations)[:, 0].reshape(len(mask), -1)
    names = [*labels.observations, *(f"observations[{j}]" for j in range(starts.shape[1]))]
    for name, rows in _parts(log, labels, quarters=False):
        for what, values in (("return", returns), ("first", starts)):
            if values.dtype.kind == "f":
                early, late = np.array_split(values[rows], 2)
                error = np.sqrt(early.var(0) / len(early) + late.var(0) / len(late))
                for j in np.flatnonzero(error > 0):
                    of = "the return" if what == "return" else f"the first {names[j]}"
                    z = (late.mean(0) - early.mean(0))[j] / error[j]
                    asked.append((abs(z), name, of, early.mean(0)[j], late.mean(0)[j]))
    if not asked:
        return
    limit = -ndtri(FALSE_ALARM / 2 / len(asked))
    for z, name, of, before, after in asked:
        if z > limit:
            yield f"{name}: {of} is {after:.4g} in the later half, {before:.4g} before"


def _parts(
    log: Trajectories, labels: Labels, *, quarters: bool = True
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the rows of each controller and, with `quarters`, of each quarter of them."""
    controllers = np.asarray(labels.controllers or ("",) * log.n_trajectories)
    for name in dict.fromkeys(controllers.tolist()):
        rows = np.flatnonzero(controllers == name)
        named = f"controller {name}" if name else "all episodes"
        if len(rows) >= FEWEST:
            yield named, rows
        for k, quarter in enumerate(np.array_split(rows, QUARTERS) if quarters else ()):
            if len(quarter) >= FEWEST:
                yield f"{named}, quarter {k + 1}", quarter
