r"""Mean embeddings when N is too large for N^2 kernel values: low rank, with what is left bounded.

**Features.** With landmarks S (r of the points) and :math:`L L^\top = K_{SS} + \lambda I`, put
:math:`\phi(x) = L^{-1} k(S, x)`. The kernel :math:`r(x, y) = k(x, y) - \phi(x)^\top \phi(y)` is
positive semidefinite (a Schur complement). For a source i let :math:`F_i` be the mean of
:math:`\phi` over its samples and

.. math:: m_i = \phi(\cdot)^\top F_i = \textstyle\sum_{p \in S} C_{pi} \, k(v_p, \cdot), \qquad
          C = L^{-\top} F .

These functions stand for the embeddings :math:`\hat\mu_i` in the loop. They are few kernel
functions, so their values anywhere cost r kernel values, and no N x r matrix is ever held.

**What is known of the sources.** Let q be the seminorm of signed measures that r gives,
:math:`q(t)^2 = \sum t_x t_y r(x, y)`. For any coefficients t of the sources

.. math:: \Big| \sum_i t_i \hat\mu_i \Big|^2 = t^\top F^\top F t + q(t)^2, \qquad
          0 \le q(t) \le \sum_i |t_i| \, e_i, \qquad e_i \ge q(\hat P_i).

A source's rows are cut into blocks b; as a seminorm of a mean of measures,

.. math:: q(\hat P_i) \le e_i = \sum_b \frac{n_b}{n_i} q(\hat P_b), \qquad
          q(\hat P_b)^2 = \frac{1}{n_b^2} \sum_{x, y \in b} k(x, y) - |F_b|^2 ,

at a cost of N times the block's size in kernel values. Errors of single points cancel within a
large block; however small it is, e is at most the mean of :math:`\sqrt{r(x, x)}`. With rounding
:math:`\epsilon` in kernel values the difference is wrong by some
:math:`\epsilon (1 + |C_b|_1)^2`, which is added.

**What is exact.** For g in the span of kernel functions and the :math:`m_i`: its values, hence its
mean over each source :math:`\langle g, \hat\mu_i \rangle`; and its norm, in which
:math:`|\sum t_i m_i|^2 = t^\top F^\top F t - \lambda |C t|^2` is rounded up. A witness found with
these functions proves what it says. What is not known exactly is which distributions are in the
set: `roodso.solver.certificate` carries the :math:`e_i` there.

**Landmarks** come from a sample of the points, by randomly pivoted Cholesky (Chen, Epperly, Tropp
and Webber, 2024): drawn in proportion to the present residuals r(x, x), a block at a time, in a
block as long as they are not each other's neighbours. A second sweep looks where the errors are
largest, and makes outliers that the sample missed landmarks too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf

from roodso._typing import Array, IntArray
from roodso.chunks import Chunk, Chunks, SourceChunks
from roodso.embedding import (
    _BLOCK,
    Embedding,
    KernelSpace,
    _in_order,
    group_means,
    source_means,
)
from roodso.kernels import Kernel
from roodso.pairs import Pairs
from roodso.sources import SampledSources, Sources

__all__ = [
    "Landmarks",
    "LowRank",
    "Streamed",
    "choose_landmarks",
    "embed",
    "learn_landmarks",
    "sample_landmarks",
]

#: Points that landmarks are chosen among; more would cost time and seldom change the choice.
_SAMPLE = 20_000
#: Kernel values up to which the exact pass is taken without a thought: seconds; and up to which it
#: is taken where low rank would not do: minutes.
_AFFORDABLE, _BEARABLE = 5e9, 5e10
#: Landmarks at most, unless told otherwise: their number squared, and cubed, is felt beyond.
_MAX_RANK = 2000
#: Samples of each source that the spread is estimated from, and the least it is taken to be.
_FEW, _LEAST_SPREAD = 100, 1e-3
#: Choices of landmarks before the errors are taken as they are.
_ATTEMPTS = 3
#: Samples of a block. An error is at most the root of the mean residual, whatever the blocks: where
#: that is small enough, small ones will do; where not, more kernel values make the most of it.
_FINE, _COARSE = 64, 2048
#: Landmarks drawn at a time; a drawn point becomes one while its residual given those before it in
#: its block is above this share of the block's largest.
_DRAWN, _KEEP = 64, 0.1
#: lambda, relative to C: keeps the factor's digits, and costs as little.
_JITTER = 1e-12
#: A block stands out with an error of this multiple of the chunk's median, a point in it with a
#: residual of at least this share of C; each chunk names the worst, of so many blocks and so many
#: points, and passes are repeated with them at most so often.
_OUTSTANDING, _LARGE, _WORST_BLOCKS, _WORST_POINTS, _SWEEPS = 4.0, 1e-3, 8, 256, 3


@dataclass(frozen=True)
class Landmarks:
    """What low rank knows of the sources' embeddings; see the module's text.

    Attributes
    ----------
    points : ndarray of shape (r, d)
        In the user's units.
    coefficients : ndarray of shape (r, M)
        C, by which the functions m_i are kernel expansions on the points.
    gram : ndarray of shape (M, M)
        F'F, the inner products of the m_i.
    errors : ndarray of shape (M,)
        e_i, bounds on what is left of each source's embedding.
    residual : float
        Mean of r(x, x) / C over the sample that the landmarks were chosen among.
    """

    points: Array
    coefficients: Array
    gram: Array
    errors: Array
    residual: float

    @property
    def rank(self) -> int:
        """r, the number of landmarks."""
        return len(self.points)

    def means_at(self, space: KernelSpace, points: Array, *, n_jobs: int = 1) -> Array:
        """Values of the m_i at points in the kernel's coordinates: (n, M)."""
        return _expansions(space, points, self, n_jobs)

    def restricted(self, sources: IntArray) -> Landmarks:
        """What is known of some of the sources."""
        return Landmarks(
            self.points,
            np.ascontiguousarray(self.coefficients[:, sources]),
            self.gram[np.ix_(sources, sources)],
            self.errors[sources],
            self.residual,
        )


@dataclass(frozen=True)
class LowRank(Embedding):
    """An `Embedding` whose ``means`` are those of the functions m_i.

    Attributes
    ----------
    space, support, points, sources
        As for `Embedding`.
    means : ndarray of shape (L, M)
        The value of each m_i at each point.
    landmarks : Landmarks

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.embedding import Coordinates
    >>> from roodso.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> sources = Sources.from_data([rng.normal(i, 1.0, (300, 2)) for i in range(3)])
    >>> space = KernelSpace(RBF(2.0), Coordinates(np.zeros(2), np.ones(2)))
    >>> low = LowRank.build(space, sources, np.empty((0, 2)), max_rank=40, tol=1e-6)
    >>> exact = Embedding.compute(space, sources, np.empty((0, 2)))
    >>> low.landmarks.rank <= 40, bool(np.abs(low.means - exact.means).max() < 1e-3)
    (True, True)
    >>> missing = np.diag(exact.gram - low.gram)  # between 0 and the squared errors
    >>> bool(((missing > -1e-12) & (missing <= low.errors**2)).all())
    True
    """

    landmarks: Landmarks

    @classmethod
    def build(
        cls,
        space: KernelSpace,
        sources: Sources,
        extra: Array,
        *,
        max_rank: int,
        tol: float,
        random_state: int = 0,
        n_jobs: int = 1,
    ) -> LowRank:
        """Choose landmarks, at most ``max_rank``, and compute the means by them.

        Parameters
        ----------
        space : KernelSpace
        sources : Sources
        extra : ndarray of shape (J, d)
            Drawn points, in the user's units.
        max_rank : int
        tol : float
            Mean residual, relative to C, at which no more landmarks are needed.
        random_state : int
            Draws the sample and the landmarks.
        n_jobs : int
        """
        chosen, residual = sample_landmarks(
            space, sources.samples, max_rank=max_rank, tol=tol, random_state=random_state
        )
        landmarks = _learn(space, sources, chosen, residual, max_rank, tol, n_jobs)
        return cls.from_landmarks(space, sources, extra, landmarks, n_jobs=n_jobs)

    @classmethod
    def from_landmarks(
        cls,
        space: KernelSpace,
        sources: Sources,
        extra: Array,
        landmarks: Landmarks,
        *,
        n_jobs: int = 1,
    ) -> LowRank:
        """The means' values at all samples and ``extra`` points (user's units)."""
        support = np.vstack([sources.samples, extra])
        points = space.coordinates(support)
        means = landmarks.means_at(space, points, n_jobs=n_jobs)
        return cls(space, support, points, means, sources, landmarks)

    def at(self, index: IntArray) -> LowRank:
        """The same known at some of the points only, which need not begin with the samples."""
        return LowRank(
            self.space,
            self.support[index],
            self.points[index],
            self.means[index],
            self.sources,
            self.landmarks,
        )

    def extended(self, extra: Array, *, n_jobs: int = 1) -> LowRank:
        """See `Embedding.extended`."""
        wider = super().extended(extra, n_jobs=n_jobs)
        return LowRank(
            self.space, wider.support, wider.points, wider.means, self.sources, self.landmarks
        )

    def restricted(self, rows: IntArray, *, n_jobs: int = 1) -> LowRank:
        """See `Embedding.restricted`: with the same landmarks."""
        kept = self.sources.restricted(rows)
        drawn = np.arange(self.sources.n_samples, len(self.support))
        if not self.keeps_whole(rows):
            known = self.landmarks
            fresh = _learn(
                self.space, kept, known.points, known.residual, known.rank, np.inf, n_jobs
            )
            return LowRank.from_landmarks(
                self.space, kept, self.support[drawn], fresh, n_jobs=n_jobs
            )
        points = np.concatenate([rows, drawn])
        columns = self.sources.codes[rows][np.unique(kept.codes, return_index=True)[1]]
        return LowRank(
            self.space,
            self.support[points],
            self.points[points],
            np.ascontiguousarray(self.means[np.ix_(points, columns)]),
            kept,
            self.landmarks.restricted(columns),
        )

    def means_at(self, points: Array, *, n_jobs: int = 1) -> Array:
        """Values of the m_i at points in the kernel's coordinates: (m, M)."""
        return self.landmarks.means_at(self.space, points, n_jobs=n_jobs)

    @cached_property
    def gram(self) -> Array:
        """F'F: (M, M)."""
        return self.landmarks.gram

    @property
    def errors(self) -> Array:
        """See `Embedding.errors`."""
        return self.landmarks.errors

    def exact_means(self, index: IntArray) -> Array:
        """See `Embedding.exact_means`: N kernel values a point."""
        return Embedding.means_at(self, self.points[index])

    def expansion(
        self, index: IntArray, coefficients: Array, source_coefficients: Array
    ) -> tuple[Array, Array]:
        """See `Embedding.expansion`: the means are on the landmarks."""
        known, used = self.landmarks, np.flatnonzero(coefficients)
        points = np.vstack([self.support[index[used]], known.points])
        of_means = known.coefficients @ source_coefficients
        return points, np.concatenate([coefficients[used], of_means])

    def mean_mass(self, coefficients: Array) -> float:
        """See `Embedding.mean_mass`."""
        return float(np.abs(self.landmarks.coefficients @ coefficients).sum())


@dataclass(frozen=True)
class Streamed(LowRank):
    """A `LowRank` of samples that are elsewhere; its support is a working set of them.

    Attributes
    ----------
    sources : SampledSources
    codes : ndarray of int
        The source of each point of the support; -1 for drawn points.
    numbers : ndarray of int
        Their numbers among all points.
    chunks : Chunks or None
        All samples; None where they are out of reach, as in a model that was saved.
    """

    codes: IntArray
    numbers: IntArray
    chunks: Chunks | None = field(default=None, metadata={"portable": False})

    def __getstate__(self) -> dict[str, Any]:
        """All but the samples: a pickle would hold arrays that were never meant to be in memory."""
        return {**self.__dict__, "chunks": None}

    @classmethod
    def learn(
        cls,
        space: KernelSpace,
        chunks: Chunks,
        sources: SampledSources,
        numbers: IntArray,
        box: tuple[Array, Array],
        extra: Array,
        *,
        max_rank: int | None = None,
        memory: float | None = None,
        tol: float = 1e-6,
        radius: float | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
    ) -> Streamed:
        """Choose landmarks on the sample, and learn by them of all samples.

        Parameters
        ----------
        space : KernelSpace
        chunks : Chunks
        sources : SampledSources
            The sample, which the support begins with.
        numbers : ndarray of int
            The sample's numbers among all.
        box : (lower, upper)
            That holds all samples.
        extra : ndarray of shape (J, d)
            Drawn points, in the user's units.
        max_rank, memory, tol, radius, random_state, n_jobs
            As for `embed`.
        """
        most = _largest_rank(max_rank, memory, min(sources.n_samples, _SAMPLE))
        aim = _needed(space, sources, tol, radius)
        first = sample_landmarks(
            space, sources.samples, max_rank=most, tol=aim, random_state=random_state
        )

        def learn(points: Array, residual: float) -> Landmarks:
            return learn_landmarks(
                *(space, chunks, sources.sizes, box, points, residual),
                max_rank=most,
                tol=aim,
                n_jobs=n_jobs,
            )

        landmarks = _until_accurate(learn, space, sources.samples, first, most, aim, random_state)
        known = LowRank.from_landmarks(space, sources, extra, landmarks, n_jobs=n_jobs)
        drawn = np.full(len(extra), -1, dtype=np.intp)
        return cls(
            *(space, known.support, known.points, known.means, sources, landmarks),
            codes=np.concatenate([sources.codes, drawn]),
            numbers=np.concatenate([numbers, -1 - np.arange(len(extra))]),
            chunks=chunks,
        )

    def restricted(self, rows: IntArray, *, n_jobs: int = 1) -> LowRank:
        """Refuse: the samples are not here."""
        raise ValueError(
            "this needs some of the samples alone, which works in memory only: give the data as a "
            "table and groups"
        )


def embed(
    space: KernelSpace,
    sources: Sources,
    extra: Array,
    *,
    kind: str = "auto",
    max_rank: int | None = None,
    memory: float | None = None,
    tol: float = 1e-6,
    radius: float | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
) -> Embedding:
    """The sources' embeddings, exact or by low rank.

    "auto" is exact while that takes seconds (up to some 100,000 samples). Beyond, landmarks are
    chosen on a sample; low rank is taken if they reach what the tolerance needs, or if the exact
    pass would take many minutes, and the exact one otherwise: in many columns the spectrum falls
    slowly, and no affordable rank is accurate.

    Parameters
    ----------
    space : KernelSpace
    sources : Sources
    extra : ndarray of shape (J, d)
        Drawn points, in the user's units.
    kind : {"auto", "exact", "low-rank"}, default="auto"
    max_rank : int, optional
        Largest number of landmarks; by default 2,000.
    memory : float, optional
        Bytes that the landmarks' features on the sample may take.
    tol : float, default=1e-6
        The relative gap that the embedding should allow.
    radius : float, optional
        Of the set that is to be made of them, where it is known.
    random_state : int
    n_jobs : int
    """
    n, J = sources.n_samples, len(extra)
    pairs = n * (n + 1) / 2 + n * J
    exact = kind == "exact" or (kind == "auto" and pairs <= _AFFORDABLE)
    if exact:
        return Embedding.compute(space, sources, extra, n_jobs=n_jobs)
    aim = _needed(space, sources, tol, radius)
    most = _largest_rank(max_rank, memory, min(n, _SAMPLE))
    samples = sources.samples
    first = sample_landmarks(space, samples, max_rank=most, tol=aim, random_state=random_state)
    if kind == "auto" and first[1] > aim and pairs <= _BEARABLE:
        return Embedding.compute(space, sources, extra, n_jobs=n_jobs)

    def learn(points: Array, residual: float) -> Landmarks:
        return _learn(space, sources, points, residual, most, aim, n_jobs)

    landmarks = _until_accurate(learn, space, samples, first, most, aim, random_state)
    return LowRank.from_landmarks(space, sources, extra, landmarks, n_jobs=n_jobs)


def _until_accurate(
    learn: Callable[[Array, float], Landmarks],
    space: KernelSpace,
    samples: Array,
    first: tuple[Array, float],
    most: int,
    aim: float,
    random_state: int,
) -> Landmarks:
    """Learn by landmarks; by more of them where the errors turn out larger than they should be.

    The residual on the sample that landmarks are chosen among may be smaller than elsewhere.
    """
    (points, residual), wanted = first, aim
    for attempt in range(_ATTEMPTS):
        landmarks = learn(points, residual)
        missed = float(landmarks.errors.max()) ** 2 / (aim * space.kernel.bound)
        if missed <= 1.0 or landmarks.rank >= min(most, len(samples)) or attempt == _ATTEMPTS - 1:
            break
        wanted *= 0.3 / missed
        points, residual = sample_landmarks(
            space, samples, max_rank=most, tol=wanted, random_state=random_state
        )
    return landmarks


def _largest_rank(max_rank: int | None, memory: float | None, sample: int) -> int:
    """How many landmarks parameters and memory allow."""
    rank = _MAX_RANK if max_rank is None else max_rank
    if memory is not None:  # features of the sample, their update, and matrices among landmarks
        rank = min(rank, int(memory / (8 * (sample + 3 * rank))))
    return max(rank, 1)


def _needed(space: KernelSpace, sources: Sources, tol: float, radius: float | None) -> float:
    """The mean residual, relative to C, that should do for a relative gap.

    Both bounds move by about (2 e)^2 / 2 R^2 of the costs' range, and e^2 is a share of the mean
    residual. Where it is not given, the radius of a learned set is of the order of the sources'
    distances from their middle: estimated on few samples, less what sampling adds to it.
    """
    rows = np.concatenate(
        [np.flatnonzero(sources.codes == i)[:_FEW] for i in range(sources.n_sources)]
    )
    few = Sources(sources.samples, sources.codes, sources.labels).restricted(rows)
    points = space.coordinates(few.samples)
    means = source_means(space.kernel, points, few.codes, few.n_sources)
    gram = group_means(means, few)
    noise = (space.kernel.bound - np.diag(gram)) / np.maximum(few.sizes - 1, 1)
    squared = float((np.diag(gram) - noise).mean() - gram.mean()) if radius is None else radius**2
    share = max(squared / space.kernel.bound, _LEAST_SPREAD)
    return float(np.clip(0.1 * tol * share, 1e-12, 1e-3))


def sample_landmarks(
    space: KernelSpace,
    samples: Array,
    *,
    max_rank: int,
    tol: float,
    random_state: int = 0,
) -> tuple[Array, float]:
    """Landmarks chosen among a sample of the points (user's units), and the mean residual there."""
    rng = np.random.default_rng(random_state)
    if len(samples) > _SAMPLE:
        samples = samples[np.sort(rng.choice(len(samples), _SAMPLE, replace=False))]
    points = space.coordinates(samples)
    chosen, residuals = choose_landmarks(space.kernel, points, max_rank, tol, rng)
    return samples[chosen], float(residuals.mean()) / space.kernel.bound


def choose_landmarks(
    kernel: Kernel, points: Array, max_rank: int, tol: float, rng: np.random.Generator
) -> tuple[IntArray, Array]:
    """Randomly pivoted Cholesky, a block at a time.

    Parameters
    ----------
    kernel : Kernel
    points : ndarray of shape (n, d)
        In the kernel's coordinates.
    max_rank : int
    tol : float
        Ends once the mean residual is at most this share of C.
    rng : numpy Generator

    Returns
    -------
    chosen : ndarray of int, shape (r,)
    residuals : ndarray of shape (n,)
        r(x, x) given the chosen points.

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.kernels import RBF
    >>> points = np.repeat([[0.0], [3.0], [9.0]], 5, axis=0)
    >>> chosen, left = choose_landmarks(RBF(1.0), points, 10, 1e-9, np.random.default_rng(0))
    >>> np.sort(points[chosen].ravel()).tolist(), bool(left.max() < 1e-12)
    ([0.0, 3.0, 9.0], True)
    """
    n = len(points)
    max_rank = min(max_rank, n)
    residuals = np.full(n, kernel.bound)
    features = np.empty((max_rank, n))  # pages that are not written are never resident
    chosen = np.empty(0, dtype=np.intp)
    rank = 0
    while rank < max_rank and residuals.mean() > tol * kernel.bound:
        drawn = rng.choice(n, min(_DRAWN, max_rank - rank), p=residuals / residuals.sum())
        drawn = np.unique(drawn)
        known = features[:rank, drawn]
        block = kernel(points[drawn], points[drawn]) - known.T @ known
        factor, pivots, accepted, _ = dpstrf(block, lower=1, tol=_KEEP * np.diag(block).max())
        if accepted == 0:
            break
        taken = drawn[pivots[:accepted] - 1]
        rows = kernel(points[taken], points) - features[:rank, taken].T @ features[:rank]
        factor = np.tril(factor)[:accepted, :accepted]
        fresh = solve_triangular(factor, rows, lower=True, overwrite_b=True)
        features[rank : rank + accepted] = fresh
        residuals -= np.einsum("rn,rn->n", fresh, fresh)
        np.maximum(residuals, 0.0, out=residuals)
        residuals[taken] = 0.0
        chosen = np.concatenate([chosen, taken])
        rank += accepted
    return chosen, residuals


@dataclass(frozen=True)
class Learn:
    """What landmarks learn of the sources from a chunk; small, for it travels to the chunks.

    Attributes
    ----------
    space : KernelSpace
    points : ndarray of shape (r, d)
        The landmarks, in the user's units.
    triangle : ndarray of shape (r, r)
        L of the module's text.
    n_sources : int
    rounding : float
        Of the kernel values between samples and landmarks.
    aim : float
        The residual, relative to C, that should do.
    block : int
        Samples of a block at most.
    """

    space: KernelSpace
    points: Array
    triangle: Array
    n_sources: int
    rounding: float
    aim: float
    block: int

    def __call__(self, chunk: Chunk) -> Learned:
        """Sums over the chunk's samples, block by block."""
        blocks = _blocks(chunk.codes, self.block)
        y = self.space.coordinates(self.points)
        at_landmarks, own = np.empty((len(y), len(blocks))), np.empty(len(blocks))
        for b, (_, rows) in enumerate(blocks):
            x = self.space.coordinates(chunk.points[rows])
            own[b] = _mean_within(self.space.kernel, x)
            at_landmarks[:, b] = _column_means(Pairs(self.space.kernel, x, y), len(x), len(y))
        features = solve_triangular(self.triangle, at_landmarks, lower=True)
        mass = solve_triangular(self.triangle, features, lower=True, trans="T")
        slack = self.rounding * (1.0 + np.abs(mass).sum(axis=0)) ** 2
        squared = own - np.einsum("rb,rb->b", features, features)
        q = np.sqrt(np.maximum(squared, 0.0) + slack)
        sums, errors = np.zeros((self.n_sources, len(y))), np.zeros(self.n_sources)
        for b, (source, rows) in enumerate(blocks):
            sums[source] += len(rows) * at_landmarks[:, b]
            errors[source] += len(rows) * q[b]
        return Learned(sums, errors, self._outliers(chunk, blocks, q))

    def _outliers(self, chunk: Chunk, blocks: list[tuple[int, IntArray]], q: Array) -> Array:
        """The points that stand out in the blocks that stand out, which the sample missed."""
        bar = max(_OUTSTANDING * float(np.median(q)), np.sqrt(self.aim * self.space.kernel.bound))
        worst = [b for b in np.argsort(-q, kind="stable")[:_WORST_BLOCKS] if q[b] > bar]
        if not worst:
            return np.empty((0, chunk.points.shape[1]))
        points = chunk.points[np.concatenate([blocks[b][1] for b in worst])]
        kernel = self.space.kernel
        x, y = self.space.coordinates(points), self.space.coordinates(self.points)
        phi = solve_triangular(self.triangle, kernel(y, x), lower=True)
        left = kernel.bound - np.einsum("rn,rn->n", phi, phi)
        large = np.flatnonzero(left > max(np.sqrt(self.aim), _LARGE) * kernel.bound)
        outliers: Array = points[large[np.argsort(-left[large], kind="stable")[:_WORST_POINTS]]]
        return outliers


@dataclass(frozen=True)
class Learned:
    """Sums over samples: of k(S, .) by source (M, r), and of q (M,); and outliers (m, d)."""

    at_landmarks: Array
    errors: Array
    outliers: Array

    def __add__(self, other: Learned) -> Learned:
        return Learned(
            self.at_landmarks + other.at_landmarks,
            self.errors + other.errors,
            np.vstack([self.outliers, other.outliers]),
        )


def _mean_within(kernel: Kernel, x: Array) -> float:
    """Mean of all kernel values among points; tiles on and above the diagonal serve both sides."""
    pairs, total = Pairs(kernel, x, x), 0.0
    starts = range(0, len(x), _BLOCK)
    for a, first in enumerate(starts):
        for second in starts[a:]:
            tile = pairs.values(slice(first, first + _BLOCK), slice(second, second + _BLOCK))
            total += float(tile.sum()) * (1.0 if first == second else 2.0)
    return total / len(x) ** 2


def _blocks(codes: IntArray, most: int) -> list[tuple[int, IntArray]]:
    """Rows in blocks of one source each, none of many rows: (source, rows)."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    blocks = []
    for source, rows in zip(present, np.split(order, starts[1:]), strict=True):
        if source >= 0:
            parts = np.array_split(rows, -(-len(rows) // most))
            blocks += [(int(source), part) for part in parts]
    return blocks


def learn_landmarks(
    space: KernelSpace,
    chunks: Chunks,
    sizes: IntArray,
    box: tuple[Array, Array],
    points: Array,
    residual: float,
    *,
    max_rank: int,
    tol: float,
    n_jobs: int = 1,
) -> Landmarks:
    """What landmarks tell of the sources, from one pass over all samples.

    Where some stand out as outliers, they become landmarks too, and a second pass follows.

    Parameters
    ----------
    space : KernelSpace
    chunks : Chunks
        All samples.
    sizes : ndarray of shape (M,)
        How many there are of each source.
    box : (lower, upper)
        That holds all samples, in the user's units.
    points : ndarray of shape (r, d)
        The landmarks, in the user's units.
    residual : float
        To be reported.
    max_rank : int
    tol : float
        The residual, relative to C, that should do.
    n_jobs : int

    Returns
    -------
    Landmarks
    """
    farthest = np.abs(space.coordinates(np.stack(box))).max(axis=0)[None]
    rng = np.random.default_rng(len(points))
    for _ in range(_SWEEPS):
        y = space.coordinates(points)
        triangle = _triangle(space.kernel, y)
        rounding = Pairs(space.kernel, farthest, y).rounding
        block = _FINE if residual <= tol else _COARSE
        asked = Learn(space, points, triangle, len(sizes), rounding, tol, block)
        total = reduce(add, chunks.map(asked, n_jobs=n_jobs))
        outliers, room = total.outliers, max_rank - len(points)
        enough = (total.errors / sizes).max() <= np.sqrt(tol * space.kernel.bound)
        if enough or len(outliers) == 0 or room <= 0:
            break
        # Among outliers alone, in whose neighbourhood the present landmarks change little.
        chosen, _ = choose_landmarks(space.kernel, space.coordinates(outliers), room, tol, rng)
        points = np.vstack([points, outliers[chosen]])
    F = solve_triangular(triangle, total.at_landmarks.T / sizes, lower=True)
    coefficients = solve_triangular(triangle, F, lower=True, trans="T")
    return Landmarks(asked.points, coefficients, F.T @ F, total.errors / sizes, residual)


def _learn(
    space: KernelSpace,
    sources: Sources,
    points: Array,
    residual: float,
    max_rank: int,
    tol: float,
    n_jobs: int,
) -> Landmarks:
    """`learn_landmarks` for samples in memory."""
    box = sources.samples.min(axis=0), sources.samples.max(axis=0)
    chunks = SourceChunks(sources)
    return learn_landmarks(
        *(space, chunks, sources.sizes, box, points, residual),
        max_rank=max_rank,
        tol=tol,
        n_jobs=n_jobs,
    )


def _triangle(kernel: Kernel, y: Array) -> Array:
    """L of the module's text, for landmarks in the kernel's coordinates."""
    gram = kernel(y, y)
    gram[np.diag_indices(len(y))] += _JITTER * kernel.bound
    return np.asarray(cholesky(gram, lower=True, overwrite_a=True))


def _column_means(pairs: Pairs, n_rows: int, n_columns: int) -> Array:
    """Mean over the rows of all kernel values, a tile at a time."""
    means = np.empty(n_columns)
    buffer = np.empty(n_rows * _BLOCK)
    for start in range(0, n_columns, _BLOCK):
        part = slice(start, min(start + _BLOCK, n_columns))
        means[part] = pairs.values(columns=part, buffer=buffer).mean(axis=0)
    return means


def _expansions(space: KernelSpace, points: Array, landmarks: Landmarks, n_jobs: int) -> Array:
    """Values of all m_i at points in the kernel's coordinates: (n, M)."""
    y, C = space.coordinates(landmarks.points), landmarks.coefficients
    pairs = Pairs(space.kernel, points, y)
    starts = range(0, len(points), _BLOCK)

    def rows(a: int) -> Array:
        own = slice(starts[a], min(starts[a] + _BLOCK, len(points)))
        total = np.zeros((own.stop - own.start, C.shape[1]))
        buffer = np.empty(len(total) * _BLOCK)
        for start in range(0, len(y), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(y)))
            total += pairs.values(own, part, buffer) @ C[part]
        return total

    values = np.empty((len(points), C.shape[1]))
    for a, part in enumerate(_in_order(rows, len(starts), n_jobs)):
        values[starts[a] : starts[a] + len(part)] = part
    return values
