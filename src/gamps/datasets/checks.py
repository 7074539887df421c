"""Check the numbers of a log: densities must match their policy, and actions not be clipped."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.special import pdtrc

from gamps.datasets.writing import LOG_PROB, POLICY
from gamps.errors import DatasetError, TrajectoryError
from gamps.policies import Boltzmann, Policy, log_probs
from gamps.trajectories import Trajectories

INFO = f"infos/{LOG_PROB}"
TOLERANCE = 1e-3  # for a recomputed log-density: covers float32 rounding, not another action
# Normal and uniform draws in single precision come from a grid of 2^23 points: a long log may
# repeat its extremes although nothing was clipped.
POINT = 2.0**-23
FALSE_ALARM = 1e-4  # probability, for each extreme

_log_probs = eqx.filter_jit(log_probs)


@contextlib.contextmanager
def naming(numbers: Sequence[int] | None = None, *, file: bool = False) -> Iterator[None]:
    """Rewrite an error about padded rows so that it names the place in the log.

    Args:
      numbers: which episode of the log each row is; by default the row's own number.
      file: name fields as a Minari file does; its infos have one entry before the first step.
    """
    try:
        yield
    except (TrajectoryError, DatasetError) as error:
        field, index = error.field, error.index
        if index is not None and numbers is not None:
            index = (int(numbers[index[0]]), *index[1:])
        if file and field == "behaviour_log_prob" and index is not None:
            field, index = INFO, (*index[:1], *(step + 1 for step in index[1:2]))
        if file and field == "behaviour":
            field = f"metadata.json/{POLICY}"
        raise DatasetError(field, error.problem, error.fix, index=index) from error


def check_densities(trajectories: Trajectories, behaviour: Policy) -> None:
    """Compare every stored density with the policy that is said to have drawn the action."""
    try:
        expected = np.asarray(_log_probs(behaviour, trajectories))
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        problem = f"does not fit the observations or actions: {error}"
        raise DatasetError("behaviour", problem, "Store the policy that made this log") from error
    if isinstance(behaviour, Boltzmann):
        # Probabilities are looked up by the action's number; an invalid number would go unnoticed.
        actions = jnp.where(trajectories.mask, trajectories.actions, 0)
        wrong = np.argwhere((actions < 0) | (actions >= behaviour.weights.shape[-1]))
        if wrong.size:
            place = tuple(int(x) for x in wrong[0])
            problem = f"{int(actions[place])}, but there are {behaviour.weights.shape[-1]} choices"
            raise DatasetError("actions", problem, "Number them from 0", index=place)
    logged = np.asarray(trajectories.behaviour_log_prob)
    # Negated, so that a NaN counts as a difference.
    wrong = ~(np.abs(logged - expected) <= TOLERANCE * (1 + np.abs(expected)))
    places = np.argwhere(wrong & np.asarray(trajectories.mask))
    if places.size:
        place = tuple(int(x) for x in places[0])
        raise DatasetError(
            "behaviour_log_prob",
            f"{logged[place]:.5g}, but the behaviour policy gives this action "
            f"{expected[place]:.5g} ({len(places)} such steps)",
            "Log each action raw, before clipping, with its own density",
            index=place,
        )


class Extremes(NamedTuple):
    """The least and the greatest action in each dimension; the first axis says which of the two.

    Attributes:
      steps: number of steps in the log so far.
      values: `[2, dimensions]`.
      times: `[2, dimensions]`, how often each was drawn.
      places: `[2, dimensions, 2]`, episode and step of one of those draws.
    """

    steps: int
    values: np.ndarray
    times: np.ndarray
    places: np.ndarray


def extremes_of(
    trajectories: Trajectories, numbers: Sequence[int] | None = None
) -> Extremes | None:
    """The extremes of continuous actions, None for choices; `numbers` are the episodes' numbers."""
    actions, mask = np.asarray(trajectories.actions), np.asarray(trajectories.mask)
    if actions.dtype.kind != "f" or actions.size == 0:
        return None
    rows, steps = np.nonzero(mask)
    columns = actions[mask].reshape(len(rows), -1)
    values = np.stack([columns.min(axis=0), columns.max(axis=0)])
    hits = columns == values[:, None]
    first = hits.argmax(axis=1)
    episodes = rows if numbers is None else np.asarray(numbers)[rows]
    places = np.stack([episodes[first], steps[first]], axis=-1)
    return Extremes(len(rows), values, hits.sum(axis=1), places)


def joined(one: Extremes | None, other: Extremes | None) -> Extremes | None:
    """Combine the extremes of two parts of a log."""
    if one is None or other is None:
        return other if one is None else one
    sign = np.array([[1.0], [-1.0]])  # the greatest is the least of the negative
    kept, left = sign * one.values < sign * other.values, sign * one.values > sign * other.values
    return Extremes(
        one.steps + other.steps,
        np.where(kept, one.values, other.values),
        np.where(kept, one.times, np.where(left, other.times, one.times + other.times)),
        np.where(left[..., None], other.places, one.places),
    )


def check_not_clipped(extremes: Extremes | None) -> None:
    """Refuse actions that look clipped: continuous draws hardly ever repeat their extremes."""
    if extremes is None:
        return
    low, high = extremes.values
    for j in np.flatnonzero(low < high):
        for k in range(2):
            times = int(extremes.times[k, j])
            if times > 1 and pdtrc(times - 2, POINT * extremes.steps) < FALSE_ALARM:
                raise DatasetError(
                    "actions",
                    f"{times} actions are exactly {extremes.values[k, j]:.6g}, the extreme of "
                    f"dimension {j}: they look clipped",
                    "Log actions as they were drawn; the density of a clipped action is unknown",
                    index=tuple(int(x) for x in extremes.places[k, j]),
                )
