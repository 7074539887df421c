"""Errors that a user can fix. Each names the field, the place, the problem and the fix."""

from typing import Any


class GampsError(Exception):
    """Base class of every error that gamps raises on purpose."""


class FieldError(GampsError, ValueError):
    """A value that the user passed cannot be used.

    Attributes:
      field: the name of the offending field or argument.
      index: the position in the field, or None if the error concerns the whole field.
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
        # A worker sends its parent the parts of the error, not only the text.
        return _again, (type(self), self.field, self.problem, self.fix, self.index)


def _again(
    kind: type[FieldError], field: str, problem: str, fix: str, index: tuple[int, ...] | None
) -> FieldError:
    return kind(field, problem, fix, index=index)


class TrajectoryError(FieldError):
    """Logged data cannot be trusted: wrong shape, not finite, or a zero-probability action."""


class SettingError(FieldError):
    """A setting is outside its meaningful range."""


class OutputError(GampsError, OSError):
    """A result would overwrite an earlier one, or cannot be written."""


class WorkerError(GampsError, RuntimeError):
    """A process that shared the work ended too early."""


class DescriptionError(FieldError):
    """A policy cannot be stored as plain data, or cannot be rebuilt from it."""


class DatasetError(FieldError):
    """A dataset on disk cannot be trusted; an index starts with the episode's number."""


class UnfitLogError(FieldError):
    """`inspect` found a fatal problem in the log: training would fail, or mean nothing."""


class CheckpointError(FieldError):
    """A checkpoint differs from what was written; the field is its file."""


class CertificateError(FieldError):
    """The certificate is missing, or is for something else; the field is its file."""


class RunError(GampsError):
    """A run folder cannot be used for the requested operation."""


class MissingExtraError(GampsError, ImportError):
    """A required optional package is not installed; the message says how to install it."""
