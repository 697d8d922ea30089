r"""Row generation where looking at all points is what costs: few looks, and a working set between.

The loop (`roodso.solver.rows`) looks at all support points in every round. Where they are many, in
files or on other machines, it runs on some of them, W, and between its runs one sweep over all
points tells

- the largest excess :math:`\max_l f(z, v_l) - g(v_l)`, which makes an upper bound of the loop's
  decision and witness, and the points of large excess, which join W;
- the sources' mean of g and of f(z, .), with its slope, which are cuts for the anchors;
- the sources' exact means at the points that have weight.

With fewer support points the set of distributions is smaller, so the loop's lower bound on W holds
for all points; with these facts the certificate (`roodso.solver.certificate`) pulls its
distribution into the set. The sweeps end when both bounds meet, or when no point exceeds.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from roodso._typing import Array, IntArray
from roodso.chunks import Chunk, Chunks
from roodso.embedding import KernelSpace
from roodso.losses.base import Problem
from roodso.lowrank import LowRank
from roodso.pairs import Pairs
from roodso.solver.average import first_decision
from roodso.solver.certificate import Pulled, pull
from roodso.solver.rows import (
    AnchorCut,
    LoopOptions,
    LoopResult,
    Programme,
    WarmStart,
    choose_spread,
    generate_rows,
)
from roodso.solver.witness import RKHSFunction, support_function

logger = logging.getLogger(__name__)

__all__ = ["Answer", "Question", "Swept", "WorkingSet", "sweep", "sweep_programme"]

#: Points of large excess that each chunk names, and that join the working set after a sweep.
_NAMED, _JOIN = 48, 200
#: Points of a tile of kernel values.
_TILE = 2048
#: Sweeps at most; some five are usual.
_SWEEPS = 60


@dataclass(frozen=True)
class Question:
    """What a sweep asks of a chunk: a cost, a witness, and what certificates need of the sources.

    Small, for it travels to wherever the chunks are.

    Attributes
    ----------
    problem : Problem
    z : ndarray
    space : KernelSpace
    points : ndarray of shape (P, d)
        The witness's support points, in the user's units.
    coefficients : ndarray of shape (P,)
    source_coefficients : ndarray of shape (M,)
        Of the sources' means, where a chunk knows their values.
    landmarks, mean_coefficients : ndarrays of shapes (r, d) and (r,)
        The same combination of means as a kernel expansion, where it does not.
    shares : ndarray of shape (K, M)
        Weight of one sample of each source in each anchor.
    """

    problem: Problem
    z: Array
    space: KernelSpace
    points: Array
    coefficients: Array
    source_coefficients: Array
    landmarks: Array
    mean_coefficients: Array
    shares: Array

    def __call__(self, chunk: Chunk) -> Answer:
        """Answer for one chunk; sums are over its samples."""
        n_sources = self.shares.shape[1]
        values = np.empty(len(chunk))
        columns = np.zeros((n_sources, len(self.points)))
        x, y = self.space.coordinates(chunk.points), self.space.coordinates(self.points)
        for start in range(0, len(chunk), _TILE):
            tile = slice(start, min(start + _TILE, len(chunk)))
            block = Pairs(self.space.kernel, x[tile], y).values()
            values[tile] = block @ self.coefficients
            values[tile] += self._means(chunk, x, tile)
            _add_by_source(columns, block, chunk.codes[tile])
        costs = self.problem.values(self.z, chunk.points)
        excess = costs - values
        named = np.arange(len(chunk))
        if len(chunk) > _NAMED:
            named = np.argpartition(-excess, _NAMED)[:_NAMED]
        named = named[np.argsort(-excess[named], kind="stable")]
        own = chunk.codes >= 0
        samples, codes = chunk.points[own], chunk.codes[own]
        weights = self.shares[:, codes].T
        slopes = (
            np.atleast_2d(self.problem.mean_slope(self.z, samples, weights))
            if len(samples)
            else np.zeros((len(self.shares), len(self.z)))
        )
        return Answer(
            candidates=chunk.points[named],
            numbers=chunk.first + named,
            codes=chunk.codes[named],
            excess=excess[named],
            products=np.bincount(codes, values[own], n_sources).astype(np.float64),
            columns=columns.T,
            costs=costs[own] @ weights,
            slopes=slopes,
            least_cost=float(costs.min()),
        )

    def _means(self, chunk: Chunk, x: Array, tile: slice) -> Array:
        if chunk.means is not None:
            return chunk.means[tile] @ self.source_coefficients
        if not self.mean_coefficients.any():
            return np.zeros(tile.stop - tile.start)
        y = self.space.coordinates(self.landmarks)
        total = np.zeros(tile.stop - tile.start)
        pairs = Pairs(self.space.kernel, x[tile], y)
        for start in range(0, len(y), _TILE // 4):
            part = slice(start, min(start + _TILE // 4, len(y)))
            total += pairs.values(columns=part) @ self.mean_coefficients[part]
        return total


def _add_by_source(sums: Array, block: Array, codes: IntArray) -> None:
    """Add each row of a block to its source's row; rows of code -1 are left out."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    added = np.add.reduceat(block[order], starts, axis=0)
    known = present >= 0
    sums[present[known]] += added[known]


@dataclass(frozen=True)
class Answer:
    """What a sweep tells, of one chunk or of all.

    Attributes
    ----------
    candidates : ndarray of shape (m, d)
        Points of large excess, the largest first, in the user's units.
    numbers : ndarray of int, shape (m,)
        Their numbers among all points.
    codes : ndarray of int, shape (m,)
        The source of each; -1 for points that are no samples.
    excess : ndarray of shape (m,)
        f(z, .) - g there.
    products : ndarray of shape (M,)
        Sums of g over each source's samples; once all are in, the mean, <g, mu_i>.
    columns : ndarray of shape (P, M)
        The same of the kernel functions at the witness's support points.
    costs, slopes : ndarrays of shapes (K,) and (K, n)
        E_k f(z, .) and a subgradient of it.
    least_cost : float
    """

    candidates: Array
    numbers: IntArray
    codes: IntArray
    excess: Array
    products: Array
    columns: Array
    costs: Array
    slopes: Array
    least_cost: float

    @property
    def largest(self) -> float:
        """The largest excess of all."""
        return float(self.excess.max())

    def __add__(self, other: Answer) -> Answer:
        return Answer(
            np.vstack([self.candidates, other.candidates]),
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.excess, other.excess]),
            self.products + other.products,
            self.columns + other.columns,
            self.costs + other.costs,
            self.slopes + other.slopes,
            min(self.least_cost, other.least_cost),
        )

    def finished(self, sizes: IntArray) -> Answer:
        """With means in the place of sums, and the candidates in order."""
        order = np.argsort(-self.excess, kind="stable")
        return replace(
            self,
            candidates=self.candidates[order],
            numbers=self.numbers[order],
            codes=self.codes[order],
            excess=self.excess[order],
            products=self.products / sizes,
            columns=self.columns / sizes,
        )


def sweep(chunks: Chunks, question: Question, sizes: IntArray, n_jobs: int) -> Answer:
    """Ask all chunks, in their order; ``sizes`` are the sources' numbers of samples."""
    total = reduce(add, chunks.map(question, n_jobs=n_jobs))
    return total.finished(sizes)


@dataclass(frozen=True)
class WorkingSet:
    """The points that the loop runs on.

    Attributes
    ----------
    embedding : LowRank
        With these as its support points.
    codes : ndarray of int
        The source of each; -1 for points that are no samples.
    numbers : ndarray of int
        Their numbers among all points.
    """

    embedding: LowRank
    codes: IntArray
    numbers: IntArray

    @classmethod
    def of(cls, embedding: LowRank, count: int) -> WorkingSet:
        """Some of an embedding's samples, the same whenever asked, and its drawn points."""
        n = embedding.sources.n_samples
        rng = np.random.default_rng(0)
        samples = np.arange(n)
        if n > count:
            samples = np.sort(rng.choice(n, count, replace=False))
        numbers = np.concatenate([samples, np.arange(n, len(embedding.support))])
        codes = np.full(len(numbers), -1, dtype=np.intp)
        codes[: len(samples)] = embedding.sources.codes[samples]
        return cls(embedding.at(numbers), codes, numbers)

    def joined(self, points: Array, codes: IntArray, numbers: IntArray) -> WorkingSet:
        """With further points (user's units)."""
        return WorkingSet(
            self.embedding.extended(points),
            np.concatenate([self.codes, codes]),
            np.concatenate([self.numbers, numbers]),
        )

    def places(self, numbers: IntArray) -> IntArray:
        """Where points are in the set, for those of ``numbers`` that are."""
        order = np.argsort(self.numbers)
        found = np.searchsorted(self.numbers[order], numbers)
        found = np.minimum(found, len(order) - 1)
        return order[found][self.numbers[order[found]] == numbers]


@dataclass(frozen=True)
class Swept:
    """What came of the sweeps.

    Attributes
    ----------
    z, upper, g, beta
        The best upper bound, and the decision and the witness on the working set that prove it.
    lower : float
    pulled : Pulled
        The distribution that proves ``lower``.
    minorant : tuple of float and ndarray
        Below its mean cost for every z.
    points : ndarray of int
        Its points, by their places in the working set.
    active : ndarray of int
        Places of the points that mattered in the last run.
    working : WorkingSet
    sweeps, rounds : int
    status : str
    """

    z: Array
    upper: float
    g: RKHSFunction
    beta: float
    lower: float
    pulled: Pulled
    minorant: tuple[float, Array]
    points: IntArray
    active: IntArray
    working: WorkingSet
    sweeps: int
    rounds: int
    status: str


def sweep_programme(
    programme: Programme,
    working: WorkingSet,
    chunks: Chunks,
    options: LoopOptions,
    *,
    warm: WarmStart | None = None,
) -> Swept:
    """Solve a programme over all of ``chunks`` and the working set.

    Parameters
    ----------
    programme : Programme
        Its problem and set count, and the sizes of its sources.
    working : WorkingSet
        To begin with: some samples of each source, and the drawn points.
    chunks : Chunks
        All samples, and perhaps other points.
    options : LoopOptions
    warm : WarmStart, optional
        Points by their places in the working set.

    Returns
    -------
    Swept
    """
    return _Sweeps(programme, working, chunks, options).run(warm)


class _Sweeps:
    """One run: the working set as it grows, the anchors' cuts, and the best bounds."""

    def __init__(
        self, programme: Programme, working: WorkingSet, chunks: Chunks, options: LoopOptions
    ) -> None:
        self.programme = programme
        self.working = working
        self.chunks = chunks
        self.options = options
        self.deadline = time.monotonic() + options.time_limit
        self.cuts: tuple[AnchorCut, ...] = ()
        self.sweeps, self.rounds = 0, 0
        self.upper, self.lower = np.inf, -np.inf

    def run(self, warm: WarmStart | None) -> Swept:
        """Alternate runs on the working set with sweeps."""
        z = self._start() if warm is None else self.programme.problem.region.project(warm.z)
        first = self._ask(z, None, np.empty(0, dtype=np.intp))
        self._join(first, first.least_cost, 0.0)
        warm = WarmStart(np.empty(0, dtype=np.intp) if warm is None else warm.points, z)
        status = ""
        while not status:
            result = self._run_loop(warm)
            answer, beta = self._look(result)
            status = self._judge(result, joined=self._join(answer, beta, self._threshold()))
            warm = WarmStart(result.active, result.z)
        return Swept(
            *(self.z, self.upper, self.g, self.beta),
            *(self.lower, self.pulled, self.minorant, self.points),
            active=result.active,
            working=self.working,
            sweeps=self.sweeps,
            rounds=self.rounds,
            status=status,
        )

    def _start(self) -> Array:
        """A first decision: the best for the anchors' average over the working set."""
        mixtures, codes = self.programme.uncertainty.mixtures, self.working.codes
        own = codes >= 0
        count = np.bincount(codes[own], minlength=mixtures.shape[1])
        weights = (mixtures.mean(axis=0) / np.maximum(count, 1))[codes[own]]
        support = self.working.embedding.support[own]
        return first_decision(self.programme.problem, support, weights)

    def _ask(self, z: Array, g: RKHSFunction | None, points: IntArray) -> Answer:
        """One sweep over all points; ``points`` are places in the working set, g's among them."""
        programme, known = self.programme, self.working.embedding
        mixtures = programme.uncertainty.mixtures
        coefficients, in_sources = np.zeros(len(points)), np.zeros(mixtures.shape[1])
        if g is not None:
            np.add.at(coefficients, np.searchsorted(points, g.index), g.coefficients)
            in_sources = g.source_coefficients
        question = Question(
            problem=programme.problem,
            z=z,
            space=known.space,
            points=known.support[points],
            coefficients=coefficients,
            source_coefficients=in_sources,
            landmarks=known.landmarks.points,
            mean_coefficients=known.landmarks.coefficients @ in_sources,
            shares=mixtures / programme.embedding.sources.sizes,
        )
        self.sweeps += 1
        n_jobs = self.options.n_jobs if programme.problem.parallel else 1
        answer = sweep(self.chunks, question, programme.embedding.sources.sizes, n_jobs)
        self.cuts = (*self.cuts, AnchorCut(z, answer.costs, answer.slopes))
        return answer

    def _on_working_set(self) -> Programme:
        return replace(self.programme, embedding=self.working.embedding, known_cuts=self.cuts)

    def _run_loop(self, warm: WarmStart) -> LoopResult:
        """Solve on the working set."""
        left = max(self.deadline - time.monotonic(), 0.0)
        options = replace(self.options, time_limit=left)
        result = generate_rows(self._on_working_set(), options, warm=warm)
        self.rounds += result.rounds
        return result

    def _look(self, result: LoopResult) -> tuple[Answer, float]:
        """Sweep at the loop's decision, improve both bounds; also the beta on the working set."""
        problem, uncertainty = self.programme.problem, self.programme.uncertainty
        embedding = self.working.embedding
        g = result.g
        g = RKHSFunction.build(embedding, g.index, g.coefficients, g.source_coefficients)
        z = problem.region.project(result.z)
        points = np.union1d(g.index, result.points[result.shares.points > 0])
        answer = self._ask(z, g, points)
        costs = problem.values(z, embedding.support)
        here = float((costs - g.values).max())
        g, beta = replace(g, source_products=answer.products), max(answer.largest, here)
        upper = support_function(uncertainty, g) + beta
        if upper < self.upper:
            self.z, self.upper, self.g, self.beta = z, upper, g, beta
        exact_means = np.zeros((len(result.points), len(answer.products)))
        used = result.shares.points > 0
        exact_means[used] = answer.columns[np.searchsorted(points, result.points[used])]
        pulled = pull(self._on_working_set(), result, exact_means)
        slope = pulled.mixture @ answer.slopes
        minorant = pulled.minorant(result, float(pulled.mixture @ answer.costs - slope @ z), slope)
        lower = minorant[0] + problem.region.minimize_linear(minorant[1])
        if lower > self.lower:
            self.lower, self.pulled = lower, pulled
            self.minorant, self.points = minorant, result.points
        logger.debug(
            "sweep %d: %d points at hand, upper %.10g, lower %.10g",
            *(self.sweeps, len(embedding.support), self.upper, self.lower),
        )
        return answer, here

    def _threshold(self) -> float:
        """The smallest excess that matters."""
        return 0.1 * self.options.tol * max(1.0, abs(self.upper))

    def _judge(self, result: LoopResult, *, joined: bool) -> str:
        """Why to stop, or an empty string."""
        gap = (self.upper - self.lower) / max(1.0, abs(self.upper))
        if self.options.progress is not None:
            details = {"sweep": self.sweeps, "upper": self.upper, "lower": self.lower, "gap": gap}
            self.options.progress("sweeps", None, details)
        if gap <= self.options.tol:
            return "optimal"
        if time.monotonic() > self.deadline:
            return "time limit"
        if not joined:  # the loop's own word is all there is to say
            return "low rank" if result.status == "optimal" else result.status
        return "iteration limit" if self.sweeps >= _SWEEPS else ""

    def _join(self, answer: Answer, beta: float, threshold: float) -> bool:
        """Points that exceed beta join the working set; say whether there were any."""
        known = self.working
        fresh = ~np.isin(answer.numbers, known.numbers)
        candidates, space = answer.candidates[fresh], known.embedding.space
        chosen = choose_spread(
            space.kernel,
            space.coordinates(candidates),
            answer.excess[fresh] - beta,
            threshold,
            _JOIN,
        )
        if len(chosen):
            self.working = known.joined(
                candidates[chosen], answer.codes[fresh][chosen], answer.numbers[fresh][chosen]
            )
        return len(chosen) > 0
