"""`gamps import` and `gamps fit-behaviour`: from a table to a log with densities."""

from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import tyro

from gamps import datasets
from gamps._utils import console
from gamps.errors import DatasetError, OutputError, SettingError
from gamps.policies import estimation
from gamps.runs.inspection import unflagged_ends
from gamps.trajectories import from_episodes

SHOWN = 10  # dropped episodes to name


def import_(
    table: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")],
    /,
    *,
    dataset: str,
    observations: tuple[str, ...],
    actions: tuple[str, ...],
    reward: str,
    episode: str = "",
    log_prob: str = "",
    propensity: str = "",
    next_observations: tuple[str, ...] = (),
    terminated: Annotated[str, tyro.conf.arg(aliases=["--done"])] = "",
    timeout: str = "",
    time: str = "",
    controller: str = "",
    group: str = "",
    discrete: bool = False,
    numbered: bool = False,
    discount: float = 0.99,
    drop_bad_episodes: bool = False,
    overwrite: bool = False,
) -> None:
    """Turn a table of steps into a dataset: CSV, or Parquet with pip install "gamps[tables]".

    Each row is one step, in time order, with the rows of an episode together. Actions must be as
    the controller drew them, before any limit. The last row of an episode may hold only
    observations, with action and reward left empty: it says where the episode ended. Without such
    a row and without --next-observations the last step is kept, but where it led is unknown.

    Example: gamps import log.csv --episode run --observations h1 h2 --actions pump --reward reward
    --log-prob logp --dataset tanks/day-v0

    Example: gamps import ward.csv --episode stay --observations pulse fever --actions drug
    --discrete --propensity p --reward score --done home --dataset ward/may-v0

    Args:
      table: the file, .csv or .parquet.
      dataset: name of the new dataset, like tanks/day-v0.
      observations: columns of the observation, one per dimension.
      actions: columns of the action, one per dimension.
      reward: column of the reward.
      episode: column with the episode's number or name; without it, an episode ends where
        --terminated or --timeout is set.
      log_prob: column with the log-density of the action under the logging policy. If it was not
        logged, leave this out and run gamps fit-behaviour next.
      propensity: column with the probability of the choice, in place of --log-prob.
      next_observations: columns of the next observation, in the order of --observations.
      terminated: column that is nonzero where the environment ended the episode.
      timeout: column that is nonzero where the episode was cut off, whatever --terminated says.
      time: column of numbers, dates or times that must increase in an episode. If they go on from
        episode to episode, they say which controller is the newest.
      controller: column with the name of the controller that chose the episode's actions; the one
        that made the last episode, by time or else of the table, is the newest.
      group: column that names which episodes belong together: a patient, a machine, a day.
      discrete: actions are choices, numbered from 0, in one column.
      numbered: observations are states, numbered from 0, in one column.
      discount: discount factor, stored with the log.
      drop_bad_episodes: leave out unusable episodes, say which, and continue.
      overwrite: replace a dataset of the same name.
    """
    _check(dataset, discount, overwrite)
    columns = datasets.Columns(
        episode, observations, actions, reward, log_prob or None, next_observations,
        terminated or None, time or None, discrete, propensity or None, timeout or None,
        controller or None, group or None, numbered,
    )  # fmt: skip
    account = datasets.Account()
    read = list(
        datasets.stream_labelled(table, columns, account=account, drop_bad=drop_bad_episodes)
    )
    if not read:
        first = account.dropped[0]
        raise DatasetError(f"episode {first.name}", "none is usable", f"The first: {first.why}")
    episodes = [one.episode for one in read]
    if not numbered:
        datasets.check_precision(observations, episodes)
        _say_order(datasets.out_of_order(episodes))
    known = bool(log_prob or propensity)
    if not known:
        episodes = [e._replace(behaviour_log_prob=np.zeros(len(e.rewards))) for e in episodes]
    log = from_episodes(episodes)
    labels = datasets.Labels(
        observations,
        actions,
        tuple(one.controller for one in read) if controller else (),
        tuple(one.group for one in read) if group else (),
        datasets.newest_of(read),
    )
    folder = datasets.save(
        dataset, log, None, discount=discount, densities="known" if known else "missing",
        labels=labels, overwrite=overwrite,
    )  # fmt: skip
    say = console.say
    say(f"{log.n_trajectories} episodes, {account.steps} steps")
    _say_account(account)
    if unflagged := unflagged_ends(log):
        say(f"{unflagged}. If that is wrong, name --done or --timeout", "yellow")
    if controller:
        say(f"the newest controller, which made the last episode: {labels.newest}")
    say(f"written: {folder}")
    if known:
        say(f"next: gamps inspect {dataset}, with --task module:object if you know the reward")
    else:
        say(f"next: gamps fit-behaviour {dataset} --dataset NAME")


def _say_account(account: datasets.Account) -> None:
    """Say what became of every row: rows in = steps out + reasons."""
    dropped = sum(one.rows for one in account.dropped)
    parts = [
        f"{account.steps} steps",
        *([f"{account.closing} that only say where an episode ended"] if account.closing else []),
        *([f"{dropped} in {len(account.dropped)} dropped episodes"] if dropped else []),
    ]
    console.say(f"{account.rows} rows: {', '.join(parts)}")
    if account.unknown_ends:
        console.say(
            f"{account.unknown_ends} episodes do not say where their last step led", "yellow"
        )
    for one in account.dropped[:SHOWN]:
        console.say(f"dropped {one.name}: {one.why}", "yellow")
    if len(account.dropped) > SHOWN:
        console.say(f"… and {len(account.dropped) - SHOWN} more", "yellow")


def _say_order(shuffled: list[int]) -> None:
    if shuffled:
        say = f"{len(shuffled)} episodes look out of order, the first is number {shuffled[0]}"
        console.say(f"{say}: sort the table by time, or name the time column with --time", "yellow")


def fit_behaviour(
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")],
    /,
    *,
    dataset: str,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Estimate the logging policy of a log without densities, and save the log with estimates.

    Kinds of policies are compared by the likelihood of held-out actions; the best is fitted to the
    whole log. The calibration says how often held-out actions fall where the fit says they should.
    Every command that uses the new dataset says that its densities are estimated: logging them is
    better. The fit has seen every episode, including those that training holds out later.

    Example: gamps fit-behaviour tanks/raw-v0 --dataset tanks/day-v0

    Args:
      log: name or folder of a dataset.
      dataset: name of the new dataset.
      seed: seed of the split into parts that are held out in turn.
      overwrite: replace a dataset of the same name.
    """
    _check(dataset, 1.0, overwrite)
    episodes, discount, densities, kept = datasets.load_episodes(log)
    if densities == "known":
        raise SettingError("log", f"{log} already has densities", "Use it without fitting")
    labels = kept["labels"]
    if labels.controllers:
        console.say("one policy is fitted to all controllers, which are not told apart", "yellow")
        kept["labels"] = labels._replace(controllers=(), newest="")
    with console.terminal.status("fitting …"):
        found = estimation.estimate(jax.random.key(seed), episodes)
    folder = datasets.save(
        dataset, found.trajectories, found.policy,
        discount=discount, densities="estimated", overwrite=overwrite, **kept,
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
