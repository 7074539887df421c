"""The start of a run, and the turn to work on it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gamps.runs import inspection
from gamps.errors import RunError
from gamps.runs import Training, Words, folder
from gamps.runs.resolve import check_named, policy_of, task_of
from gamps.runs.prepared import prepared
from gamps.runs.spec import LATER, check, hash_of

LOCKED = 60.0  # seconds that a lost process may still hold its run folder


def begin(words: Words, out: Path) -> tuple[dict[str, Any], Training]:
    """Make the folder of a run as `gamps train` does, or find that it is there.

    Args:
      words: of the user.
      out: the folder.

    Returns:
      The settings that the folder holds, and the training.

    Raises:
      RunError: if it holds a run of other settings, or of another log.
      OutputError: if something else is in the way.
      SettingError: if something that the words name cannot be used.
    """
    refuse_early(words, out)
    given = asdict(words) | {"log_sha256": hash_of(words.log)}
    if (out / folder.HEADER).exists():
        return _same_settings(out, given), prepared(words)[1]()
    data, built = prepared(words)
    start = policy_of(words.policy, data, words.seed)
    found = inspection.inspect(
        data.trajectories, task_of(words.task), start, densities=data.densities
    )
    inspection.refuse_unfit(found)
    training = built()
    settings = given | {"densities": data.densities, "tensorboard": False}
    folder.create(out, settings)
    return settings, training


def refuse_early(words: Words, out: Path) -> None:
    """All that `begin` refuses without reading the log, which may take a while.

    Raises:
      RunError: if the folder holds a run of other settings.
      OutputError: if something else is in the way.
      SettingError: if something that the words name cannot be used.
    """
    check(words)
    if (out / folder.HEADER).exists():
        _same_settings(out, asdict(words))
    else:
        folder.refuse_taken(out)
    check_named(words)


def _same_settings(out: Path, given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run, if they are the ones given."""
    settings: dict[str, Any] = folder.header(out)["settings"]
    known = LATER | settings
    differ = [name for name in given if known.get(name) != given[name]]
    if differ:
        raise RunError(
            f"{out}: holds a run of another {differ[0]}, {settings.get(differ[0])!r} and not "
            f"{given[differ[0]]!r}. Choose another --out"
        )
    return settings


def until_free(run: Path, seconds: float = LOCKED) -> None:
    """Wait until no other process works on a run: one that was lost may take a while to end.

    Raises:
      RunError: if one still does after so many seconds.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            with folder.locked(run):
                return
        except RunError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)
