"""Errors for people: what is wrong, why, what to do about it, and the exit code it ends in."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = [
    "DataError",
    "MissingPackageError",
    "OutputError",
    "PlannerError",
    "ProblemError",
    "library_errors",
    "nearest",
]


class PlannerError(ValueError):
    """Something that the user can put right.

    Parameters
    ----------
    message : str
        What is wrong, in one sentence.
    cause : str, optional
        What was found that makes it so.
    remedy : str, optional
        What to do about it.

    Examples
    --------
    >>> print(DataError("the table is empty", remedy="add a row for each day"))
    the table is empty; add a row for each day
    """

    exit_code = 2

    def __init__(self, message: str, *, cause: str = "", remedy: str = "") -> None:
        super().__init__("; ".join(part for part in (message, cause, remedy) if part))
        self.message = message
        self.cause = cause
        self.remedy = remedy


class DataError(PlannerError):
    """The table cannot be used as it is."""

    exit_code = 3


class ProblemError(PlannerError):
    """The numbers of the problem, its constraints or its problem file cannot be used."""

    exit_code = 4


class OutputError(PlannerError):
    """A result cannot be written where it was asked for."""

    exit_code = 5


class MissingPackageError(PlannerError):
    """An optional package is not installed."""

    exit_code = 7


def nearest(word: str, known: Iterable[str]) -> str:
    """A question after the nearest known word, or the known words where none is near.

    Examples
    --------
    >>> nearest("Prize", ["price", "cost"])
    "did you mean 'price'?"
    >>> nearest("x", ["price", "cost"])
    "there are: 'price', 'cost'"
    """
    words = list(known)
    folded = {candidate.casefold(): candidate for candidate in reversed(words)}
    close = difflib.get_close_matches(word.casefold(), list(folded), n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    if not words:
        return "there are none"
    listed = ", ".join(repr(candidate) for candidate in words[:12])
    return f"there are: {listed}" + (f" and {len(words) - 12} more" if len(words) > 12 else "")


@contextmanager
def library_errors() -> Iterator[None]:
    """Turn the library's refusals of arguments, which say what is accepted, into a ProblemError.

    A ValueError that numpy or another package raises is no refusal of ours but a fault, and passes.
    """
    try:
        yield
    except PlannerError:
        raise
    except (ValueError, TypeError) as error:
        innermost = list(traceback.walk_tb(error.__traceback__))[-1][0]
        if str(innermost.f_globals.get("__name__")).split(".")[0] != "roodso":
            raise
        raise ProblemError(str(error)) from error
