"""Samples from M related sources, checked once at the door.

``Sources`` holds all samples stacked in the order given, (N, d), and for each
row the number of its source, counted in order of first appearance. Everything
later works on this one form.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from roodso._typing import Array, IntArray
from roodso._validation import check_table

__all__ = [
    "SampledSources",
    "Sources",
    "column_names",
    "column_quantiles",
    "is_stacked",
    "match_columns",
]


@dataclass(frozen=True)
class Sources:
    """Stacked samples with the source of each row.

    Use `Sources.from_data`; the constructor checks nothing.

    Attributes
    ----------
    samples : ndarray of shape (N, d)
        All samples, in the order given and in the user's units.
    codes : ndarray of shape (N,)
        Number of the source of each row, 0 to M - 1, by first appearance.
    labels : tuple of length M
        The user's names of the sources.
    names : tuple of length d or None
        Column names, where the data had any.

    Examples
    --------
    >>> import numpy as np
    >>> sources = Sources.from_data({"north": [[1.0], [2.0]], "south": [[5.0]]})
    >>> sources.labels, sources.sizes.tolist()
    (('north', 'south'), [2, 1])
    """

    samples: Array
    codes: IntArray
    labels: tuple[Hashable, ...]
    names: tuple[str, ...] | None = None

    @classmethod
    def from_data(cls, X: Any, groups: Any = None) -> Sources:
        """Accept every form of data the library knows.

        Parameters
        ----------
        X : (N, d) array or DataFrame, or mapping or sequence of (n_i, d) tables
            Stacked samples (then ``groups`` is needed), or one table per source.
        groups : sequence of length N, or str, optional
            The source of each row of a stacked ``X``; or the name of the column of a DataFrame
            that says it.

        Returns
        -------
        Sources
        """
        if isinstance(X, Sources):
            if groups is not None:
                raise ValueError("groups must be None where X already is a Sources object")
            return X
        if hasattr(X, "pieces"):
            raise TypeError(
                "X must be in memory here: a stream is read by RooDSO.fit and RooDSO.path only"
            )
        if is_stacked(X):
            return cls._from_stacked(X, groups)
        if not isinstance(X, (Mapping, Sequence)) or isinstance(X, (str, bytes)):
            raise TypeError(
                "X must be a table (array or DataFrame) with groups, or a mapping or sequence of "
                f"tables, got {type(X).__name__}"
            )
        if groups is not None:
            raise ValueError(
                "groups must be None where X is a mapping or a sequence of tables "
                "(one per source); stack the tables to use groups"
            )
        if isinstance(X, Mapping):
            return cls._from_tables(list(X.keys()), list(X.values()))
        return cls._from_tables(list(range(len(X))), list(X))

    @classmethod
    def _from_stacked(cls, X: Any, groups: Any) -> Sources:
        if groups is None:
            raise ValueError(
                "groups must name the source of each row of a stacked X: pass groups=..., or a "
                "mapping or sequence of tables instead of X. Inside GridSearchCV, call "
                "sklearn.set_config(enable_metadata_routing=True) so that groups reach fit"
            )
        if isinstance(groups, str) and hasattr(X, "columns"):
            X, groups = _without_column(X, groups)
        samples = check_table(X, "X").copy()  # what the user does to X later changes nothing
        labels = np.asarray(groups, dtype=object)
        if labels.shape != (len(samples),):
            raise ValueError(
                f"groups must have one entry for each of the {len(samples)} rows of X, "
                f"got shape {labels.shape}"
            )
        order: dict[Hashable, int] = {}
        codes = np.empty(len(samples), dtype=np.intp)
        for row, label in enumerate(labels.tolist()):
            if not _is_hashable(label):
                raise TypeError(
                    f"groups must hold text, numbers or dates, got {label!r} in row {row}"
                )
            if _is_missing(label):
                raise ValueError(f"groups must not hold missing values, got {label!r} in row {row}")
            codes[row] = order.setdefault(label, len(order))
        return cls(samples, codes, tuple(order), column_names(X))

    @classmethod
    def _from_tables(cls, labels: list[Hashable], tables: list[Any]) -> Sources:
        if not tables:
            raise ValueError("X must hold at least one source, got none")
        checked: list[Array] = []
        names: tuple[str, ...] | None = None
        for label, table in zip(labels, tables, strict=True):
            where = f"source {label!r} of X"
            if names is not None:
                table = match_columns(table, names, where)
            checked.append(
                check_table(table, where, width=checked[0].shape[1] if checked else None)
            )
            names = names or column_names(table, where)
        codes = np.repeat(np.arange(len(tables)), [len(table) for table in checked])
        return cls(np.vstack(checked), codes, tuple(labels), names)

    @property
    def n_samples(self) -> int:
        """N, the number of samples of all sources."""
        return len(self.samples)

    @property
    def n_columns(self) -> int:
        """d, the width of the data."""
        return self.samples.shape[1]

    @property
    def n_sources(self) -> int:
        """M, the number of sources."""
        return len(self.labels)

    @cached_property
    def sizes(self) -> IntArray:
        """n_i, the number of samples of each source."""
        return np.bincount(self.codes, minlength=self.n_sources)

    def table(self, source: int) -> Array:
        """Samples of one source, (n_i, d)."""
        return self.samples[self.codes == source]

    def with_samples(self, samples: Array) -> Sources:
        """The same rows of the same sources with other values."""
        return replace(self, samples=samples)

    def restricted(self, rows: IntArray) -> Sources:
        """Some of the rows, in the order given; sources left without any are left out."""
        codes = self.codes[rows]
        left, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first)  # by first appearance among these rows
        place = np.empty(len(left), dtype=np.intp)
        place[order] = np.arange(len(left))
        labels = tuple(self.labels[source] for source in left[order])
        return Sources(self.samples[rows], place[codes], labels, self.names)

    def without(self, source: int) -> Sources:
        """All sources but one."""
        return self.restricted(np.flatnonzero(self.codes != source))


@dataclass(frozen=True)
class SampledSources(Sources):
    """A random sample of sources that are too large for memory.

    Attributes
    ----------
    samples, codes, labels, names
        Of the sample, as for `Sources`.
    counts : ndarray of shape (M,)
        How many samples each source has in all.
    """

    counts: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @cached_property
    def sizes(self) -> IntArray:
        """n_i, the number of samples of each source, in the sample or not."""
        return self.counts


def _without_column(X: Any, name: str) -> tuple[Any, Any]:
    """A DataFrame without a column, and that column."""
    if name not in list(X.columns):
        raise ValueError(f"groups must name a column of X, got {name!r}; X has {list(X.columns)}")
    return X.drop(columns=name), X[name]


def is_stacked(X: Any) -> bool:
    """Whether data are one table: an array, a DataFrame or a list of rows of numbers."""
    if hasattr(X, "iloc") or isinstance(X, np.ndarray):
        return True
    if isinstance(X, Sequence) and not isinstance(X, (str, bytes)) and len(X) > 0:
        first = X[0]
        return _is_row(first) and not any(_is_row(cell) or np.ndim(cell) for cell in first)
    return False


def _is_row(cells: Any) -> bool:
    return isinstance(cells, Sequence) and not isinstance(cells, (str, bytes)) and len(cells) > 0


def _is_hashable(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _is_missing(label: Any) -> bool:
    """None, NaN and NaT, which are unequal to themselves, and pandas' NA, which will not say."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def column_names(X: Any, where: str = "X") -> tuple[str, ...] | None:
    """Column names of a DataFrame, as text; None for anything else."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = tuple(str(column) for column in columns)
    if len(set(names)) < len(names):
        raise ValueError(f"{where} must have distinct column names, got {list(names)}")
    return names


def column_quantiles(samples: Array, levels: tuple[float, float]) -> tuple[Array, Array]:
    """Quantiles of each column at two levels, of all rows together: each of shape (d,)."""
    low, high = np.quantile(samples, levels, axis=0)
    return low, high


def match_columns(X: Any, names: tuple[str, ...] | None, where: str = "X") -> Any:
    """Return ``X`` with its columns in the order of ``names``; refuse other columns.

    Data without names (arrays) pass unchanged: their order is taken on trust.
    """
    given = column_names(X, where)
    if given is None or names is None or given == names:
        return X
    if sorted(given) != sorted(names):
        raise ValueError(f"{where} must have the columns {list(names)}, got {list(given)}")
    return X.iloc[:, [given.index(name) for name in names]]
