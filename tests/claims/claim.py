"""A sentence of a page, and what the result files must say for it to stand."""

from collections.abc import Callable
from typing import NamedTuple


class Claim(NamedTuple):
    """A phrase that stands on a page, and its check; a page is named from docs/, or README.md."""

    page: str
    phrase: str
    holds: Callable[[], bool]


CLAIMS: list[Claim] = []


def says(page: str, *phrase: str) -> Callable[[Callable[[], bool]], Callable[[], bool]]:
    """Put a check down as a claim; a long phrase may come in pieces."""

    def put_down(holds: Callable[[], bool]) -> Callable[[], bool]:
        CLAIMS.append(Claim(page, " ".join(phrase), holds))
        return holds

    return put_down
