"""Failures a user can fix. Each names the field, the place, the problem and the fix."""

from typing import Any


class GampsError(Exception):
    """Base of every error that gamps raises on purpose."""


class FieldError(GampsError, ValueError):
    """A value that a user handed in cannot be used.

    Attributes:
      field: the name of the offending field or argument.
      index: where in it, or None if the whole field is meant.
      problem: what was found there.
      fix: what to do or write instead.
    """

    def __init__(
        self, field: str, problem: str, fix: str, *, index: tuple[int, ...] | int | None = None
    ) -> None:
        self.field, self.problem, self.fix = field, problem, fix
        self.index = (index,) if isinstance(index, int) else index
        place = field if self.index is None else f"{field}[{', '.join(map(str, self.index))}]"
        super().__init__(f"{place}: {problem}. {fix}")

    def __reduce__(self) -> Any:
        # A worker's error reaches its parent as the parts it was made of, not as the text.
        return _again, (type(self), self.field, self.problem, self.fix, self.index)


def _again(
    kind: type[FieldError], field: str, problem: str, fix: str, index: tuple[int, ...] | None
) -> FieldError:
    return kind(field, problem, fix, index=index)


class TrajectoryError(FieldError):
    """Logged data that cannot be trusted: wrong shape, not finite, zero-probability action."""


class SettingError(FieldError):
    """A setting outside the range in which it means something."""


class OutputError(GampsError, OSError):
    """A result would overwrite an earlier one, or cannot be written."""


class WorkerError(GampsError, RuntimeError):
    """A process that shared the work ended before its time."""


class DescriptionError(FieldError):
    """A policy that cannot be written down as plain data, or not be built from it."""


class DatasetError(FieldError):
    """A dataset on disk that cannot be trusted; an index starts with the episode's number."""


class UnfitLogError(FieldError):
    """A log that `inspect` finds fatal: training on it would fail, or mean nothing."""


class CheckpointError(FieldError):
    """A checkpoint that is not what was written; the field is its file."""


class CertificateError(FieldError):
    """No certificate for what was asked, or one of something else; the field is its file."""


class RunError(GampsError):
    """A run folder that cannot be used for what was asked."""


class MissingExtraError(GampsError, ImportError):
    """An optional package is needed and not installed; the message says how to install it."""
