"""Rounds of deployment, and what large and ragged logs cost."""

from rendering.tables import load, table


def null_campaigns() -> str:
    """Candidates that are no better: campaigns that ever deployed one."""
    rows = [
        [name, f"{row['campaigns']}", f"{row['ever']} ({row['ever'] / row['campaigns']:.1%})",
         f"{row['limits'][0]:.1%} to {row['limits'][1]:.1%}"]
        for name, row in load("null_campaigns")["results"].items()
    ]  # fmt: skip
    return table(["candidates", "campaigns", "ever deployed", "99 % limits"], rows)


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
