"""The text of a run's report, section by section: the verdict first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gamps.evaluation import UNSPREAD
from gamps.evaluation.support import FAIR, LIMITS
from gamps.evaluation.verdict import BY_STATES, DEPLOY, NOT_SHOWN, ROBUST, WORSE, rare_failures
from gamps.policies import Boltzmann, Policy
from gamps.report import diagnostics, pictures
from gamps.report.page import Banner, Picture, Section, Table
from gamps.report.rows import RUNG_HEADER, rows_of, rungs_of, sampled
from gamps.runs import folder, inspection
from gamps.runs.build import weight_ratio
from gamps.runs.evaluate_run import RunEvaluation
from gamps.runs.open_run import OpenRun
from gamps.search.importance import Clip, Window

UNSET = {
    "task": "estimated from the log",
    "features": "observation and action",
    "learning_rate": "the recipe's default",
    "some": "all",
}  # what settings mean that were left out
LOOKS = {DEPLOY: "deploy", NOT_SHOWN: "unsure", WORSE: "worse"}


def sections(run: Path, evaluation: RunEvaluation) -> list[Section]:
    """Return the sections about a run and its evaluation, the verdict first."""
    opened, key = evaluation.run, jax.random.key(evaluation.run.spec.seed)
    rung = evaluation.rungs[evaluation.evaluation.chosen]
    return [
        _verdict(key, evaluation),
        _learning(run),
        _support(run, opened),
        _model(key, opened),
        _difference(opened, rung.policy),
        _health(opened),
        *([_estimates(evaluation)] if evaluation.evaluation.estimates else []),
        _settings(run),
    ]


def _verdict(key: Any, found: RunEvaluation) -> Section:
    policies = [rung.policy for rung in found.rungs]
    promised = diagnostics.promised_gains(key, policies, found.run.ends.behaviour, found.run)
    verdict, n = found.evaluation.verdict, found.run.held_out.n_trajectories
    why = f"{verdict.why[:1].upper()}{verdict.why[1:]}. {verdict.advice}."
    notes = [
        "The logging policy is the controller that made the log; the learned policy is the one "
        "that training ended with. The rungs are policies between these two. Each rung, noise "
        f"included, was judged by {n} logged episodes of {found.by} that training never saw. The "
        "rungs were chosen before these episodes were used to judge any policy. All the lower "
        "bounds hold at the same time, with the confidence of the verdict. All returns here are "
        "discounted: rewards count less the later they come."
    ]
    if found.number > 1:
        notes.append(
            f"These episodes have been used before: this is judgement {found.number} by them. "
            "Each further judgement is stricter, so that the error of all of them stays limited."
        )
    if verdict.unseen_loss is not None:
        unit = "episode" if found.run.groups is None else "group"
        notes.append(rare_failures(verdict, unit, declare=found.takes_bounds))
    if found.densities == "estimated":
        notes.append(
            "The densities of the log are estimated: every ratio is only as good as that fit, and "
            "no bound includes its error."
        )
    caption = (
        "The ladder. Above: estimated improvement of each rung, with its lower bound. Below: "
        "effective episodes, which is how many episodes count as evidence about a rung. To be "
        f"certified, a rung needs at least {LIMITS[FAIR][0]:g} of them (dotted line), unless you "
        "declared the lowest and the highest possible return. Hollow rungs cannot be certified; "
        "the usual reason is too little evidence."
    )
    if promised is not None:
        caption += (
            " Crosses: what the fitted models say of the same rungs. The verdict does not use the "
            "crosses. Where a cross is far from the estimate of its rung, do not believe what the "
            "models promise."
        )
    moved = (
        "Mean moved and noise moved: how far the rung's mean action and its noise have moved from "
        "the logging policy (0%) towards the learned policy (100%)."
    )
    return Section(
        "May it be deployed?",
        [
            Banner(LOOKS[verdict.word], verdict.word, why),
            *notes,
            Picture("ladder", pictures.ladder(found.rungs, found.evaluation, promised), caption),
            Table(RUNG_HEADER, rungs_of(found)),
            moved,
        ],
    )


def _estimates(found: RunEvaluation) -> Section:
    """Return the section with all estimates, not only the one behind the verdict."""
    estimates, chosen = found.evaluation.estimates, found.evaluation.chosen + 1
    rests_on = BY_STATES if BY_STATES in estimates else ROBUST
    bounds = f"{estimates[ROBUST].value.confidence:.1%} bounds"
    caption = (
        f"Improvement of rung {chosen} by each estimator. The verdict uses the row “{rests_on}”: "
        f"what a model predicts, corrected by the logged rewards. Bounds here are for this rung "
        f"alone. The verdict's bounds are wider: they hold for all rungs at the same time, and "
        f"often their confidence is higher. The rows "
        f"{' and '.join(f'“{name}”' for name in UNSPREAD)} believe a fitted model. Their bounds "
        f"ignore the error of the fit, and so are too narrow. Each improvement is the estimator's "
        f"value for the rung minus the same estimator's value for the logging policy."
        f"{sampled(found)}"
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
        "How training went, iteration by iteration. Predicted return: the line is what the models "
        "predict for the policy. The lower edge of the band is this prediction minus the error "
        "that the same models make for the logging policy. Effective episodes: how many episodes "
        "count as evidence about the policy. Norm of the gradient: how strongly the models still "
        "want to change the policy."
    )
    return Section("How it learned", [Picture("learning", pictures.learning(lines), caption)])


def _support(run: Path, opened: OpenRun) -> Section:
    log, policy = opened.learned, opened.progress.best
    # Runs of version 0.1 do not have it.
    setting = folder.header(run).get("weight_ratio", weight_ratio(opened.spec))
    ratio, ratios = _ratio(setting)
    weighed = diagnostics.weighing(policy, log, opened.task.discount, ratio)
    title = "How much the log says about the learned policy"
    effective = (
        "Suppose that only the first t steps of each episode were known (t: horizontal axis). The "
        "red curve shows how many episodes would then count as evidence about the learned policy. "
        "Where it is near one, the log cannot judge that policy. The grey curve counts the "
        "episodes still running."
    )
    if opened.progress.state.model is None or opened.spec.recipe == "default":
        # Do not draw weights that were not used.
        figure = pictures.over_time(weighed, weights=False)
        return Section(title, [Picture("over-time", figure, effective)])
    return Section(
        title,
        [
            Picture(
                "over-time",
                pictures.over_time(weighed, weights=True),
                f"Left: {effective} Right: where in an episode a fit puts its weight, with maximum "
                f"likelihood and with gradient-aware weights. These use the ratios of {ratios}.",
            ),
            Picture(
                "over-states",
                pictures.over_states(np.asarray(log.states), weighed, np.asarray(log.mask)),
                "The same over the state space, for maximum likelihood and gradient-aware weights.",
            ),
        ],
    )


def _ratio(setting: Mapping[str, int | float]) -> tuple[Any, str]:
    """Return the ratio part that a run folder describes, and its description in words."""
    if "window" in setting:
        return Window(int(setting["window"])), f"the last {setting['window']:g} steps"
    if "clip" in setting:
        return Clip(setting["clip"]), f"all steps before, clipped at {setting['clip']:g}"
    return (lambda log_rho: log_rho), "all steps before"


def _model(key: Any, opened: OpenRun) -> Section:
    title, model, log = "How good the model is", opened.progress.state.model, opened.some_held_out
    if model is None:
        return Section(title, [f"Recipe {opened.spec.recipe} has no model."])
    key_one, key_loop = jax.random.split(key)
    steps = diagnostics.predictions(key_one, model, log)
    some = jax.tree.map(lambda x: x[: diagnostics.EPISODES], log)
    loop = diagnostics.open_loop(key_loop, model, opened.task, some)
    parts = ["This section is about episodes that training never saw."]
    return Section(
        title,
        [
            *parts,
            Picture(
                "model-steps",
                pictures.predicted(steps),
                "One step ahead. Above: how each observation changes from one step to the next, as "
                "predicted and as logged. Below: does the model know how uncertain it is? At each "
                "logged step, the model generates many possible changes. Some share of them is "
                "smaller than the logged change. The histogram shows this share for all steps, and "
                "should be flat. A hump in the middle: the logged changes vary less than the model "
                "says. Peaks at both ends: they vary more.",
            ),
            Picture(
                "model-bands",
                pictures.bands(*loop, np.asarray(some.next_states), np.asarray(some.mask)),
                "Many steps ahead: the model predicts whole episodes from their first state and "
                "the logged actions. Lines: the median of the predicted episodes, and the median "
                "of the logged episodes. Bands: at each step, the blue band contains 90% of the "
                "logged episodes and the red band 90% of the predicted ones. Lines and "
                "bands leave out episodes that have already ended.",
            ),
        ],
    )


def _difference(opened: OpenRun, new: Policy) -> Section:
    title, log = "Where the judged policy differs from the logging policy", opened.learned
    old = opened.data.behaviour or opened.ends.start
    name = (
        "the logging policy" if opened.data.behaviour else "the policy at the start of the ladder"
    )
    if isinstance(new, Boltzmann):
        count = new.weights.shape[-1]
        before, after = (diagnostics.probabilities(p, log, count) for p in (old, new))
        other = np.mean(before.argmax(axis=1) != after.argmax(axis=1))
        text = f"At {other:.0%} of the logged states the most likely choice has changed."
        figure, caption = pictures.choices(before, after), "Mean probability of each choice."
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
    caption = f"Mean actions in the logged states: of {name}, and of the rung in the verdict."
    return Section(
        title,
        [
            Table(["", "average change", "average, in noise s.d.", "largest, in noise s.d."], rows),
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
    header = ["", "checked", "found", "fix"]
    return Section("Health of the log", [Table(header, rows, [f.grade for f in findings])])


def _settings(run: Path) -> Section:
    header = folder.header(run)
    rows = [[k, UNSET[k] if k in UNSET and not v else str(v)]
            for part in ("settings", "versions") for k, v in header[part].items()]  # fmt: skip
    return Section("Settings and versions", [Table(["", ""], rows)])
