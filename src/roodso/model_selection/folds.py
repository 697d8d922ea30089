"""How sources are held out: whole, or some rows of each.

A fold is a pair of row numbers (train, test), as scikit-learn's splitters yield them. What is held
out is judged source by source: one *unit* for each source with test rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator, LeaveOneGroupOut

from roodso._typing import IntArray
from roodso._validation import check_integer, check_real, check_seed
from roodso.sources import Sources

__all__ = ["Fold", "WithinSourceSplit", "make_folds"]


class WithinSourceSplit(BaseCrossValidator):
    """Hold out a share of each source's rows: the paper's 80/20 validation split.

    Each source with two rows or more gives at least one to either side; one with a single row
    trains only.

    Parameters
    ----------
    test_size : float in (0, 1), default=0.2
    n_splits : int, default=1
        Independent random splits.
    random_state : int, Generator or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> groups = ["a"] * 5 + ["b"] * 10
    >>> train, test = next(WithinSourceSplit(random_state=0).split(np.zeros((15, 1)), None, groups))
    >>> (test < 5).sum().item(), (test >= 5).sum().item(), len(train)
    (1, 2, 12)
    """

    def __init__(self, test_size: float = 0.2, n_splits: int = 1, random_state: Any = None) -> None:
        self.test_size = test_size
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return ``n_splits``."""
        return check_integer(self.n_splits, "n_splits", low=1)

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield row numbers (train, test), ascending.

        Parameters
        ----------
        X : table of N rows
        y : ignored
        groups : sequence of length N
            The source of each row.
        """
        share = check_real(
            self.test_size, "test_size", low=0, high=1, low_open=True, high_open=True
        )
        check_seed(self.random_state)
        if groups is None:
            raise ValueError("groups must name the source of each row, got None")
        codes = pd.factorize(np.asarray(groups, dtype=object))[0]
        rng = np.random.default_rng(self.random_state)
        for _ in range(self.get_n_splits()):
            held_out = np.zeros(len(codes), dtype=bool)
            for source in range(codes.max() + 1):
                rows = np.flatnonzero(codes == source)
                if len(rows) > 1:
                    count = min(max(round(share * len(rows)), 1), len(rows) - 1)
                    held_out[rng.choice(rows, count, replace=False)] = True
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)


@dataclass(frozen=True)
class Fold:
    """Rows to learn from, and by held-out source the rows to be judged on.

    Attributes
    ----------
    train : ndarray of int
    units : tuple of (label, ndarray of int)
        The sources that have test rows, in order of first appearance in the data.
    """

    train: IntArray
    units: tuple[tuple[Hashable, IntArray], ...]


def make_folds(sources: Sources, cv: Any = None) -> list[Fold]:
    """Folds of the sources' rows.

    Parameters
    ----------
    sources : Sources
    cv : scikit-learn splitter, iterable of (train, test), or None
        None leaves one source out at a time.

    Returns
    -------
    list of Fold
    """
    if cv is None:
        if sources.n_sources < 2:
            raise ValueError(
                f"leaving one source out needs at least 2 sources, got {sources.n_sources}"
            )
        cv = LeaveOneGroupOut()
    splits = (
        cv.split(sources.samples, None, sources.codes)
        if hasattr(cv, "split")
        else _checked_splits(cv, sources.n_samples)
    )
    folds = [_fold(sources, np.asarray(train), np.asarray(test)) for train, test in splits]
    if not folds:
        raise ValueError("cv must yield at least one pair of train and test rows, got none")
    return folds


def _checked_splits(cv: Any, n_samples: int) -> list[tuple[Any, Any]]:
    try:
        splits = [(np.asarray(train), np.asarray(test)) for train, test in cv]
    except (TypeError, ValueError):
        raise TypeError(
            "cv must be None, a scikit-learn splitter, or an iterable of (train, test) row "
            f"numbers, got {cv!r}"
        ) from None
    for rows in (part for split in splits for part in split):
        if rows.dtype.kind not in "iu" or (rows < 0).any() or (rows >= n_samples).any():
            raise ValueError(f"cv must yield row numbers from 0 to {n_samples - 1}, got {rows!r}")
    return splits


def _fold(sources: Sources, train: IntArray, test: IntArray) -> Fold:
    if len(train) == 0 or len(test) == 0:
        raise ValueError("cv must leave rows to learn from and rows to judge on in every fold")
    codes = sources.codes[test]
    units = tuple(
        (sources.labels[source], test[codes == source]) for source in np.unique(codes).tolist()
    )
    return Fold(train, units)
