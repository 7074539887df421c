"""`gamps import` and `gamps fit-behaviour`: logs from where people have them."""

from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import tyro

from gamps import datasets
from gamps._utils import console
from gamps.errors import OutputError, SettingError
from gamps.policies import estimation
from gamps.trajectories import from_episodes


def import_(
    table: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")],
    /,
    *,
    dataset: str,
    episode: str,
    observations: tuple[str, ...],
    actions: tuple[str, ...],
    reward: str,
    log_prob: str = "",
    next_observations: tuple[str, ...] = (),
    terminated: str = "",
    time: str = "",
    discrete: bool = False,
    discount: float = 0.99,
    overwrite: bool = False,
) -> None:
    """Turn a table of steps into a dataset: CSV, or Parquet with pip install "gamps[tables]".

    One row a step, in the order of time, the rows of an episode together. Actions must be as the
    controller drew them, before any limit. The last row of an episode may hold observations only,
    with action and reward left empty: it says where the episode ended. Without such a row and
    without columns of next observations, the last row is used for that and its step is dropped.

    Example: gamps import log.csv --episode run --observations h1 h2 --actions pump --reward reward
    --log-prob logp --dataset tanks/day-v0

    Args:
      table: the file, .csv or .parquet.
      dataset: name of the new dataset, like tanks/day-v0.
      episode: column with the episode's number or name.
      observations: columns, one a dimension.
      actions: columns, one a dimension.
      reward: column.
      log_prob: column with the log-density of the action under the logging policy. If it was not
        logged, leave it out and go on with gamps fit-estimation.
      next_observations: columns, one a dimension, in the order of the observations.
      terminated: column that is not zero where the environment ended the episode.
      time: column that must grow within an episode; it is only checked.
      discrete: actions are choices, numbered from 0, in one column.
      discount: kept with the log.
      overwrite: replace a dataset of the same name.
    """
    _check(dataset, discount, overwrite)
    columns = datasets.Columns(
        episode, observations, actions, reward, log_prob or None, next_observations,
        terminated or None, time or None, discrete,
    )  # fmt: skip
    episodes = datasets.read_table(table, columns)
    if not log_prob:
        episodes = [e._replace(behaviour_log_prob=np.zeros(len(e.rewards))) for e in episodes]
    log = from_episodes(episodes)
    folder = datasets.save(
        dataset,
        log,
        None,
        discount=discount,
        densities="known" if log_prob else "missing",
        overwrite=overwrite,
    )
    say = console.say
    say(f"{log.n_trajectories} episodes, {int(log.lengths.sum())} steps")
    say(f"written: {folder}")
    if log_prob:
        say(f"next: gamps inspect {dataset} --task module:object")
    else:
        say(f"next: gamps fit-behaviour {dataset} --dataset NAME")


def fit_behaviour(
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")],
    /,
    *,
    dataset: str,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Estimate the logging policy of a log without densities, and keep the log with them.

    Kinds of policies are compared by the likelihood of actions that no fit has seen; the best is
    fitted to the whole log. The calibration says how often held-out actions fall where the fit
    says they should. Everything that is done with the new dataset says that its densities are
    estimated: logging them is better. The fit has seen every episode, also those that a training
    holds out later.

    Example: gamps fit-behaviour tanks/raw-v0 --dataset tanks/day-v0

    Args:
      log: name of a dataset, or its folder.
      dataset: name of the new one.
      seed: of the parts that are held out in turn.
      overwrite: replace a dataset of the same name.
    """
    _check(dataset, 1.0, overwrite)
    episodes, discount, densities = datasets.load_episodes(log)
    if densities == "known":
        raise SettingError("log", f"{log} has its densities", "Use it as it is")
    with console.terminal.status("fitting …"):
        found = estimation.estimate(jax.random.key(seed), episodes)
    folder = datasets.save(
        dataset, found.trajectories, found.policy,
        discount=discount, densities="estimated", overwrite=overwrite,
    )  # fmt: skip
    table = console.rich_table("logging policy, estimated", ["kind", "held-out log-likelihood"])
    for kind, value in found.held_out.items():
        table.add_row(f"{kind} *" if kind == found.kind else kind, f"{value:.4f}")
    console.say(table)
    table = console.rich_table("calibration on held-out actions", ["should be", "is"])
    for name, value in found.calibration.items():
        table.add_row(name, f"{value:.1%}")
    console.say(table)
    console.say(f"written: {folder}")


def _check(dataset: str, discount: float, overwrite: bool) -> None:
    if not 0 < discount <= 1:
        raise SettingError("discount", f"{discount}", "Choose it in (0, 1]")
    folder = datasets.folder_of(dataset)
    if folder.exists() and not overwrite:
        raise OutputError(f"{folder}: exists already. Choose another name, or add --overwrite")
