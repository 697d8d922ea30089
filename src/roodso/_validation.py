"""Checks of arguments: each names the argument, its value and what is accepted."""

from __future__ import annotations

import numbers
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from roodso._typing import Array

__all__ = [
    "as_vector",
    "check_bytes",
    "check_choice",
    "check_integer",
    "check_jobs",
    "check_levels",
    "check_real",
    "check_seed",
    "check_table",
]

#: Distances are squared: twice this, in a thousand columns, must not overflow.
_LARGEST = 1e150


def check_real(
    value: Any,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    low_open: bool = False,
    high_open: bool = False,
    instead: str = "",
) -> float:
    """Return ``value`` as a finite float inside the interval, or say what is accepted.

    ``instead`` names what the caller accepts besides numbers.
    """
    left = "(" if low_open or low == -np.inf else "["
    right = ")" if high_open or high == np.inf else "]"
    accepted = f"a number in {left}{low:g}, {high:g}{right}" + (f" or {instead}" if instead else "")
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    number = float(value)
    below = number <= low if low_open else number < low
    above = number >= high if high_open else number > high
    if not np.isfinite(number) or below or above:
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return number


def check_integer(value: Any, name: str, *, low: int = 0) -> int:
    """Return ``value`` as an int of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number >= {low}, got {value!r}")
    if int(value) < low:
        raise ValueError(f"{name} must be a whole number >= {low}, got {value!r}")
    return int(value)


#: What a number of bytes may be followed by.
_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base ** (power + 1)
    for power, prefix in enumerate("kmgt")
    for ending, base in (("b", 1000), ("ib", 1024))
}


def check_bytes(value: Any, name: str) -> float:
    """Return a positive number of bytes from a number or text.

    Examples
    --------
    >>> check_bytes("1.5 GB", "memory_limit"), check_bytes(2**20, "memory_limit")
    (1500000000.0, 1048576.0)
    """
    if not isinstance(value, str):
        return check_real(value, name, low=0.0, low_open=True, instead="text like '2 GB'")
    matched = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]*)\s*", value)
    try:
        if matched is None or matched[2].lower() not in _UNITS:
            raise ValueError
        number = float(matched[1]) * _UNITS[matched[2].lower()]
    except ValueError:
        raise ValueError(
            f"{name} must be a number of bytes or text like '2 GB', got {value!r}"
        ) from None
    return check_real(number, name, low=0.0, low_open=True)


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")
    return value


def check_jobs(n_jobs: Any) -> int:
    """Return the number of threads; ``None`` and -1 mean all cores this process may use."""
    if n_jobs is None:
        n_jobs = -1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None, -1 or a positive whole number, got {n_jobs!r}")
    n_jobs = int(n_jobs)
    if n_jobs > 0:
        return n_jobs
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else (os.cpu_count() or 1)
    return max(1, cores + 1 + n_jobs)


def check_seed(random_state: Any) -> None:
    """Refuse what cannot seed a numpy Generator."""
    try:
        np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise TypeError(
            "random_state must be None, a whole number >= 0 or a numpy Generator, "
            f"got {random_state!r}"
        ) from None


def check_levels(value: Any, name: str = "clip") -> tuple[float, float] | None:
    """Return levels (low, high) of quantiles from a share cut off on either side, or from a pair.

    Examples
    --------
    >>> check_levels(0.05), check_levels((0, 0.9)), check_levels(None)
    ((0.05, 0.95), (0.0, 0.9), None)
    """
    if value is None:
        return None
    if isinstance(value, numbers.Real):
        options: dict[str, Any] = {"low_open": True, "high_open": True}
        share = check_real(value, name, low=0.0, high=0.5, **options, instead="(low, high)")
        return share, 1.0 - share
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise TypeError(
            f"{name} must be a share below 0.5, a pair (low, high) of levels, or None, "
            f"got {value!r}"
        )
    low = check_real(value[0], f"{name}[0]", low=0.0, high=1.0)
    high = check_real(value[1], f"{name}[1]", low=0.0, high=1.0)
    if not low < high:
        raise ValueError(f"{name} must have low < high, got {value!r}")
    return low, high


def as_vector(value: Any, name: str, size: int, *, allow_infinite: bool = False) -> Array:
    """Return a vector of length ``size`` from a number or a sequence of that length."""
    try:
        vector = np.asarray(value)
        if vector.dtype.kind in "mMc":  # which float64 would take without a word
            raise TypeError
        vector = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or {size} numbers, got {value!r}") from None
    if vector.ndim == 0:
        vector = np.full(size, float(vector))
    if vector.shape != (size,):
        raise ValueError(
            f"{name} must be a number or {size} numbers (one per column of the data), "
            f"got shape {vector.shape}"
        )
    if np.isnan(vector).any() or (not allow_infinite and not np.isfinite(vector).all()):
        raise ValueError(f"{name} must hold finite numbers, got {value!r}")
    return vector.copy()


def check_table(table: Any, name: str, *, width: int | None = None, min_rows: int = 1) -> Array:
    """Return an (n, d) float table; say which cell is missing, infinite or not a number.

    Numbers whose squares overflow are refused too: no distance could be told. A column of booleans
    is accepted as zeros and ones, as pandas and numpy do.
    """
    try:
        array = np.asarray(table)
        if array.dtype.kind in "mMc":  # which float64 would take without a word
            raise TypeError(f"got {array.dtype}")
        array = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must hold numbers only: {error}") from None
    if array.ndim != 2:
        hint = "; for one column use x.reshape(-1, 1)" if array.ndim == 1 else ""
        raise ValueError(f"{name} must be a table of shape (n, d), got shape {array.shape}{hint}")
    if array.shape[0] < min_rows:
        raise ValueError(f"{name} must have at least {min_rows} row(s), got shape {array.shape}")
    if array.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column, got shape {array.shape}")
    if width is not None and array.shape[1] != width:
        raise ValueError(f"{name} must have {width} columns, got {array.shape[1]}")
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} must hold finite numbers, got {array[row, column]} in row {row}, "
            f"column {column} ({int(bad.sum())} such cell(s) in all)"
        )
    if (np.abs(array) > _LARGEST).any():
        raise ValueError(
            f"{name} must hold numbers of at most {_LARGEST:g} in size, got {np.abs(array).max():g}"
        )
    return np.ascontiguousarray(array)
