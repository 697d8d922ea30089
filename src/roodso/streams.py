r"""Samples that are not in memory: files, memory-mapped arrays and Dask data frames.

A stream hands out its samples in pieces, any number of times. What `RooDSO` needs of them are a few
passes, each of which keeps only sums and the few points that matter
(`roodso.lowrank`, `roodso.solver.sweeps`):

1. `Stream.scan`: sizes of the sources, box of the samples, a random sample of them;
2. what landmarks learn of the sources, N r kernel values;
3. one sweep for each candidate of decision and witness, some five in all.

The sample is drawn by lot: every sample gets a random number, and those with the smallest are kept,
so it does not depend on the order in which pieces are finished.
"""

from __future__ import annotations

import glob
import os
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from roodso._typing import Array, IntArray
from roodso._validation import check_integer
from roodso.chunks import Chunk, Chunks
from roodso.embedding import _blas
from roodso.sources import SampledSources, Sources

__all__ = ["Stream", "from_arrays", "from_dask", "from_parquet", "open_data"]

T = TypeVar("T")

#: Samples that a scan keeps of all, and of each source at least (if it has them).
_KEPT, _KEPT_EACH = 20_000, 50
#: Rows of a piece unless told otherwise.
_ROWS = 1 << 16
#: Numbers of a piece's points begin at its own number shifted by so many bits.
_SHIFT = 40


@dataclass(frozen=True)
class Piece:
    """Some rows as they were read.

    Attributes
    ----------
    points : ndarray of shape (n, d)
    labels : list
        Names of the sources in it.
    inverse : ndarray of int, shape (n,)
        Which of them each row is from.
    number : int
        Of the piece; the same on every pass.
    where : str
        What to call it in messages.
    """

    points: Array
    labels: list[Any]
    inverse: IntArray
    number: int
    where: str


@dataclass(frozen=True)
class Scan:
    """What one pass tells of all samples.

    Attributes
    ----------
    counts : dict
        Number of samples by source, in order of first appearance.
    lower, upper : ndarray of shape (d,)
    sample : ndarray of shape (m, d)
    labels : list of length m
    numbers, lots : ndarrays of shape (m,)
        Where each is, and the random number that it was kept for.
    """

    counts: dict[Hashable, int]
    lower: Array
    upper: Array
    sample: Array
    labels: list[Any]
    numbers: IntArray
    lots: Array

    def __add__(self, other: Scan) -> Scan:
        if not self.counts:
            return other
        counts = dict(self.counts)
        for label, count in other.counts.items():
            counts[label] = counts.get(label, 0) + count
        return Scan(
            counts,
            np.minimum(self.lower, other.lower),
            np.maximum(self.upper, other.upper),
            np.vstack([self.sample, other.sample]),
            self.labels + other.labels,
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.lots, other.lots]),
        ).trimmed()

    def trimmed(self) -> Scan:
        """Only the samples of small lot: the smallest of all, and of each source."""
        rows = _kept(self.lots, pd.factorize(np.asarray(self.labels, dtype=object))[0])
        if len(rows) == len(self.lots):
            return self
        return Scan(
            self.counts,
            self.lower,
            self.upper,
            self.sample[rows],
            [self.labels[row] for row in rows],
            self.numbers[rows],
            self.lots[rows],
        )


def _kept(lots: Array, codes: IntArray) -> IntArray:
    """Rows with the smallest lots of all, and of each code."""
    keep = np.zeros(len(lots), dtype=np.bool_)
    order = np.argsort(lots, kind="stable")
    keep[order[:_KEPT]] = True
    by_code = order[np.argsort(codes[order], kind="stable")]
    starts = np.searchsorted(codes[by_code], codes[by_code], side="left")
    keep[by_code[np.arange(len(codes)) - starts < _KEPT_EACH]] = True
    return np.flatnonzero(keep)


_NOTHING = Scan(
    {}, np.empty(0), np.empty(0), np.empty((0, 0)), [], np.empty(0, dtype=np.intp), np.empty(0)
)


@dataclass(frozen=True)
class _Summarize:
    """The scan of one piece."""

    seed: int

    def __call__(self, piece: Piece) -> Scan | None:
        points = piece.points
        if len(points) == 0:
            return None
        bad = ~np.isfinite(points)
        if bad.any():
            row, column = (int(index) for index in np.argwhere(bad)[0])
            raise ValueError(
                f"{piece.where} must hold finite numbers, got {points[row, column]} in row {row}, "
                f"column {column} ({int(bad.sum())} such cell(s) in all)"
            )
        missing = [label for label in piece.labels if pd.isna(label)]
        if missing or (piece.inverse < 0).any():
            raise ValueError(f"{piece.where} must not have missing values in the group column")
        counts = np.bincount(piece.inverse, minlength=len(piece.labels))
        lots = np.random.default_rng([self.seed, piece.number]).random(len(points))
        rows = _kept(lots, piece.inverse)
        return Scan(
            dict(zip(piece.labels, counts.tolist(), strict=True)),
            points.min(axis=0),
            points.max(axis=0),
            points[rows],
            [piece.labels[code] for code in piece.inverse[rows]],
            (piece.number << _SHIFT) + rows,
            lots[rows],
        )


@dataclass(frozen=True)
class _Coded:
    """Work on a chunk, for a piece: its sources by number."""

    work: Callable[[Chunk], Any]
    codes: dict[Hashable, int]

    def __call__(self, piece: Piece) -> Any:
        codes = np.array([self.codes[label] for label in piece.labels], dtype=np.intp)
        own = codes[piece.inverse] if len(codes) else np.empty(0, dtype=np.intp)
        return self.work(Chunk(piece.points, own, piece.number << _SHIFT))


class Stream(Chunks):
    """Samples of M sources, read in pieces, as often as needed.

    Made by `from_parquet`, `from_arrays` and `from_dask`; `RooDSO.fit` takes it in the place of a
    table.
    """

    _scan: Scan | None = None
    names: tuple[str, ...] | None = None

    @abstractmethod
    def pieces(self, work: Callable[[Piece], T], *, n_jobs: int = 1) -> Iterator[T]:
        """``work`` of each piece, in the pieces' order."""

    def scan(self, seed: int = 0, *, n_jobs: int = 1) -> Scan:
        """One pass for sizes, box and sample; remembered."""
        if self._scan is None:
            parts = self.pieces(_Summarize(seed), n_jobs=n_jobs)
            found = reduce(add, filter(None, parts), _NOTHING)
            if found is _NOTHING:
                raise ValueError("the data hold no samples")
            self._scan = found
        return self._scan

    def map(self, work: Callable[[Chunk], T], *, n_jobs: int = 1) -> Iterator[T]:
        """See `Chunks.map`."""
        codes = {label: code for code, label in enumerate(self.scan(n_jobs=n_jobs).counts)}
        return self.pieces(_Coded(work, codes), n_jobs=n_jobs)

    def sampled(self, seed: int = 0, *, n_jobs: int = 1) -> tuple[SampledSources, IntArray]:
        """The sample as sources that know how many they stand for; and the samples' numbers."""
        scan = self.scan(seed, n_jobs=n_jobs)
        codes = {label: code for code, label in enumerate(scan.counts)}
        own = np.array([codes[label] for label in scan.labels], dtype=np.intp)
        counts = np.array(list(scan.counts.values()), dtype=np.intp)
        order = np.argsort(scan.numbers, kind="stable")
        sources = SampledSources(
            scan.sample[order], own[order], tuple(scan.counts), self.names, counts
        )
        return sources, scan.numbers[order]


def _bounded(work: Callable[[Any], T], items: Iterable[Any], n_jobs: int) -> Iterator[T]:
    """Results in order, from threads; no more items are drawn than are being worked on."""
    with _blas().limit(limits=1, user_api="blas"):
        if n_jobs == 1:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            waiting: deque[Future[T]] = deque()
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


class _Read(Stream):
    """A stream whose pieces are read here, one after the other."""

    @abstractmethod
    def _read(self) -> Iterator[Piece]:
        """The pieces, from the first."""

    def pieces(self, work: Callable[[Piece], T], *, n_jobs: int = 1) -> Iterator[T]:
        """See `Stream.pieces`."""
        return _bounded(work, self._read(), n_jobs)


class _Arrays(_Read):
    """Tables that can be sliced, one per source, or one with the source of each row."""

    def __init__(
        self, tables: list[tuple[Hashable, Any]], groups: Any, rows: int, names: Any
    ) -> None:
        self._tables = tables
        self._groups = groups
        self._rows = rows
        self.names = names

    def _read(self) -> Iterator[Piece]:
        number = 0
        for label, table in self._tables:
            for start in range(0, len(table), self._rows):
                points = _as_points(table[start : start + self._rows], f"source {label!r} of X")
                if self._groups is None:
                    labels, inverse = [label], np.zeros(len(points), dtype=np.intp)
                else:
                    labels, inverse = _factorized(self._groups[start : start + self._rows])
                yield Piece(points, labels, inverse, number, f"rows from {start} of {label!r}")
                number += 1


class _Parquet(_Read):
    """Parquet files, one or more per source, or with a column that names it."""

    def __init__(
        self, files: list[tuple[Hashable, str]], group: str | None, columns: list[str], rows: int
    ) -> None:
        self._files = files
        self._group = group
        self._columns = columns
        self._rows = rows
        self.names = tuple(columns)

    def _read(self) -> Iterator[Piece]:
        from pyarrow.parquet import ParquetFile

        number = 0
        wanted = [*self._columns, *([] if self._group is None else [self._group])]
        for label, path in self._files:
            with ParquetFile(path) as file:
                for batch in self._batches(file, wanted):
                    # Without pandas' own notes, which would make some columns an index.
                    frame = batch.replace_schema_metadata(None).to_pandas()
                    yield _piece(frame, self._columns, self._group, label, number, path)
                    number += 1

    def _batches(self, file: Any, wanted: list[str]) -> Iterator[Any]:
        """One row group at a time: asked for all, pyarrow keeps all that it has read."""
        for group in range(file.num_row_groups):
            yield from file.iter_batches(batch_size=self._rows, row_groups=[group], columns=wanted)


class _Dask(Stream):
    """The partitions of a Dask data frame; work goes to where they are."""

    def __init__(self, frame: Any, group: str, columns: list[str]) -> None:
        self._frame = frame
        self._group = group
        self._columns = columns
        self.names = tuple(str(name) for name in columns)

    def pieces(self, work: Callable[[Piece], T], *, n_jobs: int = 1) -> Iterator[T]:
        """See `Stream.pieces`; ``n_jobs`` is the cluster's matter."""
        import dask

        task = dask.delayed(_on_partition, pure=False)
        asked = dask.delayed(work, pure=False)  # sent once, not with every task
        tasks = [
            task(asked, part, self._columns, self._group, number)
            for number, part in enumerate(self._frame.to_delayed())
        ]
        client = _client()
        if client is None:
            yield from dask.compute(*tasks)
            return
        futures = client.compute(tasks)
        for place, future in enumerate(futures):
            yield future.result()
            futures[place] = None  # the cluster may forget it


def _client() -> Any:
    """The current client of a Dask cluster, if there is one."""
    try:
        from distributed import get_client
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


def _on_partition(
    work: Callable[[Piece], T], frame: Any, columns: list[str], group: str, number: int
) -> T:
    """Work on one partition; BLAS keeps to the one thread that the cluster gave the task."""
    with _blas().limit(limits=1, user_api="blas"):
        return work(_piece(frame, columns, group, None, number, f"partition {number}"))


def _piece(
    frame: pd.DataFrame,
    columns: list[str],
    group: str | None,
    label: Hashable,
    number: int,
    where: str,
) -> Piece:
    points = _as_points(frame[columns], where)
    if group is None:
        labels, inverse = [label], np.zeros(len(points), dtype=np.intp)
    else:
        labels, inverse = _factorized(frame[group])
    return Piece(points, labels, inverse, number, where)


def _as_points(table: Any, where: str) -> Array:
    try:
        return np.ascontiguousarray(np.asarray(table, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where} must hold numbers only: {error}") from None


def _factorized(groups: Any) -> tuple[list[Any], IntArray]:
    codes, labels = pd.factorize(np.asarray(groups, dtype=object))
    return list(labels), codes.astype(np.intp)


def from_arrays(tables: Any, *, groups: Any = None, chunk_rows: int = _ROWS) -> Stream:
    """Stream arrays that need not fit into memory, such as ``np.memmap``.

    Parameters
    ----------
    tables : mapping or sequence of (n_i, d) arrays, or one (N, d) array
        One array per source; or all samples in one, with ``groups``. They are read in slices, never
        as a whole.
    groups : array of length N, optional
        The source of each row of one array.
    chunk_rows : int, default=65536
        Rows read at a time.

    Returns
    -------
    Stream

    Examples
    --------
    >>> import numpy as np
    >>> from roodso import RooDSO
    >>> from roodso.losses import Newsvendor
    >>> rng = np.random.default_rng(0)
    >>> shops = {name: rng.normal(i, 1.0, (500, 1)) for i, name in enumerate("abc")}
    >>> model = RooDSO(Newsvendor(price=5, cost=2), tol=1e-4, random_state=0)
    >>> model = model.fit(from_arrays(shops))
    >>> model.solution_.status, model.solution_.embedding.kind
    ('optimal', 'low rank')
    """
    check_integer(chunk_rows, "chunk_rows", low=1)
    if groups is not None:
        if not hasattr(tables, "shape") or len(groups) != len(tables):
            raise ValueError(
                "groups must have one entry for each row of one array, got "
                f"{len(groups)} entries and {type(tables).__name__}"
            )
        listed: list[tuple[Hashable, Any]] = [("X", tables)]
    elif isinstance(tables, Mapping):
        listed = list(tables.items())
    elif isinstance(tables, Sequence) and not isinstance(tables, str | bytes):
        listed = list(enumerate(tables))
    else:
        raise TypeError(
            "tables must be a mapping or sequence of arrays, one per source, or one array with "
            f"groups, got {type(tables).__name__}"
        )
    if not listed:
        raise ValueError("tables must hold at least one source, got none")
    widths = {label: np.shape(table)[1:] for label, table in listed}
    first = next(iter(widths.values()))
    for label, width in widths.items():
        if len(width) != 1 or width != first:
            raise ValueError(
                f"source {label!r} must be a table of the first one's width, got shape "
                f"{np.shape(dict(listed)[label])}"
            )
    empty = [label for label, table in listed if len(table) == 0]
    if empty:
        raise ValueError(f"source {empty[0]!r} of tables must have at least one row")
    return _Arrays(listed, groups, chunk_rows, None)


def from_parquet(
    paths: Any,
    *,
    group: str | None = None,
    columns: Sequence[str] | None = None,
    chunk_rows: int = _ROWS,
) -> Stream:
    """Stream Parquet files, which need not fit into memory.

    Parameters
    ----------
    paths : str or path-like, sequence of these, or mapping of source to these
        A file, a folder of files, or a pattern like ``"sales/*.parquet"``. A mapping has one entry
        per source; otherwise ``group`` names the column that does.
    group : str, optional
        The column that names the source.
    columns : sequence of str, optional
        The columns to use; by default all but ``group``.
    chunk_rows : int, default=65536
        Rows read at a time.

    Returns
    -------
    Stream

    Examples
    --------
    ::

        stream = roodso.streams.from_parquet("sales/*.parquet", group="store")
        model = RooDSO(loss).fit(stream)
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError("reading Parquet files needs pyarrow: pip install 'roodso[io]'") from None
    check_integer(chunk_rows, "chunk_rows", low=1)
    if isinstance(paths, Mapping):
        if group is not None:
            raise ValueError(
                f"group must be None where paths is a mapping of source to files, got {group!r}"
            )
        files = [(label, path) for label, given in paths.items() for path in _files(given)]
    else:
        if group is None:
            raise ValueError(
                "group must name the column that says which source a row is from; or give paths "
                "as a mapping of source to files"
            )
        files = [(None, path) for path in _files(paths)]
    present = [
        name
        for name in parquet.read_schema(files[0][1]).names
        if not name.startswith("__index_level_")
    ]
    chosen = [name for name in present if name != group] if columns is None else list(columns)
    if not chosen:
        raise ValueError(f"columns must name at least one column, {files[0][1]} has {present}")
    for _, path in files:
        absent = {*chosen, *([group] if group else [])} - set(parquet.read_schema(path).names)
        if absent:
            raise ValueError(f"{path} must have the columns {sorted(absent)}, it does not")
    return _Parquet(files, group, chosen, chunk_rows)


def _files(given: Any) -> list[str]:
    """The files that a path, a folder, a pattern or a sequence of these means."""
    if isinstance(given, str | os.PathLike):
        text = os.fspath(given)
        if Path(text).is_dir():
            found = sorted(str(path) for path in Path(text).glob("*.parquet"))
        elif Path(text).exists():
            found = [text]
        else:
            found = sorted(glob.glob(text))
        if not found:
            raise FileNotFoundError(f"paths: no Parquet file is meant by {text!r}")
        return found
    if isinstance(given, Sequence) and given:
        return [path for part in given for path in _files(part)]
    raise TypeError(f"paths must be text, a path, or a sequence or mapping of these, got {given!r}")


def from_dask(frame: Any, group: str, *, columns: Sequence[str] | None = None) -> Stream:
    """Stream the partitions of a Dask data frame: work goes to where they are.

    Only small things travel: landmarks and their factor, a decision and its witness to the
    partitions, and sums by source and the few worst rows back. A partition that is lost with its
    worker is computed again, which changes nothing.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        ``frame.persist()`` keeps it in the cluster's memory between passes.
    group : str
        The column that names the source.
    columns : sequence of str, optional
        The columns to use; by default all but ``group``.

    Returns
    -------
    Stream
    """
    try:
        import dask.dataframe as dd
    except ImportError:
        raise ImportError("Dask data frames need: pip install 'roodso[dask]'") from None
    if not isinstance(frame, dd.DataFrame):
        raise TypeError(f"frame must be a Dask data frame, got {type(frame).__name__}")
    present = list(frame.columns)
    if group not in present:
        raise ValueError(f"group must be one of the columns {present}, got {group!r}")
    chosen = [name for name in present if name != group] if columns is None else list(columns)
    absent = [name for name in chosen if name not in present]
    if absent or not chosen:
        raise ValueError(f"columns must be some of {present}, got {chosen}")
    return _Dask(frame, group, chosen)


def open_data(X: Any, groups: Any = None) -> Sources | Stream:
    """Samples in memory as `Sources`, and what is elsewhere as a `Stream`.

    Parameters
    ----------
    X
        A `Stream`, a Dask data frame, or whatever `Sources.from_data` takes.
    groups
        With a Dask data frame the name of its column that names the source.
    """
    if callable(getattr(X, "pieces", None)):
        if groups is not None:
            raise ValueError("groups must be None where X is a stream, which has its own")
        stream: Stream = X
        return stream
    if type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "to_delayed"):
        if not isinstance(groups, str):
            raise ValueError(
                "groups must be the name of the column that says which source a row is from, "
                f"where X is a Dask data frame, got {groups!r}"
            )
        return from_dask(X, groups)
    return Sources.from_data(X, groups)
