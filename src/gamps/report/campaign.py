"""Report of a campaign: what each round earned, who took charge and why, models' promises."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gamps._utils.figures import panels
from gamps.errors import RunError
from gamps.evaluation import DEPLOY
from gamps.evaluation.verdict import RARE
from gamps.report.page import Banner, Picture, Section, Table
from gamps.report.pictures import CERTIFIED, GREY, NEW, OLD
from gamps.runs.campaign import CAMPAIGN, CampaignSpec
from gamps.runs.rounds import Round, history_of
from gamps.runs.trials import Tried, rounds_in


def is_campaign(folder: Path) -> bool:
    """Whether a folder holds a campaign, not a single run."""
    return (folder / CAMPAIGN).exists()


def campaign_sections(folder: Path) -> list[Section]:
    """Return the sections about the finished rounds."""
    spec = CampaignSpec(**json.loads((folder / CAMPAIGN).read_text(encoding="utf-8")))
    if spec.mode == "trials":
        return _of_trials(spec, rounds_in(folder))
    last = [folder / f"round-{k}" for k in range(1, spec.rounds + 1)]
    past = max((history_of(run) for run in last), key=len)
    if not past:
        raise RunError(f"{folder}: no round is finished yet. Run gamps campaign again")
    return _of_certified(spec, past)


def _of_trials(spec: CampaignSpec, rounds: Sequence[Tried]) -> list[Section]:
    replaced = sum(one.took_over for one in rounds)
    first, now = _mean(rounds[0].of_incumbent), _mean(_in_charge_last(rounds[-1]))
    cost = sum(one.cost for one in rounds)
    tried = sum(len(one.earned) for one in rounds)
    text = (
        f"The controller was replaced {replaced} times in {len(rounds)} rounds of {spec.episodes} "
        f"episodes. The chance that a policy that is no better ever replaced it is at most "
        f"{spec.error:g}{unseen_failures(rounds)}. {tried} trials earned {cost:.4g} less in total "
        f"than the policy in charge would have."
    )
    look = "deploy" if replaced else "unsure"
    table = Table(
        ["round", "in charge", "candidates", "best", "challenger", "verdict", "error", "cost"],
        [
            [
                f"{k}", _spread(one.of_incumbent), f"{_mean(one.earned):.4g}",
                f"{max(one.earned):.4g}", _spread(one.of_challenger), _word(one),
                f"{one.error:.2g}", f"{one.cost:.4g}",
            ]
            for k, one in enumerate(rounds, 1)
        ],
    )  # fmt: skip
    sections = [
        Section("Result", [Banner(look, f"{first:.4g} → {now:.4g}", text)]),
        Section(
            "Round by round",
            [
                Picture("rounds", _trials_picture(rounds), "Returns of single episodes, by round: "
                        "candidates (grey), the policy in charge (blue), its challenger (red; "
                        "green where it took over), with their means."),
                table,
            ],
        ),
    ]  # fmt: skip
    if any(one.promised for one in rounds):
        caption = (
            "Each dot is a candidate: what the models promised, and what its one episode earned. "
            "On the line, a promise was kept. The models are searched for candidates, so promises "
            "are too high until the models know where the search leads."
        )
        picture = Picture("promises", _promises_picture(rounds), caption)
        sections.append(Section("What the models promised", [picture, _off(rounds)]))
    return sections


def unseen_failures(rounds: Sequence[Tried]) -> str:
    """Say what the episodes of the challengers cannot exclude; nothing if there were none."""
    episodes = [len(one.of_challenger) for one in rounds if one.of_challenger]
    if not episodes:
        return ""
    rare = max(min(episodes) / RARE, 1)
    return (
        f", unless it fails rarely and badly: {min(episodes)} episodes of a challenger can miss a "
        f"failure in one of {rare:.0f}"
    )


def _of_certified(spec: CampaignSpec, past: Sequence[Round]) -> list[Section]:
    deployed = sum(one.word == DEPLOY for one in past)
    first, now = past[0].earned, past[-1].earned
    text = (
        f"{deployed} policies were deployed in {len(past)} rounds of {spec.episodes} episodes. The "
        f"chance that any of them was worse than the one before is at most {spec.error:g}. What "
        f"the last round deployed has not logged anything yet."
    )
    figure, axes = panels(1, 1, width=6.4, height=3.0)
    axis = axes[0, 0]
    numbers = np.arange(1, len(past) + 1)
    errors = [2 * one.earned_error for one in past]
    axis.errorbar(numbers, [one.earned for one in past], errors, fmt="o-", color=OLD, capsize=3)
    for k, one in enumerate(past, 1):
        if one.word == DEPLOY:
            axis.plot([k, k + 1], [one.earned, one.earned + one.low], ":", color=CERTIFIED)
            axis.plot(k + 1, one.earned + one.low, "_", color=CERTIFIED, markersize=14)
    axis.set_xlabel("round")
    axis.set_ylabel("discounted return")
    caption = (
        "Blue: what the policy in charge earned in its own episodes of each round, ± two standard "
        "errors. Green: the least that the certificate of the round before said it would earn."
    )
    rows = [
        [
            f"{k}", f"{one.earned:.4g} ± {one.earned_error:.2g}", one.word,
            *("" if x is None else f"{x:.4g}" for x in (one.estimate, one.low, one.promise)),
            f"{one.error:.2g}",
        ]
        for k, one in enumerate(past, 1)
    ]  # fmt: skip
    header = [
        "round",
        "in charge",
        "verdict",
        "improvement",
        "at least",
        "models promised",
        "error",
    ]
    return [
        Section(
            "Result", [Banner("deploy" if deployed else "unsure", f"{first:.4g} → {now:.4g}", text)]
        ),
        Section("Round by round", [Picture("rounds", figure, caption), Table(header, rows)]),
    ]


def _trials_picture(rounds: Sequence[Tried]) -> Any:
    figure, axes = panels(1, 1, width=7.4, height=3.6)
    axis = axes[0, 0]
    rng = np.random.default_rng(0)
    for k, one in enumerate(rounds, 1):
        won = CERTIFIED if one.took_over else NEW
        parts = ((one.earned, GREY, -0.25), (one.of_incumbent, OLD, 0.0))
        for values, colour, at in (*parts, (one.of_challenger, won, 0.25)):
            if not values:
                continue
            places = k + at + rng.uniform(-0.06, 0.06, len(values))
            axis.plot(places, values, ".", color=colour, alpha=0.45, markersize=4)
            axis.plot(
                [k + at - 0.1, k + at + 0.1], [_mean(values)] * 2, color=colour, linewidth=2.5
            )
    axis.set_xticks(range(1, len(rounds) + 1))
    axis.set_xlabel("round")
    axis.set_ylabel("return of an episode")
    return figure


def _promises_picture(rounds: Sequence[Tried]) -> Any:
    shown = [(k, one) for k, one in enumerate(rounds, 1) if one.promised]
    columns = min(len(shown), 4)
    figure, axes = panels(-(-len(shown) // columns), columns, width=2.2, height=2.2)
    for axis in axes.ravel()[len(shown) :]:
        axis.set_axis_off()
    for axis, (k, one) in zip(axes.ravel(), shown, strict=False):
        axis.plot(one.promised, one.earned, ".", color=GREY, markersize=4)
        low, high = min(one.earned), max(one.earned)
        axis.plot([low, high], [low, high], color="black", linewidth=0.8)
        axis.set_title(f"round {k}", fontsize=9)
    axes[-1, 0].set_xlabel("promised")
    axes[-1, 0].set_ylabel("earned")
    return figure


def _off(rounds: Sequence[Tried]) -> Table:
    rows = []
    for k, one in enumerate(rounds, 1):
        if one.promised:
            known = np.isfinite(one.promised)
            promised, earned = np.asarray(one.promised)[known], np.asarray(one.earned)[known]
            orders = np.stack([np.argsort(np.argsort(x)) for x in (promised, earned)])
            ranks = np.atleast_2d(np.corrcoef(orders))[0, 1] if known.sum() > 2 else np.nan
            rows.append([f"{k}", f"{promised.mean():.4g}", f"{earned.mean():.4g}", f"{ranks:.2f}"])
    return Table(["round", "promised, mean", "earned, mean", "rank correlation"], rows)


def _in_charge_last(one: Tried) -> list[float]:
    return one.of_challenger if one.took_over else one.of_incumbent


def _word(one: Tried) -> str:
    if one.challenger is None:
        return "no challenger yet"
    return "takes over" if one.took_over else "not shown to be better"


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _spread(values: Sequence[float]) -> str:
    if len(values) < 2:
        return ""
    return f"{_mean(values):.4g} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2g}"
