"""Show rounds of deployment, and what large and ragged logs cost."""

from typing import Any

import numpy as np

from rendering.tables import load, table

WAYS = {
    "nothing": "certified policies only",
    "markov": "certified policies only, Markov",
    "models": "trials chosen by models",
    "free": "trials without a model",
}


def campaign_rows(problem: str, way: str) -> list[dict[str, Any]]:
    """Return the campaigns of one kind."""
    found = load("campaign")["results"]
    return [row for row in found if (row["problem"], row["way"]) == (problem, way)]


def last_of(problem: str, way: str) -> np.ndarray:
    """Return what the last policy in charge earns by its mean action, for each campaign."""
    return np.array([row["worth_mean_action"][-1] for row in campaign_rows(problem, way)])


def deployments(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Count the policies put in charge, and those that earn less than the one before.

    A policy earns less if it does so in fresh episodes, with its noise, by more than two standard
    errors.
    """
    count = worse = 0
    for row in rows:
        gains = np.diff(row["worth"])
        errors = np.hypot(row["worth_error"][1:], row["worth_error"][:-1])
        count += int((gains != 0).sum())
        worse += int((gains < -2 * errors).sum())
    return count, worse


def campaigns(*problems: str) -> str:
    """Tabulate how campaigns end."""
    kinds = [(p, w) for p in problems for w in WAYS if campaign_rows(p, w)]
    body = []
    for problem, way in kinds:
        rows, last = campaign_rows(problem, way), last_of(problem, way)
        acting = acting_last(problem, way)
        count, worse = deployments(rows)
        body.append([
            f"{problem.replace('_', ' ')}, {WAYS[way]}", f"{len(rows)}",
            f"{rows[0]['worth'][0]:.3g}",
            f"{acting.mean():.3g} ± {acting.std(ddof=1):.2g}", f"{acting.min():.3g}",
            f"{last.mean():.3g}", f"{count}", f"{worse}",
        ])  # fmt: skip
    header = [
        "", "campaigns", "first controller", "at the end", "lowest", "mean action", "deployed",
        "worse",
    ]  # fmt: skip
    return table(header, body)


def acting_last(problem: str, way: str) -> np.ndarray:
    """Return what the last policy in charge earns with its noise, for each campaign."""
    return np.array([row["worth"][-1] for row in campaign_rows(problem, way)])


def share_of_the_way(problem: str, way: str) -> np.ndarray:
    """Return the share of the way from the PID to NMPC with the true model, for each campaign."""
    limits = load("process")["results"][problem]
    first, limit = (limits[name]["mean"] for name in ("pid", "oracle"))
    return (acting_last(problem, way) - first) / (limit - first)


def null_campaigns() -> str:
    """Count the campaigns that ever deployed a candidate that is no better."""
    rows = [
        [name, f"{row['campaigns']}", f"{row['ever']} ({row['ever'] / row['campaigns']:.1%})",
         f"{row['limits'][0]:.1%} to {row['limits'][1]:.1%}"]
        for name, row in load("null_campaigns")["results"].items()
    ]  # fmt: skip
    return table(["candidates", "campaigns", "ever deployed", "99% limits"], rows)


def import_speed() -> str:
    """Tabulate the time of `gamps import` and of pyarrow and h5py alone."""
    rows = [
        [f"{row['kind']}, {row['rows'] // row['steps']:,} episodes",
         f"{row['ours']['seconds']:.1f}", f"{row['bare']['seconds']:.1f}", f"{row['ratio']:.1f}",
         f"{row['ours']['GiB']:.2f}"]
        for row in load("import_speed")
    ]  # fmt: skip
    return table(["10⁶ rows", "gamps import, s", "pyarrow and h5py, s", "ratio", "GiB"], rows)


def ragged_ratio(command: str, unit: str) -> float:
    """Return the cost of a ragged log relative to an even one."""
    found = load("ragged")
    return found["ragged"][command][unit] / found["even"][command][unit]
