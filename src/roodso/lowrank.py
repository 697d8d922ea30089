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
block. With rounding :math:`\epsilon` in kernel values the difference is wrong by some
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

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf

from roodso._typing import Array, IntArray
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
from roodso.sources import Sources

__all__ = ["Landmarks", "LowRank", "choose_landmarks", "embed", "sample_landmarks"]

#: Points that landmarks are chosen among; more would cost time and seldom change the choice.
_SAMPLE = 20_000
#: Kernel values up to which the exact pass is taken without a thought: seconds; and up to which it
#: is taken where low rank would not do: minutes.
_AFFORDABLE, _BEARABLE = 5e9, 5e10
#: Landmarks at most, unless told otherwise: their number squared, and cubed, is felt beyond.
_MAX_RANK = 2000
#: Samples of each source that the spread is estimated from, and the least it is taken to be.
_FEW, _LEAST_SPREAD = 100, 1e-3
#: Landmarks drawn at a time; a drawn point becomes one while its residual given those before it in
#: its block is above this share of the block's largest.
_DRAWN, _KEEP = 64, 0.1
#: lambda, relative to C: keeps the factor's digits, and costs as little.
_JITTER = 1e-12
#: The second sweep takes blocks whose error is above this multiple of the mean, few times over.
_OUTSTANDING, _SWEEPS = 4.0, 3


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
        landmarks = _with_outliers(space, sources, chosen, residual, max_rank, tol, n_jobs)
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
        means = _expansions(space, points, landmarks, n_jobs)
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
            fresh, _ = _Pass(self.space, kept, known.points, n_jobs).learn(known.residual)
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
        return _expansions(self.space, points, self.landmarks, n_jobs)

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


def embed(
    space: KernelSpace,
    sources: Sources,
    extra: Array,
    *,
    kind: str = "auto",
    max_rank: int | None = None,
    memory: float | None = None,
    tol: float = 1e-6,
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
    random_state : int
    n_jobs : int
    """
    n, J = sources.n_samples, len(extra)
    pairs = n * (n + 1) / 2 + n * J
    exact = kind == "exact" or (kind == "auto" and pairs <= _AFFORDABLE)
    if exact:
        return Embedding.compute(space, sources, extra, n_jobs=n_jobs)
    aim = _needed(space, sources, tol)
    points, residual = sample_landmarks(
        space,
        sources.samples,
        max_rank=_largest_rank(max_rank, memory, min(n, _SAMPLE)),
        tol=aim,
        random_state=random_state,
    )
    if kind == "auto" and residual > aim and pairs <= _BEARABLE:
        return Embedding.compute(space, sources, extra, n_jobs=n_jobs)
    most = _largest_rank(max_rank, memory, min(n, _SAMPLE))
    landmarks = _with_outliers(space, sources, points, residual, most, aim, n_jobs)
    return LowRank.from_landmarks(space, sources, extra, landmarks, n_jobs=n_jobs)


def _largest_rank(max_rank: int | None, memory: float | None, sample: int) -> int:
    """How many landmarks parameters and memory allow."""
    rank = _MAX_RANK if max_rank is None else max_rank
    if memory is not None:  # features of the sample, their update, and matrices among landmarks
        rank = min(rank, int(memory / (8 * (sample + 3 * rank))))
    return max(rank, 1)


def _needed(space: KernelSpace, sources: Sources, tol: float) -> float:
    """The mean residual, relative to C, that should do for a relative gap.

    Both bounds move by about (2 e)^2 / 2 R^2 of the costs' range, e^2 is about the mean residual,
    and the radius of a learned set is of the order of the sources' distances from their middle:
    estimated on few samples, less what sampling adds to it.
    """
    rows = np.concatenate(
        [np.flatnonzero(sources.codes == i)[:_FEW] for i in range(sources.n_sources)]
    )
    few = sources.restricted(rows)
    points = space.coordinates(few.samples)
    means = source_means(space.kernel, points, few.codes, few.n_sources)
    gram = group_means(means, few)
    noise = (space.kernel.bound - np.diag(gram)) / np.maximum(few.sizes - 1, 1)
    spread = float((np.diag(gram) - noise).mean() - gram.mean()) / space.kernel.bound
    return float(np.clip(0.01 * tol * max(spread, _LEAST_SPREAD), 1e-12, 1e-3))


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
class _Blocks:
    """Blocks of rows, each of one source.

    ``rows`` are the samples' numbers sorted by source, of which block b takes those from
    ``starts[b]`` to ``stops[b]``; ``owner`` is its source.
    """

    rows: IntArray
    starts: IntArray
    stops: IntArray
    owner: IntArray

    @classmethod
    def of(cls, sources: Sources) -> _Blocks:
        rows = np.argsort(sources.codes, kind="stable")
        starts, stops, owner = [], [], []
        ends = np.cumsum(sources.sizes)
        for i, (end, size) in enumerate(zip(ends, sources.sizes, strict=True)):
            edges = np.linspace(end - size, end, -(-int(size) // _BLOCK) + 1).astype(np.intp)
            starts += edges[:-1].tolist()
            stops += edges[1:].tolist()
            owner += [i] * (len(edges) - 1)
        return cls(rows, np.array(starts), np.array(stops), np.array(owner))

    def __len__(self) -> int:
        return len(self.starts)

    def members(self, b: int) -> IntArray:
        return self.rows[self.starts[b] : self.stops[b]]


class _Pass:
    """The pass over kernel values between blocks of samples and landmarks, which may be added to.

    Attributes
    ----------
    points : ndarray of shape (r, d)
        The landmarks, in the user's units.
    at_landmarks : ndarray of shape (r, B)
        Each block's mean of k(S, .).
    own : ndarray of shape (B,)
        Each block's mean kernel value within itself.
    """

    def __init__(self, space: KernelSpace, sources: Sources, points: Array, n_jobs: int) -> None:
        self.space = space
        self.sources = sources
        self.n_jobs = n_jobs
        self.blocks = _Blocks.of(sources)
        self.points = np.empty((0, sources.n_columns))
        self.at_landmarks = np.empty((0, len(self.blocks)))
        self.own = np.array(list(_in_order(self._own, len(self.blocks), n_jobs)))
        self.add(points)

    def add(self, points: Array) -> None:
        """Take more landmarks."""
        y = self.space.coordinates(points)

        def block(b: int) -> Array:
            x = self._members(b)
            return _column_means(Pairs(self.space.kernel, x, y), len(x), len(y))

        fresh = np.stack(list(_in_order(block, len(self.blocks), self.n_jobs)), axis=1)
        self.points = np.vstack([self.points, points])
        self.at_landmarks = np.vstack([self.at_landmarks, fresh])

    def learn(self, residual: float) -> tuple[Landmarks, Array]:
        """What is known of the sources by now, and q of each block."""
        blocks, kernel = self.blocks, self.space.kernel
        y = self.space.coordinates(self.points)
        triangle = _triangle(kernel, y)
        features = solve_triangular(triangle, self.at_landmarks, lower=True)
        mass = 1.0 + np.abs(solve_triangular(triangle, features, lower=True, trans="T")).sum(axis=0)
        squared = self.own - np.einsum("rb,rb->b", features, features)
        rounding = Pairs(kernel, self._farthest(), y).rounding
        q = np.sqrt(np.maximum(squared, 0.0) + rounding * mass**2)
        shares = np.zeros((len(blocks), self.sources.n_sources))
        sizes = blocks.stops - blocks.starts
        shares[np.arange(len(blocks)), blocks.owner] = sizes / self.sources.sizes[blocks.owner]
        F = features @ shares
        coefficients = solve_triangular(triangle, F, lower=True, trans="T")
        return Landmarks(self.points, coefficients, F.T @ F, q @ shares, residual), q

    def _members(self, b: int) -> Array:
        return self.space.coordinates(self.sources.samples[self.blocks.members(b)])

    def _own(self, b: int) -> float:
        x = self._members(b)
        return float(Pairs(self.space.kernel, x, x).values().mean())

    def _farthest(self) -> Array:
        """A point at least as far out as any sample, for a bound on rounding."""
        samples = self.sources.samples
        ends = self.space.coordinates(np.stack([samples.min(axis=0), samples.max(axis=0)]))
        return np.abs(ends).max(axis=0)[None]


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


def _with_outliers(
    space: KernelSpace,
    sources: Sources,
    points: Array,
    residual: float,
    max_rank: int,
    tol: float,
    n_jobs: int,
) -> Landmarks:
    """Learn by landmarks; then, where some blocks' errors stand out, by outliers in them too.

    A block stands out where its error is far above the mean: then few of its points, which the
    sample missed, have large residuals.
    """
    passed = _Pass(space, sources, points, n_jobs)
    learned, q = passed.learn(residual)
    rng = np.random.default_rng(len(points))
    aim = np.sqrt(tol * space.kernel.bound)
    for _ in range(_SWEEPS):
        worst = np.flatnonzero(q > max(_OUTSTANDING * float(np.median(q)), aim))
        room = max_rank - len(passed.points)
        if len(worst) == 0 or room <= 0:
            break
        worst = worst[np.argsort(-q[worst], kind="stable")[: max(_SAMPLE // _BLOCK, 1)]]
        rows = np.concatenate([passed.blocks.members(int(b)) for b in worst])
        fresh = _outliers(space, sources.samples[rows], passed.points, room, tol, rng)
        if len(fresh) == 0:
            break
        passed.add(fresh)
        learned, q = passed.learn(residual)
    return learned


def _outliers(
    space: KernelSpace,
    samples: Array,
    points: Array,
    room: int,
    tol: float,
    rng: np.random.Generator,
) -> Array:
    """Those of some samples that the landmarks leave with the largest residuals."""
    kernel, x, y = space.kernel, space.coordinates(samples), space.coordinates(points)
    phi = solve_triangular(_triangle(kernel, y), kernel(y, x), lower=True)
    left = np.maximum(kernel.bound - np.einsum("rn,rn->n", phi, phi), 0.0)
    large = np.flatnonzero(left > max(np.sqrt(tol), 1e-3) * kernel.bound)
    if len(large) == 0:
        return np.empty((0, samples.shape[1]))
    large = large[np.argsort(-left[large], kind="stable")[:_SAMPLE]]
    # Among outliers alone, in which the present landmarks change little.
    chosen, _ = choose_landmarks(kernel, x[large], room, tol, rng)
    return samples[large[chosen]]
