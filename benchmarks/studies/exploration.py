"""The search for each recipe's best setting on Swimmer, under a protocol fixed beforehand.

Twenty-two settings a recipe on the logs of seeds 1000-1003: twelve written down before the first
run, seven after these were seen, three after those. The three best of each recipe run on seeds
1004-1011 as well, and the one with the highest mean final return over all twelve logs is what
`gamps reproduce swimmer` reports, on seeds 0-19, which nothing was chosen on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gamps._utils import console, figures, summaries
from gamps._utils.worker_pool import cores
from gamps.errors import SettingError
from gamps.paper.best_settings import work
from gamps.paper.cells import fresh_folder, run_cells
from gamps.paper.swimmer_setup import Treatment

FIRST, SECOND = 1000, tuple(range(1004, 1012))
FINALISTS = 3


def _model_based(**own: Any) -> Treatment:
    shared: dict[str, Any] = dict(baseline="state_value", window=10, model_rate=1e-3, rollouts=4)
    return Treatment(**(shared | own))


def _further(**own: Any) -> Treatment:
    return _model_based(**({"clip": 5.0, "members": 3, "rollouts": 6, "model_rate": 3e-3} | own))


SHARED = (
    _model_based(),
    _model_based(window=5),
    _model_based(window=20),
    _model_based(clip=5.0),
    _model_based(clip=5.0, clipped=True),
    _model_based(clip=5.0, horizon=50),
    _model_based(clip=5.0, tail=True),
    _model_based(clip=5.0, members=3, rollouts=6),
    _model_based(clip=5.0, least_ess=20.0),
    _model_based(clip=5.0, learning_rate=0.016),
)
TRIALS: dict[str, tuple[Treatment, ...]] = {
    "gamps": (
        *SHARED,
        _model_based(clip=5.0, weight_window=3),
        _model_based(clip=5.0, reward_weighted=True),
        # Second round, written down after the first: what fits a better model, and larger steps.
        _model_based(clip=5.0, model_rate=3e-3),
        _further(learning_rate=0.016),
        _further(learning_rate=0.016, uniform=0.5),
        _further(learning_rate=0.016, uniform=0.5, weight_window=3),
        _further(learning_rate=0.024, uniform=0.5, weight_window=3),
        _further(learning_rate=0.016, uniform=0.5, weight_window=3, horizon=50),
        _further(learning_rate=0.016, uniform=0.5, window=0),
        # Third round.
        _further(learning_rate=0.016, uniform=0.5, window=0, clip=2.0),
        _further(learning_rate=0.016, uniform=0.2, window=0),
        _further(learning_rate=0.016, uniform=0.5, window=0, members=5, rollouts=10),
    ),
    "ml": (
        *SHARED,
        _model_based(clip=5.0, model_rate=3e-3),
        _model_based(clip=5.0, window=3),
        _further(),
        _further(learning_rate=0.016),
        _model_based(clip=5.0, model_rate=3e-3, learning_rate=0.016),
        _further(learning_rate=0.016, window=5),
        _further(learning_rate=0.024),
        _further(learning_rate=0.016, horizon=50),
        _further(learning_rate=0.016, window=0),
        _further(learning_rate=0.016, window=0, clip=2.0),
        _further(learning_rate=0.016, window=0, clip=10.0),
        _further(learning_rate=0.016, window=0, members=5, rollouts=10),
    ),
    "pgt": (
        Treatment(baseline="regression", horizon=25, clip=5.0),
        Treatment(baseline="regression", horizon=25, clip=2.0),
        Treatment(baseline="regression", horizon=25, window=10),
        Treatment(baseline="regression", horizon=25, window=10, clip=5.0),
        Treatment(baseline="regression", horizon=25, window=20, clip=5.0),
        Treatment(baseline="regression", horizon=25, window=5),
        Treatment(baseline="regression", horizon=50, clip=5.0),
        Treatment(baseline="regression", horizon=50, window=10, clip=5.0),
        Treatment(baseline="per_time", horizon=25, clip=5.0),
        Treatment(baseline="minimum_variance", horizon=25, clip=5.0),
        Treatment(baseline="regression", horizon=25, window=10, clip=5.0, least_ess=20.0),
        Treatment(baseline="regression", horizon=25, clip=5.0, learning_rate=0.016),
        Treatment(baseline="regression", horizon=50, clip=5.0, learning_rate=0.016),
        Treatment(baseline="regression", horizon=50, clip=2.0, learning_rate=0.016),
        Treatment(baseline="regression", horizon=25, clip=2.0, learning_rate=0.016),
        Treatment(baseline="regression", horizon=50, window=20, clip=5.0, learning_rate=0.016),
        Treatment(baseline="regression", horizon=50, clip=2.0, learning_rate=0.024),
        Treatment(baseline="regression", horizon=100, clip=5.0),
        Treatment(baseline="regression", horizon=50, clip=5.0, learning_rate=0.024),
        Treatment(baseline="regression", horizon=50, clip=10.0, learning_rate=0.016),
        Treatment(baseline="regression", horizon=50, clip=2.0, learning_rate=0.012),
        Treatment(baseline="per_time", horizon=50, clip=5.0, learning_rate=0.016),
    ),
    "reinforce": (
        Treatment(),
        Treatment(baseline="per_time"),
        Treatment(baseline="minimum_variance"),
        Treatment(baseline="minimum_variance", clip=5.0),
        Treatment(baseline="per_time", clip=5.0),
        Treatment(baseline="per_time", clip=2.0),
        Treatment(baseline="per_time", window=50),
        Treatment(baseline="per_time", window=50, clip=5.0),
        Treatment(baseline="per_time", window=10, clip=5.0),
        Treatment(baseline="regression", clip=5.0),
        Treatment(baseline="per_time", clip=5.0, least_ess=5.0),
        Treatment(baseline="per_time", clip=5.0, learning_rate=0.016),
        Treatment(baseline="regression", clip=2.0),
        Treatment(baseline="regression", clip=2.0, learning_rate=0.016),
        Treatment(baseline="minimum_variance", clip=2.0),
        Treatment(baseline="regression", window=20, clip=5.0),
        Treatment(baseline="per_time", clip=1.0),
        Treatment(baseline="regression", clip=1.0),
        Treatment(baseline="per_time", clip=2.0, learning_rate=0.016),
        Treatment(baseline="regression", window=50, clip=2.0),
        Treatment(baseline="regression", clip=5.0, learning_rate=0.004),
        Treatment(baseline="per_time", clip=2.0, learning_rate=0.004),
    ),
}


# What the protocol chose; `benchmarks.studies exploration` says so again.
CHOSEN = {"gamps": 19, "ml": 18, "pgt": 16, "reinforce": 13}


def exploration(
    *,
    seeds: int = 4,
    out: Path = Path("runs/exploration"),
    quick: bool = False,
    workers: int = cores(),
    overwrite: bool = False,
) -> None:
    """Swimmer: the settings that were tried for each recipe, on logs that nothing is reported on.

    As many settings for each of the four recipes, all on seeds 1000, 1001, …; the three best of
    each on eight seeds more. Takes about an hour on two cores; started again, it goes on where it
    was stopped.

    Example: python -m benchmarks.studies exploration --quick

    Args:
      seeds: logs of the first round.
      out: folder for exploration.json, exploration.png and the cells.
      quick: one seed, 2 iterations, 20 episodes, the first setting of each recipe.
      workers: processes, each on a core of its own.
      overwrite: replace an earlier result in the same folder, cells and all.
    """
    if FIRST + seeds > SECOND[0]:
        raise SettingError("seeds", f"{seeds}", f"The second round starts at seed {SECOND[0]}")
    out = fresh_folder(out, "exploration", overwrite=overwrite)
    small = dict(iterations=2, episodes=20) if quick else {}
    first = tuple(range(FIRST, FIRST + (1 if quick else seeds)))
    second = () if quick else SECOND

    def run_on(trials: dict[str, list[int]], seeds: tuple[int, ...]) -> None:
        cells = {
            _name(recipe, trial, seed): small
            | dict(recipe=recipe, seed=seed, treatment=TRIALS[recipe][trial].changes())
            for recipe, chosen in trials.items()
            for trial in chosen
            for seed in seeds
        }
        with console.bar("exploration", len(cells)) as advance:
            found.update(run_cells(work, cells, out / "cells", workers=workers, advance=advance))

    def final(recipe: str, trial: int, seeds: tuple[int, ...]) -> list[float]:
        return [found[_name(recipe, trial, seed)]["final"] for seed in seeds]

    found: dict[str, Any] = {}
    trials = {r: list(range(1 if quick else len(all_))) for r, all_ in TRIALS.items()}
    run_on(trials, first)
    finalists = {}
    for recipe, all_ in trials.items():
        order = np.argsort([-np.mean(final(recipe, trial, first)) for trial in all_])
        finalists[recipe] = [int(trial) for trial in order[:FINALISTS]]
    run_on(finalists, second)
    results: dict[str, Any] = {}
    for recipe, all_ in trials.items():
        rows = []
        for trial in all_:
            seen = first + second if trial in finalists[recipe] else first
            rows.append(
                {"changes": TRIALS[recipe][trial].changes()}
                | {"final": summaries.summary(final(recipe, trial, seen))}
            )
        best = max(finalists[recipe], key=lambda t: rows[t]["final"]["mean"])
        results[recipe] = {"trials": rows, "finalists": finalists[recipe], "chosen": best}
    console.save(
        out,
        "exploration",
        settings=dict(first=first, second=second, **small),
        results=results,
        paper={},
        figure=_figure(results),
        table=_table(results),
    )


def _name(recipe: str, trial: int, seed: int) -> str:
    return f"{recipe}-{trial:02d}-{seed}"


def words(changes: dict[str, Any]) -> str:
    """A treatment in a line."""
    said = [
        name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {value}"
        for name, value in changes.items()
    ]
    return ", ".join(said).replace("_", " ") or "as the paper"


def _table(results: dict[str, Any]) -> Any:
    table = console.rich_table(
        "Swimmer: settings tried (final undiscounted return, mean ± std)",
        ["recipe", "trial", "setting", "final", "runs", ""],
        caption="chosen: highest mean among the three best of the first round, after more runs.",
    )
    for recipe, of_recipe in results.items():
        for i, row in enumerate(of_recipe["trials"]):
            mark = "chosen" if i == of_recipe["chosen"] else ""
            final = row["final"]
            table.add_row(
                figures.LABELS[recipe],
                str(i),
                words(row["changes"]),
                summaries.spread(final, 1),
                str(final["n"]),
                mark,
            )
        table.add_section()
    return table


def _figure(results: dict[str, Any]) -> Any:
    figure, axes = figures.panels(1, len(results), width=3.0, height=3.4)
    for axis, (recipe, of_recipe) in zip(axes[0], results.items(), strict=True):
        finals = [row["final"] for row in of_recipe["trials"]]
        colours = [
            figures.COLOURS[recipe] if i == of_recipe["chosen"] else "#b0b0b0"
            for i in range(len(finals))
        ]
        axis.bar(
            range(len(finals)),
            [f["mean"] for f in finals],
            yerr=[f["std"] for f in finals],
            color=colours,
            error_kw={"linewidth": 0.6},
        )
        axis.set_title(figures.LABELS[recipe], fontsize=9)
        axis.set_xlabel("trial")
        axis.set_ylim(-10, 35)
    axes[0, 0].set_ylabel("final return")
    figure.suptitle("Swimmer: settings tried, mean ± std; coloured: chosen", fontsize=10)
    return figure
