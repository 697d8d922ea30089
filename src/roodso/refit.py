r"""The embedding of samples most of which are known already: what a refit can take over.

Where the n samples of a source all stay and m come besides, at a point v that was there

.. math:: \hat\mu_i(v) = \frac{n \, \hat\mu_i^{old}(v) + \sum_{new} k(\xi, v)}{n + m}

costs m kernel values in the place of n + m. Points that are new, and sources that lost samples, are
computed as ever. The kernel has to be the same; a different shift of the coordinates changes none
of its values.
"""

from __future__ import annotations

import numpy as np

from roodso._typing import Array, IntArray
from roodso.embedding import Embedding, KernelSpace, source_means_at
from roodso.sources import Sources

__all__ = ["same_kernel", "updated"]


def same_kernel(one: KernelSpace, other: KernelSpace) -> bool:
    """Whether two spaces have the same kernel values between points in the user's units."""
    scales = one.coordinates.scale, other.coordinates.scale
    return one.kernel == other.kernel and np.array_equal(*scales)


def updated(
    known: Embedding, space: KernelSpace, sources: Sources, extra: Array, *, n_jobs: int = 1
) -> Embedding:
    """The embedding of other samples, with values of those that stay taken over.

    Parameters
    ----------
    known : Embedding
        Exact, with the same kernel.
    space : KernelSpace
    sources : Sources
    extra : ndarray of shape (J, d)
        Drawn points, in the user's units.
    n_jobs : int

    Returns
    -------
    Embedding
        What `Embedding.compute` gives, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.embedding import Coordinates
    >>> from roodso.kernels import RBF
    >>> space = KernelSpace(RBF(1.0), Coordinates(np.zeros(1), np.ones(1)))
    >>> none = np.empty((0, 1))
    >>> first = Embedding.compute(space, Sources.from_data({"a": [[0.0]], "b": [[1.0]]}), none)
    >>> later = Sources.from_data({"a": [[0.0]], "b": [[1.0], [2.0]]})
    >>> updated(first, space, later, none).means.round(3).tolist()
    [[1.0, 0.371], [0.607, 0.803], [0.135, 0.803]]
    """
    old, n = known.sources, sources.n_samples
    support = np.vstack([sources.samples, extra])
    points = space.coordinates(support)
    place = {label: number for number, label in enumerate(sources.labels)}
    now = np.array([place.get(label, -2) for label in old.labels], dtype=np.intp)
    before, after = _pairs(
        *(known.support, _codes(now[old.codes], known.support)),
        *(support, _codes(sources.codes, support)),
    )
    stay = np.bincount(old.codes[before[before < old.n_samples]], minlength=old.n_sources)
    whole = np.flatnonzero((stay == old.sizes) & (now >= 0))
    in_whole = np.isin(sources.codes, now[whole])
    taken_over = np.zeros(n, dtype=np.bool_)
    taken_over[after[after < n]] = True
    missing = np.flatnonzero(~(taken_over & in_whole))
    totals = np.zeros((len(after), sources.n_sources))
    totals[:, now[whole]] = known.means[np.ix_(before, whole)] * old.sizes[whole]
    totals += _sums(space, points[after], points[missing], sources.codes[missing], sources, n_jobs)
    means = np.empty((len(support), sources.n_sources))
    means[after] = totals / sources.sizes
    fresh = np.setdiff1d(np.arange(len(support)), after)
    means[fresh] = source_means_at(
        *(space.kernel, points[fresh], points[:n], sources.codes, sources.n_sources), n_jobs=n_jobs
    )
    return Embedding(space, support, points, means, sources)


def _codes(codes: IntArray, support: Array) -> IntArray:
    """The source of each support point; -1 for those after the samples."""
    return np.concatenate([codes, np.full(len(support) - len(codes), -1, dtype=np.intp)])


def _sums(
    space: KernelSpace,
    points: Array,
    samples: Array,
    codes: IntArray,
    sources: Sources,
    n_jobs: int,
) -> Array:
    """Of kernel values between points and some of the samples, by source: (m, M)."""
    sums = np.zeros((len(points), sources.n_sources))
    if len(samples) and len(points):
        present, own, sizes = np.unique(codes, return_inverse=True, return_counts=True)
        means = source_means_at(space.kernel, points, samples, own, len(present), n_jobs=n_jobs)
        sums[:, present] = means * sizes
    return sums


def _pairs(a: Array, a_codes: IntArray, b: Array, b_codes: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of a and b that are equal, code and all: each once, the k-th with the k-th."""
    rows = np.vstack([np.column_stack([a_codes, a]), np.column_stack([b_codes, b])]) + 0.0  # no -0
    same = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    of_a, of_b = (_occurrences(part, len(rows)) for part in np.split(same, [len(a)]))
    _, in_a, in_b = np.intersect1d(of_a, of_b, assume_unique=True, return_indices=True)
    return in_a, in_b


def _occurrences(values: IntArray, bound: int) -> IntArray:
    """Values made distinct by how often each came before, which is less often than ``bound``."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    rank = np.empty(len(values), dtype=np.intp)
    rank[order] = np.arange(len(values)) - np.searchsorted(ranked, ranked, side="left")
    return values * bound + rank
