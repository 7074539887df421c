"""Check what the pages say in words against the result files.

A claim is a page, a phrase that stands on it, and a check on the numbers. If you change a result,
change the sentence too, and the other way round.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

import render  # noqa: E402
from rendering import claimed, engine, prose, tables  # noqa: E402

from claims import (  # noqa: E402
    certificates,
    engineering,
    logs,
    paper,
    peers,
    promises,
    rounds,
    swimmer,
    verdicts,
)
from claims.claim import CLAIMS  # noqa: E402

__all__ = [
    "CLAIMS", "DOCS", "ROOT", "certificates", "claimed", "engine", "engineering", "logs", "paper",
    "peers", "promises", "prose", "render", "rounds", "swimmer", "tables", "verdicts",
]  # fmt: skip
