"""What the report of a run says, section by section: the verdict first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gamps.evaluation import UNSPREAD
from gamps.evaluation.verdict import BY_STATES, DEPLOY, NOT_SHOWN, ROBUST, WORSE
from gamps.policies import Boltzmann, Policy
from gamps.report import diagnostics, pictures
from gamps.report.page import Banner, Picture, Section, Table
from gamps.runs import folder, inspection
from gamps.runs.build import weight_ratio
from gamps.runs.evaluate_run import RunEvaluation, rows_of, rungs_of, sampled
from gamps.runs.open_run import OpenRun
from gamps.search.importance import Clip, Window

LOOKS = {DEPLOY: "deploy", NOT_SHOWN: "unsure", WORSE: "worse"}


def sections(run: Path, evaluation: RunEvaluation) -> list[Section]:
    """What is in a run folder and what is said of it, the verdict first."""
    opened, key = evaluation.run, jax.random.key(evaluation.run.spec.seed)
    rung = evaluation.rungs[evaluation.evaluation.chosen]
    return [
        _verdict(evaluation),
        _learning(run),
        _support(run, opened),
        _model(key, opened),
        _difference(opened, rung.policy),
        _health(opened),
        _estimates(evaluation),
        _settings(run),
    ]


def _verdict(found: RunEvaluation) -> Section:
    verdict, n = found.evaluation.verdict, found.run.held_out.n_trajectories
    why = f"{verdict.why[:1].upper()}{verdict.why[1:]}. {verdict.advice}."
    notes = [
        "Policies on the way from the logging policy to the learned one, each with the noise it "
        f"acts with, on {n} episodes of {found.by} that training never saw; the rungs were chosen "
        "before these were looked at, and their bounds hold together."
    ]
    if found.number > 1:
        notes.append(f"This is judgement {found.number} by these episodes, with less error each.")
    if verdict.unseen_loss is not None:
        notes.append(
            f"What no {n} episodes can exclude: that 3 of as many lose {verdict.unseen_loss:.4g} "
            "each, which would outweigh the improvement."
        )
    if found.densities == "estimated":
        notes.append(
            "The densities of the log are estimated: every ratio is as good as that fit, and its "
            "error is in no bound."
        )
    header = ["rung", "way", "noise", "effective episodes", "improvement", "at least", ""]
    caption = (
        "The ladder: estimated improvement and its lower bound at each rung, above; effective "
        "episodes below. Hollow rungs show nothing, because too little of the log speaks of them."
    )
    return Section(
        "May it be deployed?",
        [
            Banner(LOOKS[verdict.word], verdict.word, why),
            *notes,
            Picture("ladder", pictures.ladder(found.rungs, found.evaluation), caption),
            Table(header, rungs_of(found)),
        ],
    )


def _estimates(found: RunEvaluation) -> Section:
    """Beside the one that the verdict rests on."""
    estimates, chosen = found.evaluation.estimates, found.evaluation.chosen + 1
    rests_on = BY_STATES if BY_STATES in estimates else ROBUST
    bounds = f"{estimates[ROBUST].value.confidence:.1%} bounds"
    caption = (
        f"Improvement of rung {chosen} by every estimate, with one-sided {bounds} of this rung "
        f"alone. The verdict rests on {rests_on}; the bounds of {' and '.join(UNSPREAD)} leave "
        f"their own error out.{sampled(found)}"
    )
    return Section(
        "Details: other estimates",
        [
            Picture("improvement", pictures.estimates(estimates, rests_on), caption),
            Table(["estimate", "value", bounds, "improvement", bounds], rows_of(estimates)),
        ],
    )


def _learning(run: Path) -> Section:
    lines = folder.metrics(run)
    if not lines:
        return Section("How it learned", ["No iteration was finished."])
    caption = (
        "Return as training estimated it, and what it promised; effective number of "
        "trajectories by ratios of whole episodes; norm of the gradient; loss of the model."
    )
    return Section("How it learned", [Picture("learning", pictures.learning(lines), caption)])


def _support(run: Path, opened: OpenRun) -> Section:
    log, policy = opened.learned, opened.progress.best
    # Version 0.1 did not keep it.
    setting = folder.header(run).get("weight_ratio", weight_ratio(opened.spec))
    ratio, ratios = _ratio(setting)
    weighed = diagnostics.weighing(policy, log, opened.task.discount, ratio)
    title = "Which part of the log speaks of the learned policy"
    effective = (
        "How many logged episodes effectively speak of the learned policy after so many steps."
    )
    if opened.progress.state.model is None or opened.spec.recipe == "default":
        # No picture of weights that were not used.
        figure = pictures.over_time(weighed, weights=False)
        return Section(title, [Picture("over-time", figure, effective)])
    return Section(
        title,
        [
            Picture(
                "over-time",
                pictures.over_time(weighed, weights=True),
                f"Left: {effective} Right: where in an episode a fit looks, by maximum likelihood "
                f"and by gradient-aware weights. Their ratios are {ratios}.",
            ),
            Picture(
                "over-states",
                pictures.over_states(np.asarray(log.states), weighed, np.asarray(log.mask)),
                "The same over the state space, maximum likelihood beside gradient-aware.",
            ),
        ],
    )


def _ratio(setting: Mapping[str, int | float]) -> tuple[Any, str]:
    """The part that a run folder describes, and what it does in words."""
    if "window" in setting:
        return Window(int(setting["window"])), f"those of the last {setting['window']:g} steps"
    if "clip" in setting:
        return Clip(setting["clip"]), f"those of all steps before, at most {setting['clip']:g}"
    return (lambda log_rho: log_rho), "those of all steps before"


def _model(key: Any, opened: OpenRun) -> Section:
    title, model, log = "What the model is worth", opened.progress.state.model, opened.some_held_out
    if model is None:
        return Section(title, [f"Recipe {opened.spec.recipe} has no model."])
    key_one, key_loop = jax.random.split(key)
    steps = diagnostics.predictions(key_one, model, log)
    some = jax.tree.map(lambda x: x[: diagnostics.EPISODES], log)
    loop = diagnostics.open_loop(key_loop, model, opened.task, some)
    parts = ["All of this is on episodes that training never saw."]
    return Section(
        title,
        [
            *parts,
            Picture(
                "model-steps",
                pictures.predicted(steps),
                "One step ahead. Above: predicted against logged change. Below: where the logged "
                "change lies among imagined ones; flat is calibrated, a hump is too wide, a bowl "
                "too narrow.",
            ),
            Picture(
                "model-bands",
                pictures.bands(*loop, np.asarray(some.next_states), np.asarray(some.mask)),
                "Open loop: the logged actions from the logged starts, in the model alone. Median "
                "and 5 to 95 % over episodes that go on.",
            ),
        ],
    )


def _difference(opened: OpenRun, new: Policy) -> Section:
    title, log = "Where the new policy differs", opened.learned
    old = opened.data.behaviour or opened.ends.start
    name = (
        "the logging policy" if opened.data.behaviour else "the policy that training started from"
    )
    if isinstance(new, Boltzmann):
        count = new.weights.shape[-1]
        before, after = (diagnostics.probabilities(p, log, count) for p in (old, new))
        other = np.mean(before.argmax(axis=1) != after.argmax(axis=1))
        text = f"At {other:.0%} of the logged states the most likely choice is another one."
        figure, caption = pictures.choices(before, after), "Mean probability of every choice."
        return Section(title, [text, Picture("actions", figure, caption)])
    before, after = (diagnostics.mean_actions(p, log) for p in (old, new))
    mask = np.asarray(log.mask)
    noise = np.asarray(log.actions)[mask].reshape(before.shape) - before
    units = np.maximum(noise.std(axis=0), 1e-12)
    rows = [
        [f"action[{a}]", f"{np.abs(after - before)[:, a].mean():.4g}",
         f"{np.abs(after - before)[:, a].mean() / units[a]:.3g}",
         f"{np.abs(after - before)[:, a].max() / units[a]:.3g}"]
        for a in range(before.shape[1])
    ]  # fmt: skip
    states = np.asarray(log.states)[mask].reshape(len(before), -1)
    caption = f"Actions without noise at the logged states: {name} and the new one."
    return Section(
        title,
        [
            Table(["", "mean change", "in deviations of the log's noise", "at most"], rows),
            Picture("actions", pictures.actions_along(states, before, after), caption),
        ],
    )


def _health(opened: OpenRun) -> Section:
    findings = inspection.inspect(
        opened.data.trajectories,
        opened.task,
        opened.data.behaviour,
        densities=opened.data.densities,
        discount=opened.data.discount,
    )
    rows: Sequence[Sequence[str]] = [[f.grade, f.what, f.found, f.fix] for f in findings]
    header = ["", "looked at", "found", "fix"]
    return Section("Health of the log", [Table(header, rows, [f.grade for f in findings])])


def _settings(run: Path) -> Section:
    header = folder.header(run)
    rows = [[k, str(v)] for part in ("settings", "versions") for k, v in header[part].items()]
    return Section("Settings and versions", [Table(["", ""], rows)])
