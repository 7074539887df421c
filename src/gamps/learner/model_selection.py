"""Which model class, and how far ω is trusted: by trajectories that were held out."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gamps._utils.fields import as_number
from gamps.learner.model_classes import Classes, ModelClass, fitted, made
from gamps.learner.types import Candidate
from gamps.models import Model
from gamps.search.weights import tempered
from gamps.trajectories import Trajectories

SURE = 3.0  # standard errors; several candidates are compared
LARGE = 5_000  # transitions
ALIKE = 1e-3  # what rounding may do to weights that are all one


def choose(
    key: Key[Array, ""],
    omega: Float[Array, "N T"],
    trajectories: Trajectories,
    order: np.ndarray,
    classes: Classes,
    *,
    exponents: Sequence[float],
    folds: int,
) -> tuple[tuple[str, float], tuple[Candidate, ...]]:
    """Class and β by the ω-weighted log-likelihood of trajectories that no fit has seen.

    The first class at the first β is the reference; the best other candidate takes its place only
    if it is better by more than three standard errors, over held-out trajectories, of the
    difference. Where ω is the same everywhere β makes no difference, and none is tried.

    Args:
      key: for fits that draw minibatches.
      omega: ω of the current policy, zero where padded.
      trajectories: the log.
      order: of its trajectories, in which they are cut into parts.
      classes: kinds of models.
      exponents: β to choose from.
      folds: parts of the log that are held out in turn.

    Returns:
      The chosen class and β, and every candidate.
    """
    real = np.asarray(omega)[np.asarray(trajectories.mask)]
    if np.ptp(real) <= ALIKE * real.max():
        exponents = exponents[:1]
    pairs = [(name, beta) for name in classes for beta in exponents]
    if len(pairs) == 1:
        return pairs[0], ()
    # A small log is held out part by part, until all of it was; of a large one a part is enough.
    parts = np.array_split(order, folds)
    if len(real) > LARGE:
        parts = parts[:1]
    held_out = np.concatenate(parts)
    likelihoods = {
        (name, beta): np.concatenate(
            [_unseen(key, omega, trajectories, part, classes[name], beta) for part in parts]
        )
        for name, beta in pairs
    }
    weights = np.asarray(omega, float)[held_out]

    def gain(pair: tuple[str, float], over: np.ndarray) -> tuple[float, float]:
        """Weighted mean of the difference, and its standard error over trajectories."""
        difference = np.where(weights > 0, likelihoods[pair] - over, 0.0)
        rows, totals = (weights * difference).sum(axis=1), weights.sum(axis=1)
        mean = rows.sum() / totals.sum()
        error = math.sqrt(np.sum((rows - mean * totals) ** 2)) / totals.sum()
        return float(mean), error

    nothing = np.zeros_like(weights)
    evidence = tuple(Candidate(*pair, gain(pair, nothing)[0]) for pair in pairs)
    gains = {pair: gain(pair, likelihoods[pairs[0]]) for pair in pairs}
    best = max(gains, key=lambda pair: gains[pair][0])
    mean, error = gains[best]
    return (best if mean > SURE * error else pairs[0]), evidence


def _unseen(
    key: Key[Array, ""],
    omega: Float[Array, "N T"],
    trajectories: Trajectories,
    part: np.ndarray,
    kind: ModelClass,
    beta: float,
) -> np.ndarray:
    """Log-densities of some trajectories under a model fitted to the others."""
    # The others by a weight of zero: all parts have one shape, and one program.
    rows = jnp.asarray(part)
    weights = _others(omega, trajectories.mask, rows, as_number(beta))
    fit = kind.fit if kind.trial is None else kind.trial
    model = fitted(fit, key, made(kind.make, key, trajectories), trajectories, weights)
    return np.asarray(_each_log_prob(model, trajectories, rows))


@eqx.filter_jit
def _others(omega: Array, mask: Array, rows: Array, beta: Array) -> Float[Array, "N T"]:
    return tempered(omega, mask.at[rows].set(False), beta)


@eqx.filter_jit
def _each_log_prob(model: Model, trajectories: Trajectories, rows: Array) -> Float[Array, "n T"]:
    log = jax.tree.map(lambda x: x[rows], trajectories)
    each = jax.vmap(jax.vmap(model.log_prob))(log.states, log.actions, log.next_states)
    # A point mass that a model rules out, and padding, must not turn a sum into no number.
    each = jnp.where(jnp.isnan(each), -1e3, jnp.maximum(each, -1e3))
    return jnp.where(log.mask, each, 0.0)
