"""Estimates and rungs as rows of a table, for the terminal and the page."""

from gamps.evaluation import Estimate
from gamps.evaluation.support import POOR
from gamps.runs.evaluate_run import RunEvaluation

RUNG_HEADER = [
    "rung", "mean moved", "noise moved", "effective episodes", "improvement", "lower bound", "",
]  # fmt: skip


def rows_of(estimates: dict[str, Estimate]) -> list[list[str]]:
    """Return name, value and improvement of every estimate, with their bounds."""
    rows = []
    for name, (value, gain) in estimates.items():
        rows.append([
            name, f"{value.estimate:.4g}", f"{value.low:.4g} to {value.high:.4g}",
            f"{gain.estimate:.4g}", f"{gain.low:.4g} to {gain.high:.4g}",
        ])  # fmt: skip
    return rows


def sampled(found: RunEvaluation) -> str:
    """Return a note if estimates other than the verdict's use only some episodes (streaming)."""
    return " They use a random sample of the held-out episodes." if found.run.spec.stream else ""


def rungs_of(found: RunEvaluation) -> list[list[str]]:
    """Return number, place, effective episodes, improvement, bound and outcome of every rung."""
    rows = []
    for k, (rung, one) in enumerate(zip(found.rungs, found.evaluation.judged, strict=True)):
        thin = one.support.grade == POOR
        remark = "" if one.refusal is None else "too little evidence" if thin else "does not count"
        if k == found.evaluation.chosen and found.evaluation.policy is not None:
            remark = "certified"
        gain = one.improvement
        rows.append([
            f"{k + 1}", f"{rung.share:.0%}", f"{rung.spread:.0%}", f"{one.support.ess:.0f}",
            f"{gain.estimate:.4g}", "" if one.refusal else f"{gain.low:.4g}", remark,
        ])  # fmt: skip
    return rows
