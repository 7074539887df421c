"""`gamps compare`: compare several runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from gamps import evaluation
from gamps._utils import console, figures
from gamps.cli.evaluate import say_if_gone
from gamps.cli.strangers import say_imports
from gamps.errors import SettingError
from gamps.evaluation.support import POOR
from gamps.evaluation.verdict import ROBUST
from gamps.runs.certificate import CERTIFICATE
from gamps.runs.evaluate_run import RunEvaluation, evaluate_run
from gamps.runs.open_run import OpenRun

LEAST = 3  # fewest runs, or groups of episodes, for an interval


def compare(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN …]")],
    /,
    *,
    out: Path = Path("runs/compare"),
    confidence: float = 0.95,
    overwrite: bool = False,
) -> None:
    """Compare several runs: which settings differ, and what the difference is worth.

    Every run is judged on the episodes that it has not seen, as gamps evaluate does. Two runs with
    the same log, held-out share and seed are judged on the same episodes, and compared on them in
    pairs. Runs that differ only in log and seed form a group. A group of three or more shows its
    interquartile mean, with a bootstrap that resamples runs within each log. The bootstrap says
    how much seeds matter on these logs, not how much another log would.

    Example: gamps compare runs/tanks runs/tanks-pgt

    Args:
      runs: run folders that gamps train wrote.
      out: folder for compare.json and compare.png.
      confidence: confidence of each bound.
      overwrite: replace an earlier comparison in the same folder.
    """
    if len(set(runs)) < 2:
        raise SettingError("runs", f"{len(set(runs))}", "Name at least two different runs")
    out = console.folder(out, "compare", overwrite=overwrite)
    for run in runs:
        say_imports(run)
    evaluated: dict[str, RunEvaluation] = {}
    with console.bar("compare", len(runs)) as advance:
        for run in runs:
            had = (run / CERTIFICATE).exists()
            evaluated[str(run)] = evaluate_run(run, confidence=confidence, details=True)
            advance(str(run))
            say_if_gone(run, had)
    differ = _differing([j.run for j in evaluated.values()])
    pairs = {}
    for a, b in combinations(evaluated, 2):
        if _same_episodes(evaluated[a].run, evaluated[b].run):
            gain = evaluation.difference(_terms(evaluated[b]), _terms(evaluated[a]))
            gain = evaluation.terms_by_group(gain, evaluated[a].run.groups)
            if len(gain.numerators) >= LEAST:
                pairs[a, b] = evaluation.student(gain, confidence=confidence)
    groups = _groups(evaluated, differ, confidence)
    bounds = f"{confidence:.0%} bounds"
    table = console.rich_table(
        f"{len(evaluated)} runs, {ROBUST} estimates on their held-out episodes",
        ["run", *differ, "verdict", "improvement", bounds, "support"],
    )
    for name, one in evaluated.items():
        verdict, spec = one.evaluation.verdict, asdict(one.run.spec)
        found, rests = verdict.improvement, verdict.support
        table.add_row(
            name, *(str(spec[field]) for field in differ), verdict.word,
            f"{found.estimate:.4g}", f"{found.low:.4g} to {found.high:.4g}",
            f"{rests.ess:.1f}, {rests.grade}",
        )  # fmt: skip
    results = {
        "runs": {
            name: {
                "word": one.evaluation.verdict.word,
                "improvement": one.evaluation.verdict.improvement._asdict(),
                "ess": one.evaluation.verdict.support.ess,
            }
            for name, one in evaluated.items()
        },
        "pairs": {f"{b} over {a}": found._asdict() for (a, b), found in pairs.items()},
        "groups": {n: found._asdict() for n, found in groups.items()},
    }  # fmt: skip
    settings = {"confidence": confidence}
    figure = _figure(evaluated, pairs, groups)
    console.save(
        out, "compare", settings=settings, results=results, paper={}, figure=figure, table=table
    )
    for (a, b), found in pairs.items():
        console.say(
            f"{b} over {a}, on the same episodes: {found.estimate:.4g} ({found.low:.4g} to "
            f"{found.high:.4g})"
        )
    for name, found in groups.items():
        console.say(
            f"interquartile mean over seeds, {name}: {found.estimate:.4g} ({found.low:.4g} to "
            f"{found.high:.4g})"
        )
    if any(one.evaluation.verdict.support.grade == POOR for one in evaluated.values()):
        console.say("where support is poor, no number here can be relied on", "yellow")


def _terms(run: RunEvaluation) -> evaluation.Terms:
    return run.evaluation.cases[ROBUST].value


def _differing(runs: Sequence[OpenRun]) -> list[str]:
    """Return the names of the settings that differ between runs."""
    specs = [asdict(run.spec) for run in runs]
    return [name for name in specs[0] if len({str(spec[name]) for spec in specs}) > 1]


def _same_episodes(one: OpenRun, other: OpenRun) -> bool:
    a, b = one.spec, other.spec
    return (a.log, a.held_out, a.seed, a.task) == (b.log, b.held_out, b.seed, b.task)


def _groups(
    judged: Mapping[str, RunEvaluation], differ: Sequence[str], confidence: float
) -> dict[str, evaluation.Interval]:
    """Interquartile mean of the improvement, per group of runs that differ in log and seed only."""
    kinds = [name for name in differ if name not in ("log", "seed")]
    values: dict[str, dict[str, list[float]]] = {}
    for run in judged.values():
        spec = asdict(run.run.spec)
        name = ", ".join(f"{k} {spec[k]}" for k in kinds) or "all runs"
        stratum = values.setdefault(name, {}).setdefault(run.run.spec.log, [])
        stratum.append(run.evaluation.verdict.improvement.estimate)
    return {
        name: evaluation.stratified(strata, confidence=confidence)
        for name, strata in values.items()
        if sum(map(len, strata.values())) >= LEAST
    }


def _figure(
    judged: Mapping[str, RunEvaluation], pairs: Mapping[Any, Any], groups: Mapping[str, Any]
) -> Any:
    short = {name: f"{i + 1}: {Path(name).name[:20]}" for i, name in enumerate(judged)}
    rows = [
        (short[name], run.evaluation.verdict.improvement, "#c1121f") for name, run in judged.items()
    ]
    rows += [(f"{short[b].partition(':')[0]} over {short[a].partition(':')[0]}", found, "#1d6fa5")
             for (a, b), found in pairs.items()]  # fmt: skip
    rows += [(f"IQM, {name[:26]}", found, "#2a9d5c") for name, found in groups.items()]
    figure, axes = figures.panels(1, 1, width=7.5, height=0.35 * len(rows) + 1.1)
    axis = axes[0, 0]
    for row, (_, gain, colour) in enumerate(rows):
        axis.plot([gain.low, gain.high], [row, row], color=colour, linewidth=2.5)
        axis.plot(gain.estimate, row, "o", color=colour)
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.set_yticks(np.arange(len(rows)), [name for name, _, _ in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("improvement over the logging policy, or over the other run")
    return figure
