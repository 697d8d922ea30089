r"""Mean embeddings of all sources at all points, from one pass over kernel values.

With :math:`\hat\mu_i = n_i^{-1} \sum_j k(\xi_{ij}, \cdot)` (paper, eq:empirical_counterpart) the
pass yields

.. math:: E_{li} = \hat\mu_i(v_l), \qquad
          \hat K_{ii'} = \langle \hat\mu_i, \hat\mu_{i'} \rangle
                       = n_i^{-1} \sum_j E_{(ij) i'}

(eq:empirical_Gram_matrix) at a cost of N (N + 1) / 2 + N J kernel evaluations, in tiles that stay
in cache and are spread over threads. No N x N matrix is ever held. Sums run in an order that does
not depend on the number of threads, so results are equal bit for bit.

Written by hand because no library has it: scikit-learn's pairwise functions hold the matrix, and
the sums of a tile have to be taken while it is still in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from roodso._typing import Array, IntArray
from roodso.kernels import Kernel
from roodso.pairs import Pairs
from roodso.sources import Sources

__all__ = [
    "Coordinates",
    "Embedding",
    "KernelSpace",
    "group_means",
    "source_means",
    "source_means_at",
]

#: Rows and columns of a tile: 512 x 512 doubles are 2 MB, which two threads keep in cache.
_BLOCK = 512
#: Interquartile range of a Gaussian, in standard deviations.
_GAUSSIAN_IQR = 1.3489795003921634


@dataclass(frozen=True)
class Coordinates:
    """The map from the user's units to the kernel's coordinates: (clipped x - shift) / scale.

    The shift changes no kernel value. It keeps the digits of squared distances when data lie far
    from the origin. Between the fences, if there are any, the map is affine; what lies beyond one
    counts as lying on it.
    """

    shift: Array
    scale: Array
    fences: tuple[Array, Array] | None = None

    @classmethod
    def from_samples(
        cls,
        samples: Array,
        *,
        scale: bool | str = False,
        fences: tuple[Array, Array] | None = None,
    ) -> Coordinates:
        """Centre on the samples, clipped at the fences, and divide by each column's spread.

        Parameters
        ----------
        samples : ndarray of shape (N, d)
        scale : {False, True, "robust"}
            The spread: none; the standard deviation; that of a Gaussian with the column's
            interquartile range, which a few outliers hardly change.
        fences : (lower, upper), each of shape (d,), optional
        """
        if fences is not None:
            samples = np.clip(samples, *fences)
        return cls(samples.mean(axis=0), _spread(samples, scale), fences)

    def clipped(self, x: Array) -> Array:
        """Points in the user's units, moved to the fences where they lie beyond."""
        return x if self.fences is None else np.clip(x, *self.fences)

    def __call__(self, x: Array) -> Array:
        """Map (n, d) points in the user's units to the kernel's coordinates."""
        return np.ascontiguousarray((self.clipped(x) - self.shift) / self.scale)


def _spread(samples: Array, scale: bool | str) -> Array:
    """By column, see `Coordinates.from_samples`; 1 where there is none."""
    deviation = samples.std(axis=0) if scale else np.ones(samples.shape[1])
    # A constant column has a deviation of rounding size at most; it carries no distance.
    negligible = deviation <= 1e-12 * np.abs(samples).max(axis=0)
    if scale == "robust":
        low, high = np.quantile(samples, [0.25, 0.75], axis=0)
        middle = (high - low) / _GAUSSIAN_IQR
        # Where half of a column or more is one value, only the rest says how wide it is.
        deviation = np.where(middle > 1e-12 * deviation, middle, deviation)
    return np.where(negligible, 1.0, deviation)


@dataclass(frozen=True)
class KernelSpace:
    """A kernel together with the coordinates it works in: k on the user's units."""

    kernel: Kernel
    coordinates: Coordinates

    def __call__(self, a: Array, b: Array) -> Array:
        """Kernel values between points given in the user's units."""
        return self.kernel(self.coordinates(a), self.coordinates(b))


@dataclass(frozen=True)
class Embedding:
    """The sources' mean embeddings, known by their values at points.

    Attributes
    ----------
    space : KernelSpace
    support : ndarray of shape (L, d)
        Where the means are known, in the user's units, unrounded; the N samples come first.
    points : ndarray of shape (L, d)
        The same points in the kernel's coordinates.
    means : ndarray of shape (L, M)
        E, the value of each source's mean embedding at each point.
    sources : Sources
    """

    space: KernelSpace
    support: Array
    points: Array
    means: Array
    sources: Sources

    @classmethod
    def compute(
        cls, space: KernelSpace, sources: Sources, extra: Array, *, n_jobs: int = 1
    ) -> Embedding:
        """Run the pass over all samples and ``extra`` points (J, d), given in the user's units."""
        samples = space.coordinates(sources.samples)
        drawn = space.coordinates(extra)
        means = source_means(
            space.kernel, samples, sources.codes, sources.n_sources, drawn, n_jobs=n_jobs
        )
        support = np.vstack([sources.samples, extra])
        return cls(space, support, np.vstack([samples, drawn]), means, sources)

    def extended(self, extra: Array, *, n_jobs: int = 1) -> Embedding:
        """The same embedding known at further points (user's units) besides."""
        drawn = self.space.coordinates(extra)
        means = self.means_at(drawn, n_jobs=n_jobs)
        support, points = np.vstack([self.support, extra]), np.vstack([self.points, drawn])
        return Embedding(self.space, support, points, np.vstack([self.means, means]), self.sources)

    def restricted(self, rows: IntArray, *, n_jobs: int = 1) -> Embedding:
        """The same without the other samples, which leave the support too; drawn points stay.

        Where every source is kept whole or left out, all values are known already; else those at
        what is left are computed anew, with the same kernel.

        Parameters
        ----------
        rows : ndarray of int
            Numbers of the samples kept, ascending.
        """
        drawn = np.arange(self.sources.n_samples, len(self.support))
        kept = self.sources.restricted(rows)
        if not self.keeps_whole(rows):
            return Embedding.compute(self.space, kept, self.support[drawn], n_jobs=n_jobs)
        points = np.concatenate([rows, drawn])
        columns = self.sources.codes[rows][np.unique(kept.codes, return_index=True)[1]]
        return Embedding(
            self.space,
            self.support[points],
            self.points[points],
            np.ascontiguousarray(self.means[np.ix_(points, columns)]),
            kept,
        )

    def keeps_whole(self, rows: IntArray) -> bool:
        """Whether each source has all of its samples among ``rows``, ascending, or none."""
        codes = self.sources.codes
        return np.array_equal(np.flatnonzero(np.isin(codes, np.unique(codes[rows]))), rows)

    def means_at(self, points: Array, *, n_jobs: int = 1) -> Array:
        """All sources' mean embeddings at points in the kernel's coordinates: (m, M)."""
        samples = self.points[: self.sources.n_samples]
        sources = self.sources
        return source_means_at(
            self.space.kernel, points, samples, sources.codes, sources.n_sources, n_jobs=n_jobs
        )

    @cached_property
    def gram(self) -> Array:
        """Gram matrix of the sources' embeddings, eq:empirical_Gram_matrix: (M, M)."""
        return group_means(self.means[: self.sources.n_samples], self.sources)

    @property
    def errors(self) -> Array:
        r"""What ``means`` and ``gram`` may lack of each source's embedding: (M,), here nothing.

        With errors e, :math:`|\sum_i t_i \hat\mu_i|^2` is at least t' gram t, and more by at most
        :math:`(\sum_i |t_i| e_i)^2`.
        """
        return np.zeros(self.sources.n_sources)

    def exact_means(self, index: IntArray) -> Array:
        """The sources' embeddings at the points numbered ``index``, without error: (m, M)."""
        return self.means[index]

    def averages(self, values: Array) -> Array:
        """Each source's mean of values known at the samples, or at all points: (M,)."""
        sources = self.sources
        sums = np.bincount(sources.codes, values[: sources.n_samples], sources.n_sources)
        return sums / sources.sizes

    def expansion(
        self, index: IntArray, coefficients: Array, source_coefficients: Array
    ) -> tuple[Array, Array]:
        """A combination of kernel functions at points and of means, by kernel functions alone.

        Parameters
        ----------
        index : ndarray of int, shape (P,)
        coefficients : ndarray of shape (P,)
        source_coefficients : ndarray of shape (M,)

        Returns
        -------
        points : ndarray of shape (m, d)
            In the user's units.
        coefficients : ndarray of shape (m,)
        """
        combined = np.zeros(len(self.points))
        shares = source_coefficients / self.sources.sizes
        combined[: self.sources.n_samples] = shares[self.sources.codes]
        np.add.at(combined, index, coefficients)
        used = np.flatnonzero(combined)
        return self.support[used], combined[used]

    def mean_mass(self, coefficients: Array) -> float:
        """The absolute coefficients of a combination of means, as an `expansion`, added up."""
        return float(np.abs(coefficients).sum())

    @cached_property
    def rounding(self) -> float:
        """By about how much kernel values, and means of them, may be wrong."""
        return Pairs(self.space.kernel, self.points, self.points).rounding

    def columns(self, index: IntArray) -> Array:
        """Kernel values of all points against those numbered ``index``: (L, m)."""
        return Pairs(self.space.kernel, self.points, self.points[index]).values()


def group_means(values: Array, sources: Sources) -> Array:
    """Mean over each source's rows of (N, M) values, made symmetric."""
    sums = np.zeros((sources.n_sources, values.shape[1]))
    order = np.argsort(sources.codes, kind="stable")
    starts = np.searchsorted(sources.codes[order], np.arange(sources.n_sources))
    np.add.reduceat(values[order], starts, axis=0, out=sums)
    gram = sums / sources.sizes[:, None]
    return 0.5 * (gram + gram.T)


def source_means(
    kernel: Kernel,
    samples: Array,
    codes: IntArray,
    n_sources: int,
    extra: Array | None = None,
    *,
    n_jobs: int = 1,
) -> Array:
    """Values of every source's mean embedding at all samples and at extra points.

    The kernel's symmetry halves the work among samples.

    Parameters
    ----------
    kernel : Kernel
    samples : ndarray of shape (N, d)
        In the kernel's coordinates; centred, or digits are lost far from the origin.
    codes : ndarray of shape (N,)
        Source of each sample, each of 0 to ``n_sources`` - 1 at least once.
    n_sources : int
    extra : ndarray of shape (J, d), optional
    n_jobs : int

    Returns
    -------
    ndarray of shape (N + J, M)

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.kernels import RBF
    >>> x = np.array([[0.0], [1.0], [5.0]])
    >>> source_means(RBF(1.0), x, np.array([0, 0, 1]), 2).round(3).tolist()
    [[0.803, 0.0], [0.803, 0.0], [0.0, 1.0]]
    """
    order = np.argsort(codes, kind="stable")
    grouped = _Grouped(samples[order], codes[order], n_sources)
    among = np.empty((len(samples), n_sources))
    among[order] = _means_among(kernel, grouped, n_jobs)
    if extra is None or len(extra) == 0:
        return among
    return np.vstack([among, _means_of(kernel, extra, grouped, n_jobs)])


def source_means_at(
    kernel: Kernel,
    points: Array,
    samples: Array,
    codes: IntArray,
    n_sources: int,
    *,
    n_jobs: int = 1,
) -> Array:
    """Values of every source's mean embedding at points (m, d) alone: (m, M).

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.kernels import RBF
    >>> x = np.array([[0.0], [1.0], [5.0]])
    >>> source_means_at(RBF(1.0), x[1:2], x, np.array([0, 0, 1]), 2).round(3).tolist()
    [[0.803, 0.0]]
    """
    order = np.argsort(codes, kind="stable")
    return _means_of(kernel, points, _Grouped(samples[order], codes[order], n_sources), n_jobs)


@dataclass(frozen=True)
class _Grouped:
    """Samples sorted by source, cut into blocks of nearly equal size."""

    samples: Array
    codes: IntArray
    n_sources: int

    @cached_property
    def sizes(self) -> Array:
        return np.bincount(self.codes, minlength=self.n_sources).astype(np.float64)

    @cached_property
    def blocks(self) -> list[_Block]:
        """Blocks end where sources end if sources are large, so that most touch only one."""
        ends = np.cumsum(self.sizes).astype(np.intp)
        edges = [0]
        for end in ends:
            pieces = max(1, round((end - edges[-1]) / _BLOCK))
            if end - edges[-1] >= _BLOCK // 2 or end == ends[-1]:
                edges += np.linspace(edges[-1], end, pieces + 1).astype(int).tolist()[1:]
        return [_Block.of(self.codes, a, b) for a, b in pairwise(edges) if b > a]

    @cached_property
    def largest_block(self) -> int:
        return max(block.stop - block.start for block in self.blocks)


@dataclass(frozen=True)
class _Block:
    """Rows start to stop of the sorted samples, the sources in it and where each begins."""

    start: int
    stop: int
    first: int
    last: int
    offsets: IntArray

    @classmethod
    def of(cls, codes: IntArray, start: int, stop: int) -> _Block:
        first, last = int(codes[start]), int(codes[stop - 1])
        offsets = np.searchsorted(codes[start:stop], np.arange(first, last + 1))
        return cls(start, stop, first, last, offsets)

    @property
    def samples(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def sources(self) -> slice:
        return slice(self.first, self.last + 1)

    def sum_columns(self, tile: Array) -> Array:
        """Sum a tile's columns (this block's samples) source by source: (rows, sources)."""
        return np.add.reduceat(tile, self.offsets, axis=1)

    def sum_rows(self, tile: Array) -> Array:
        """Sum a tile's rows (this block's samples) source by source: (columns, sources)."""
        if len(self.offsets) == 1:  # the common case, three times as fast
            return tile.sum(axis=0)[:, None]
        return np.add.reduceat(tile, self.offsets, axis=0).T


def _means_among(kernel: Kernel, grouped: _Grouped, n_jobs: int) -> Array:
    """Means at the samples themselves: tiles on and above the diagonal serve both sides."""
    pairs = Pairs(kernel, grouped.samples, grouped.samples)
    blocks = grouped.blocks

    def row_of_tiles(a: int) -> tuple[Array, list[Array]]:
        rows = blocks[a]
        own = np.zeros((rows.stop - rows.start, grouped.n_sources))
        below: list[Array] = []
        buffer = np.empty(len(own) * grouped.largest_block)
        for b in range(a, len(blocks)):
            columns = blocks[b]
            tile = pairs.values(rows.samples, columns.samples, buffer)
            own[:, columns.sources] += columns.sum_columns(tile)
            if b > a:
                below.append(rows.sum_rows(tile))
        return own, below

    sums = np.zeros((len(grouped.samples), grouped.n_sources))
    for a, (own, below) in enumerate(_in_order(row_of_tiles, len(blocks), n_jobs)):
        rows = blocks[a]
        sums[rows.samples] += own
        for columns, part in zip(blocks[a + 1 :], below, strict=True):
            sums[columns.samples, rows.sources] += part
    return sums / grouped.sizes


def _means_of(kernel: Kernel, points: Array, grouped: _Grouped, n_jobs: int) -> Array:
    """Means at other points."""
    pairs = Pairs(kernel, points, grouped.samples)
    starts = range(0, len(points), _BLOCK)

    def row_of_tiles(a: int) -> Array:
        rows = slice(starts[a], min(starts[a] + _BLOCK, len(points)))
        own = np.zeros((rows.stop - rows.start, grouped.n_sources))
        buffer = np.empty(len(own) * grouped.largest_block)
        for columns in grouped.blocks:
            tile = pairs.values(rows, columns.samples, buffer)
            own[:, columns.sources] += columns.sum_columns(tile)
        return own

    parts = list(_in_order(row_of_tiles, len(starts), n_jobs))
    return np.vstack(parts) / grouped.sizes if parts else np.zeros((0, grouped.n_sources))


def _in_order(task: Any, count: int, n_jobs: int) -> Iterator[Any]:
    """Results of task(0), task(1), ... in this order, computed by ``n_jobs`` threads.

    BLAS keeps to one thread meanwhile: the tiles are the parallelism, and its own threads would
    change the rounding with ``n_jobs``.
    """
    with _blas().limit(limits=1, user_api="blas"):
        if n_jobs == 1 or count <= 1:
            yield from map(task, range(count))
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            yield from pool.map(task, range(count))


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
