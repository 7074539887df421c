"""What each column of a table holds, and an account of where its rows went."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gamps.errors import DatasetError
from gamps.trajectories import Episode


class Columns(NamedTuple):
    """Which column holds what.

    Attributes:
      episode: a number or a name, the same in all rows of an episode, which must be adjacent; empty
        if flags say where each episode ends.
      observations: one column per dimension.
      actions: one column per dimension, as drawn, before any clipping.
      reward: reward of the step.
      log_prob: log-density of the action under the logging policy; None if it was not logged.
      next_observations: one column per dimension; empty if the next row holds them.
      terminated: not zero in the last row of an episode that the environment ended.
      time: a number, a date or a time; if given, it must grow within an episode.
      discrete: whether actions are choices, numbered from zero, in one column.
      propensity: probability of the choice, instead of its logarithm.
      timeout: not zero in the last row of an episode that was cut off, whatever `terminated` says.
      controller: who chose the actions of an episode.
      group: which episodes belong together: a patient, a machine, a day.
      numbered: whether observations are states, numbered from zero, in one column.
    """

    episode: str
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str
    log_prob: str | None = None
    next_observations: tuple[str, ...] = ()
    terminated: str | None = None
    time: str | None = None
    discrete: bool = False
    propensity: str | None = None
    timeout: str | None = None
    controller: str | None = None
    group: str | None = None
    numbered: bool = False


class Dropped(NamedTuple):
    """An episode that was left out, and why.

    Attributes:
      name: name of the episode, or where it starts.
      rows: number of its rows.
      why: field, row and problem.
    """

    name: str
    rows: int
    why: str


@dataclass
class Account:
    """Where the rows of a table went: rows = steps + closing + rows of dropped episodes.

    Attributes:
      rows: number of rows in the table.
      steps: number of steps kept.
      closing: rows that only say where an episode ended.
      unknown_ends: episodes in which nothing says where the last step led.
      dropped: episodes that were left out.
    """

    rows: int = 0
    steps: int = 0
    closing: int = 0
    unknown_ends: int = 0
    dropped: list[Dropped] = field(default_factory=list)


class Labelled(NamedTuple):
    """An episode with its labels from the table.

    Attributes:
      episode: its steps.
      controller: who chose its actions; empty if no column says so.
      group: the group it belongs to; empty if no column says so.
      times: those of its first and its last row; nothing if no column says so.
    """

    episode: Episode
    controller: str = ""
    group: str = ""
    times: tuple[float, ...] = ()


def newest_of(read: Sequence[Labelled]) -> str:
    """Return the controller of the last episode: by a clock, if the times are of one.

    Times that count from the start of each episode say nothing of the episodes' order.
    """
    if read[0].times and max(one.times[0] for one in read) > min(one.times[1] for one in read):
        read = sorted(read, key=lambda one: one.times[1])
    return read[-1].controller


def names_of(columns: Columns) -> list[str]:
    """Names of all columns to read, after checking that they are consistent."""
    c = columns
    for name in ("observations", "actions"):
        if not getattr(c, name):
            raise DatasetError(name, "no column", "Name at least one")
    if c.next_observations and len(c.next_observations) != len(c.observations):
        problem = f"{len(c.next_observations)} for {len(c.observations)} observations"
        raise DatasetError("next_observations", problem, "Name one for each, in the same order")
    if c.discrete and len(c.actions) != 1:
        raise DatasetError("actions", f"{len(c.actions)} columns", "A choice has one column")
    if c.numbered and len(c.observations) != 1:
        problem = f"{len(c.observations)} columns"
        raise DatasetError("observations", problem, "A numbered state has one column")
    if c.propensity is not None and (c.log_prob is not None or not c.discrete):
        problem = "with a log-density" if c.log_prob is not None else "of actions that are numbers"
        raise DatasetError("propensity", problem, "Give one of the two; --discrete for choices")
    if not c.episode and c.terminated is None and c.timeout is None:
        fix = "Name a column of episodes, or a column of flags that mark where an episode ends"
        raise DatasetError("episode", "no column", fix)
    chosen = (
        c.reward, c.episode or None, *c.observations, *c.actions, c.log_prob, c.propensity,
        *c.next_observations, c.terminated, c.timeout, c.time, c.controller, c.group,
    )  # fmt: skip
    return list(dict.fromkeys(name for name in chosen if name is not None))
