"""`gamps inspect`: check whether a log is fit to learn from."""

import json
import sys
from typing import Annotated

import tyro
from rich.text import Text

from gamps import datasets
from gamps._utils import console
from gamps.runs import findings, inspection
from gamps.runs.resolve import features_of, policy_named, policy_of, task_for, task_of
from gamps.runs.spec import POLICIES, check_choice

COLOURS = {"fatal": "bold red", "warning": "yellow", "note": "dim"}


def inspect(
    log: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")],
    /,
    *,
    task: str = "",
    policy: str = "behaviour",
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Check a log for what would make training fail, or make its result mean less.

    Each row of the table is fatal (exit status 1), a warning or a note, with a fix where one is
    needed. The task's reward and termination are compared with the logged ones, step by step;
    without a task, the table says how well they can be estimated from the log.

    Example: gamps inspect tanks/day-v0 --task gamps.envs.tanks:task

    Args:
      log: name or folder of a dataset.
      task: module:object, a gamps.Task or a function that makes one.
      policy: the policy to train: behaviour, affine, network or module:object.
      json_: print the rows as JSON.
    """
    check_choice("policy", policy, POLICIES)
    known = task_of(task) if task else None
    if ":" in policy:
        policy_named(policy)  # refuse anything else before the log is read
    data = datasets.load(log)
    start, outcomes = policy_of(policy, data, 0), None
    if known is None and data.discount is not None:
        _, outcomes = task_for("", data, features_of("", data.trajectories), 0)
    found = inspection.inspect(
        data.trajectories, known, start,
        densities=data.densities, discount=data.discount, outcomes=outcomes,
        labels=data.labels,
    )  # fmt: skip
    if json_:
        print(json.dumps([problem._asdict() for problem in found], indent=1))
    else:
        table = console.rich_table(f"{log}", ["grade", "what", "found", "fix"])
        for column in table.columns:
            column.justify = "left"
        for f in found:
            table.add_row(Text(f.grade, COLOURS[f.grade]), f.what, f.found, f.fix)
        console.say(table)
    if any(problem.grade == findings.FATAL for problem in found):
        sys.exit(1)
