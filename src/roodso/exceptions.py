"""Errors and warnings that callers may catch.

Bad arguments raise plain ``ValueError`` or ``TypeError`` before any work is
done. What can go wrong later has a class here.
"""

from __future__ import annotations

__all__ = [
    "ConvergenceWarning",
    "DegenerateDataWarning",
    "RooDSOWarning",
    "SampleSizeWarning",
    "SolverError",
]


class SolverError(RuntimeError):
    """A solver failed and no fall-back gave a trustworthy answer.

    Parameters
    ----------
    message : str
        What was being solved and what went wrong.
    status : str
        The status the solver reported.
    """

    def __init__(self, message: str, status: str = "unknown") -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type[SolverError], tuple[str, str]]:
        return type(self), (str(self), self.status)


class RooDSOWarning(UserWarning):
    """Base class of every warning that this library issues."""


class ConvergenceWarning(RooDSOWarning):
    """The certified gap is larger than the tolerance that was asked for."""


class DegenerateDataWarning(RooDSOWarning):
    """The data leave something undefined (one source, no spread); a stated default was used."""


class SampleSizeWarning(RooDSOWarning):
    """The target's number of samples is far from the sources', so the promise is not for it."""
