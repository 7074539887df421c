"""Rounds of deployment, and what large and ragged logs cost."""

import itertools
from statistics import fmean, stdev

from rendering.tables import load, table


def null_campaigns() -> str:
    """Candidates that are no better: campaigns that ever deployed one."""
    rows = [
        [name, f"{row['campaigns']}", f"{row['ever']} ({row['ever'] / row['campaigns']:.1%})",
         f"{row['limits'][0]:.1%} to {row['limits'][1]:.1%}"]
        for name, row in load("null_campaigns")["results"].items()
    ]  # fmt: skip
    return table(["candidates", "campaigns", "ever deployed", "99 % limits"], rows)


def campaigns(problem: str) -> list[dict]:
    """All campaigns on a problem."""
    return [row for row in load("campaign")["results"] if row["problem"] == problem]


def by_round() -> str:
    """True return of what was in charge, mean ± standard deviation over campaigns."""
    rows = []
    for problem in dict.fromkeys(row["problem"] for row in load("campaign")["results"]):
        played = campaigns(problem)
        values = zip(*(row["worth"] for row in played), strict=True)
        cells = [f"{fmean(x):.2f} ± {stdev(x):.2f}" for x in map(list, values)]
        rows.append([f"{problem} ({len(played)})", *cells, f"{deployed(problem)}"])
    count = len(rows[0]) - 3
    header = ["", "at first", *(f"round {k}" for k in range(1, count + 1)), "deployed"]
    return table(header, rows)


def deployed(problem: str) -> int:
    """Deployments in all campaigns on a problem."""
    words = [one["word"] for row in campaigns(problem) for one in row["rounds"]]
    return words.count("deploy")


def worse(problem: str) -> int:
    """Deployments that made things worse in truth, by more than two standard errors."""
    count = 0
    for row in campaigns(problem):
        pairs = list(zip(row["worth"], row["worth_error"], strict=True))
        for (old, e_old), (new, e_new) in itertools.pairwise(pairs):
            count += new - old < -2 * (e_old**2 + e_new**2) ** 0.5
    return count


def import_speed() -> str:
    """`gamps import` beside pyarrow and h5py."""
    rows = [
        [f"{row['kind']}, {row['rows'] // row['steps']:,} episodes",
         f"{row['ours']['seconds']:.1f}", f"{row['bare']['seconds']:.1f}", f"{row['ratio']:.1f}",
         f"{row['ours']['GiB']:.2f}"]
        for row in load("import_speed")
    ]  # fmt: skip
    return table(["10⁶ rows", "gamps import, s", "bare, s", "ratio", "GiB"], rows)


def ragged_ratio(command: str, unit: str) -> float:
    """A ragged log against an even one."""
    found = load("ragged")
    return found["ragged"][command][unit] / found["even"][command][unit]
