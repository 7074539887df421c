"""Define a claim: a sentence of a page, and the check on the result files that it needs."""

from collections.abc import Callable
from typing import NamedTuple


class Claim(NamedTuple):
    """A phrase that stands on a page, and its check; a page is named from docs/, or README.md."""

    page: str
    phrase: str
    holds: Callable[[], bool]


CLAIMS: list[Claim] = []


def says(page: str, *phrase: str) -> Callable[[Callable[[], bool]], Callable[[], bool]]:
    """Register a check as a claim; a long phrase may come in pieces."""

    def put_down(holds: Callable[[], bool]) -> Callable[[], bool]:
        CLAIMS.append(Claim(page, " ".join(phrase), holds))
        return holds

    return put_down
