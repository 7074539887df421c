"""What the report of a run says, section by section: the verdict first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gamps.evaluation import UNSPREAD
from gamps.evaluation.verdict import DEPLOY, NOT_SHOWN, ROBUST, WORSE
from gamps.learner import Settings
from gamps.policies import Boltzmann
from gamps.report import diagnostics, pictures
from gamps.report.page import Banner, Picture, Section, Table
from gamps.runs import folder, inspection
from gamps.runs.evaluate_run import Judged, rows_of, said
from gamps.runs.open_run import Finished
from gamps.runs.resolve import policy_of
from gamps.search.importance import Clip, Window

# How each recipe takes the ratios of its weights.
RATIOS: dict[str, tuple[Any, str]] = {
    "default": (Window(Settings().window), f"of the last {Settings().window} steps"),
    "gamps_paper": (lambda log_rho: log_rho, "of all steps before"),
}
LOOKS = {DEPLOY: "deploy", NOT_SHOWN: "unsure", WORSE: "worse"}


def sections(run: Path, found: Judged) -> list[Section]:
    """All of them.

    Args:
      run: the folder.
      found: what is in it, and what is said of it.
    """
    made, key = found.made, jax.random.key(found.made.words.seed)
    return [
        _verdict(found),
        _learning(run),
        _support(made),
        _model(key, made),
        _difference(made),
        _health(made),
        _settings(run),
    ]


def _verdict(found: Judged) -> Section:
    why = said(found.verdict)
    verdict, held_out = found.verdict, found.made.held_out
    support, confidence = verdict.support, found.every[ROBUST].value.confidence
    bounds = f"{confidence:.0%} bounds"
    caption = (
        f"Improvement by every estimate, with one-sided {bounds}. The verdict rests on {ROBUST}; "
        f"the bounds of {' and '.join(UNSPREAD)} leave their own error out."
    )
    notes = [
        "The new policy, with the noise it acts with, against the logging policy, on "
        f"{held_out.n_trajectories} episodes of {found.by} that training never saw. Support: "
        f"{support.ess:.1f} effective episodes, Pareto-k {support.pareto_k:.2f}: {support.grade}."
    ]
    if found.densities == "estimated":
        notes.append(
            "The densities of the log are estimated: every ratio is as good as that fit, and its "
            "error is in no bound."
        )
    return Section(
        "May it be deployed?",
        [
            Banner(LOOKS[verdict.word], verdict.word, f"{why[:1].upper()}{why[1:]}."),
            *notes,
            Picture("improvement", pictures.estimates(found.every, ROBUST), caption),
            Table(["estimate", "value", bounds, "improvement", bounds], rows_of(found)),
        ],
    )


def _learning(run: Path) -> Section:
    lines = folder.metrics(run)
    if not lines:
        return Section("How it learned", ["No iteration was finished."])
    caption = (
        "Return as training estimated it, with its lower estimate; effective number of "
        "trajectories by ratios of whole episodes; norm of the gradient; loss of the model."
    )
    return Section("How it learned", [Picture("learning", pictures.learning(lines), caption)])


def _support(made: Finished) -> Section:
    log, policy, recipe = made.learned, made.progress.best, made.words.recipe
    ratio, said = RATIOS.get(recipe, (Clip(10.0), "of all steps before, cut off at ten"))
    found = diagnostics.weighing(policy, log, made.task.discount, ratio)
    if "choice" in made.progress.plain:
        exponent = made.progress.plain["choice"][1]
        said += f"; the fit took them alone, to the power {exponent:g}, as evidence chose"
    elif made.progress.state.model is None:
        said += f"; recipe {recipe} fits no model, so they only show where one would look"
    return Section(
        "Which part of the log speaks of the new policy",
        [
            Picture(
                "over-time",
                pictures.over_time(found),
                "Left: how many logged episodes effectively speak of the new policy after so many "
                "steps. Right: where in an episode a fit looks, by maximum likelihood and by "
                f"gradient-aware weights. Their ratios are {said}.",
            ),
            Picture(
                "over-states",
                pictures.over_states(np.asarray(log.states), found, np.asarray(log.mask)),
                "The same over the state space, maximum likelihood beside gradient-aware.",
            ),
        ],
    )


def _model(key: Any, made: Finished) -> Section:
    title, model, log = "What the model is worth", made.progress.state.model, made.held_out
    if model is None:
        return Section(title, [f"Recipe {made.words.recipe} has no model."])
    key_one, key_loop = jax.random.split(key)
    one = diagnostics.predictions(key_one, model, log)
    some = jax.tree.map(lambda x: x[: diagnostics.EPISODES], log)
    loop = diagnostics.open_loop(key_loop, model, made.task, some)
    plain = made.progress.plain
    parts: list[Any] = []
    if "choice" in plain:
        name, exponent = plain["choice"]
        parts.append(
            f"Chosen by held-out evidence: {name}, and ratios to the power β = {exponent:g} for "
            "weights. All of this is on episodes that training never saw."
        )
    return Section(
        title,
        [
            *parts,
            Picture(
                "model-steps",
                pictures.predicted(one),
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


def _difference(made: Finished) -> Section:
    title, new, log = "Where the new policy differs", made.progress.best, made.learned
    data = made.data._replace(trajectories=log)
    old = made.data.behaviour or policy_of(made.words.policy, data, made.words.seed)
    said = "the logging policy" if made.data.behaviour else "the policy that training started from"
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
    caption = f"Actions without noise at the logged states: {said} and the new one."
    return Section(
        title,
        [
            Table(["", "mean change", "in deviations of the log's noise", "at most"], rows),
            Picture("actions", pictures.actions_along(states, before, after), caption),
        ],
    )


def _health(made: Finished) -> Section:
    found = inspection.inspect(
        made.data.trajectories,
        made.task,
        made.data.behaviour,
        densities=made.data.densities,
        discount=made.data.discount,
    )
    rows: Sequence[Sequence[str]] = [[f.grade, f.what, f.found, f.mend] for f in found]
    header = ["", "looked at", "found", "mend"]
    return Section("Health of the log", [Table(header, rows, [f.grade for f in found])])


def _settings(run: Path) -> Section:
    header = folder.header(run)
    rows = [[k, str(v)] for part in ("settings", "versions") for k, v in header[part].items()]
    return Section("Settings and versions", [Table(["", ""], rows)])
