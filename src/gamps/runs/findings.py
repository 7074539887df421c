"""What a check of a log finds: a grade, what was checked, what the log shows, and a fix.

Fatal: training would fail or its result mean nothing. Warning: it will run, and the problem limits
what it can show. Note: worth knowing.
"""

from typing import NamedTuple

FATAL, WARNING, NOTE = "fatal", "warning", "note"


class Finding(NamedTuple):
    """One thing that was checked.

    Attributes:
      grade: fatal, warning or note.
      what: what was checked.
      found: what the log shows.
      fix: what to do about it; empty if nothing needs to be done.
    """

    grade: str
    what: str
    found: str
    fix: str = ""


def first_line(error: Exception) -> str:
    """What a user's function raised, without what follows about JAX's own source."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
