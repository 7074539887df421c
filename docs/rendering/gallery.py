"""Numbers of the gallery: what each policy earns in fresh episodes, and its verdict."""

import math
from typing import Any

from rendering.tables import load, table


def gallery_verdict(page: str) -> dict[str, Any]:
    """Return the verdict that a run of the gallery got."""
    return load("gallery")[page]["verdict"]


def gallery_tanks() -> str:
    """Tabulate what each policy of the two tanks earns."""
    rows = [
        [name, f"{one['mean']:.0f} ± {one['std'] / math.sqrt(one['n']):.0f}"]
        for name, one in load("gallery")["tanks"]["returns"].items()
    ]
    return table(["policy", "discounted return, ± s.e."], rows)


def gallery_episodes() -> int:
    """Return the number of fresh episodes behind each of these returns."""
    return next(iter(load("gallery")["tanks"]["returns"].values()))["n"]
