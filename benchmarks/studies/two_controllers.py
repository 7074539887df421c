"""A log that is half of a good and half of a poor controller, against the better half alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.studies.certificate import (
    HALF,
    by_case,
    collect_log,
    forget_programs,
    setting,
    trained,
    truth,
)
from gamps import datasets
from gamps._utils import console, figures
from gamps.datasets.dataset import together
from gamps.paper.cells import fresh_folder
from gamps.policies import Policy
from gamps.runs.resolve import task_of

CASES = ("minigolf-50", "minigolf-200", "tanks30-50", "tanks30-200")
WAYS = ("better half", "poor first", "poor last")
POOR = {"minigolf": 1.5, "tanks30": 0.3}  # the poor controller's share of the good one's weights
CLOSE = 0.05  # of the distance from the better controller to the better half's policy


def two_controllers(
    *,
    logs: int = 10,
    cases: tuple[str, ...] = CASES,
    first: int = 0,
    out: Path = Path("runs/two_controllers"),
    workers: int = 2,
    quick: bool = False,
    overwrite: bool = False,
) -> None:
    """What a poor controller's episodes do to a training, beside the better half alone.

    gamps train's own functions learn three times: from the good controller's episodes alone; from
    these after as many of a poor one; and from these before as many of a poor one, so that
    training starts at the poor controller. The difference in true return is paired over logs.

    Example: python -m benchmarks.studies two-controllers --logs 2 --cases tanks30-50

    Args:
      logs: of each case.
      cases: minigolf or tanks30, and the episodes of each controller.
      first: seed of the first log.
      out: folder for two_controllers.json and .png; finished cells are kept in it.
      workers: processes.
      quick: two logs of 50 episodes of tanks30, eight iterations each.
      overwrite: replace an earlier result in the same folder.
    """
    iterations = 80
    if quick:
        logs, cases, iterations = 2, ("tanks30-50",), 8
    out = fresh_folder(out, "two_controllers", overwrite=overwrite)
    seeds = range(first, first + logs)
    found = by_case(cell, "two controllers", cases, seeds, iterations, out, workers)
    rows = {case: _row(each) for case, each in found.items()}
    table = console.rich_table(
        f"Return of what is learned, {logs} logs each",
        ["", "good controller", "poor", *WAYS, "poor first - better half", "poor last - ..."],
        caption="Policies as they act; ± standard errors of the paired difference over logs.",
    )
    for case, row in rows.items():
        table.add_row(
            case, f"{row['good']:.2f}", f"{row['poor']:.2f}",
            *(f"{np.mean(row['each'][way]):.2f}" for way in WAYS),
            *(f"{row['less'][way][0]:+.2f} ± {row['less'][way][1]:.2f}" for way in WAYS[1:]),
        )  # fmt: skip
    settings = dict(logs=logs, cases=cases, iterations=iterations, first=first, poor=POOR)
    console.save(
        out, "two_controllers", settings=settings, results=rows,
        paper={"claim": "none: the paper's log has one controller"},
        figure=_figure(rows), table=table,
    )  # fmt: skip


def poor_controller(problem: str, good: Any) -> Policy:
    """The same noise around a larger or a smaller action."""
    worse: Policy = replace(good, weights=POOR[problem] * good.weights)
    return worse


def cell(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns of the two controllers and of what the three trainings learn from one log."""
    problem, n, seed = (arguments[name] for name in ("problem", "episodes", "seed"))
    at = setting(problem)
    controllers = {"good": at.behaviour, "poor": poor_controller(problem, at.behaviour)}
    key = jax.random.fold_in(jax.random.key(23), 10_000 * n + seed)
    discount = float(task_of(at.task).discount)
    halves = {}
    for name, key_log in zip(controllers, jax.random.split(key), strict=True):
        log = collect_log(at.env, controllers[name], key_log, n, at.steps)
        halves[name] = datasets.Dataset(log, controllers[name], discount, None)
    data = {
        "better half": halves["good"],
        "poor first": together({name: halves[name] for name in ("poor", "good")}),
        "poor last": together(halves),
    }
    result = {
        name: float(truth(at, controller, at.steps).mean())
        for name, controller in controllers.items()
    }
    for way, log in data.items():
        _, policy, _ = trained(at, log, arguments, HALF)
        result[way] = float(truth(at, policy, at.steps).mean())
    forget_programs(seed)
    return result


def _row(each: list[dict[str, float]]) -> dict[str, Any]:
    """Means, and paired differences from the better half with their standard errors."""
    returns = {way: [one[way] for one in each] for way in WAYS}
    less = {}
    for way in WAYS[1:]:
        gap = np.subtract(returns[way], returns["better half"])
        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
        less[way] = (float(gap.mean()), float(error))
    good = float(np.mean([one["good"] for one in each]))
    allowed = CLOSE * (float(np.mean(returns["better half"])) - good)
    return {
        "good": good,
        "poor": float(np.mean([one["poor"] for one in each])),
        "each": returns,
        "less": less,
        "allowed": allowed,
    }


def _figure(rows: dict[str, Any]) -> Any:
    figure, axes = figures.panels(1, len(rows), width=2.6, height=2.2)
    for axis, (case, row) in zip(axes[0], rows.items(), strict=True):
        for i, way in enumerate(WAYS):
            axis.plot([i] * len(row["each"][way]), row["each"][way], ".", alpha=0.5)
        for name, style in (("good", "--"), ("poor", ":")):
            axis.axhline(row[name], color="grey", linestyle=style, linewidth=0.8)
        axis.set_xticks(range(len(WAYS)), [way.replace(" ", "\n") for way in WAYS], fontsize=7)
        axis.set_title(case, fontsize=9)
    axes[0, 0].set_ylabel("return of what is learned\n(dashed: good controller, dotted: poor)")
    return figure
