"""What the pages say in words, and how the result files bear it out.

A claim is a page, a phrase that stands on it, and a check on the numbers: who changes a result has
to change the sentence, and the other way round.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

import render  # noqa: E402
from rendering import engine, prose, tables  # noqa: E402

from claims import certificates, engineering, logs, paper, peers, rounds, swimmer, verdicts  # noqa: E402
from claims.claim import CLAIMS  # noqa: E402

__all__ = ["CLAIMS", "DOCS", "ROOT", "certificates", "engine", "engineering", "logs", "paper",
           "peers", "prose", "render", "rounds", "swimmer", "tables", "verdicts"]  # fmt: skip
