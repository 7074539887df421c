"""Cut one long sequence of steps, the shape of D4RL and of most tables, into episodes."""

from typing import Any

import numpy as np

from gamps.errors import DatasetError
from gamps.trajectories import Episode


def from_flat(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminals: Any,
    timeouts: Any,
    *,
    next_observations: Any = None,
    behaviour_log_prob: Any = None,
) -> list[Episode]:
    """Cut flat arrays into episodes after every step where one of the two flags is set.

    Args:
      observations: `[n, ...]`, before each step.
      actions: `[n, ...]`, as they were drawn.
      rewards: `[n]`.
      terminals: `[n]`, True where the environment ended an episode.
      timeouts: `[n]`, True where an episode was cut off.
      next_observations: `[n, ...]`, after each step. Without them, the last observation of an
        episode only shows where the step before it led, so the last action and reward are
        dropped; that is refused where the environment ended the episode.
      behaviour_log_prob: `[n]`, or None if the densities have yet to be estimated.

    Raises:
      DatasetError: names the array and the step.

    Examples:
      >>> episodes = from_flat(
      ...     [[0.0], [1.0], [2.0]], [[1.0]] * 3, [1.0] * 3, [0, 0, 0], [0, 0, 1],
      ...     next_observations=[[1.0], [2.0], [3.0]], behaviour_log_prob=[0.0] * 3,
      ... )
      >>> len(episodes), episodes[0].observations.ravel().tolist()
      (1, [0.0, 1.0, 2.0, 3.0])
    """
    fields = {
        "observations": observations,
        "actions": actions,
        "rewards": rewards,
        "terminals": terminals,
        "timeouts": timeouts,
        "next_observations": next_observations,
        "behaviour_log_prob": behaviour_log_prob,
    }
    arrays = {name: _numbers(name, values) for name, values in fields.items() if values is not None}
    steps = len(arrays["rewards"])
    for name, array in arrays.items():
        if len(array) != steps:
            problem = f"{len(array)} entries, but {steps} rewards"
            raise DatasetError(name, problem, "Pass one entry per step")
    if "next_observations" in arrays and (
        arrays["next_observations"].shape != arrays["observations"].shape
    ):
        problem = f"shape {arrays['next_observations'].shape}"
        fix = f"Expected {arrays['observations'].shape}, the shape of the observations"
        raise DatasetError("next_observations", problem, fix)
    if steps == 0:
        raise DatasetError("rewards", "no steps", "Log at least one step")
    ended, cut = arrays["terminals"].astype(bool), arrays["timeouts"].astype(bool)
    stops = np.flatnonzero(ended | cut)
    if not len(stops) or stops[-1] != steps - 1:
        stops = np.append(stops, steps - 1)  # the last episode was still going on
    episodes, start = [], 0
    for stop in stops:
        rows = slice(start, int(stop) + 1)
        episodes.append(_episode(arrays, rows, bool(ended[stop])))
        start = int(stop) + 1
    return [episode for episode in episodes if len(episode.rewards)]


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DatasetError(name, f"not an array: {error}", "Pass rows of equal length") from error
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        raise DatasetError(name, f"dtype {array.dtype}", "Pass numbers, one row per step")
    return array


def _episode(arrays: dict[str, np.ndarray], rows: slice, terminated: bool) -> Episode:
    fields = {name: array[rows] for name, array in arrays.items()}
    log_prob = fields.get("behaviour_log_prob")
    if "next_observations" in fields:
        broken = np.argwhere(fields["observations"][1:] != fields["next_observations"][:-1])
        if broken.size:
            place = rows.start + int(broken[0][0])
            fix = "Set timeouts there, or fix the order of the steps"
            problem = "differs from the observation that the next step starts from"
            raise DatasetError("next_observations", problem, fix, index=place)
        observations = np.concatenate([fields["observations"], fields["next_observations"][-1:]])
        return Episode(observations, fields["actions"], fields["rewards"], log_prob, terminated)
    if terminated:
        raise DatasetError(
            "next_observations",
            "missing, and the environment ended this episode",
            "Pass them: the reward of the last step would be lost",
            index=rows.stop - 1,
        )
    shorter = None if log_prob is None else log_prob[:-1]
    actions, rewards = fields["actions"][:-1], fields["rewards"][:-1]
    return Episode(fields["observations"], actions, rewards, shorter, False)
