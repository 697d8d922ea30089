r"""Beyond the support points: the worst case over a whole box.

A witness that majorises the cost at the support points may be exceeded between them. For every
distribution P on the box :math:`\Xi` and the samples, within R of a mixture of the anchors,

.. math:: \mathrm{E}_P f(z, \cdot) \le \max_a \textstyle\sum_k a_k \langle g, \mu_k \rangle + R |g|
          + \sup_{\Xi} (f - g) ,

so the discretised upper bound holds for the box up to
:math:`\sup_\Xi h, \; h = f - g - \beta`. Rounds of

1. solve the discretised programme, warm-started;
2. search h's local maxima from many starts (`roodso.solver.ascent`), and add those above a share of
   the tolerance as support points,

bring it down. When the search finds no more, branch and bound (`roodso.solver.branch`) proves a
bound on sup h where f is convex in xi and d <= 3; what it meets above the tolerance is added too.

More support points only enlarge the set, so the discretised lower bound is one for the box as well.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

import numpy as np

from roodso._typing import Array
from roodso.exceptions import SolverError
from roodso.losses.base import Problem
from roodso.solver.ascent import ascend
from roodso.solver.branch import ExcessBound, bound_excess
from roodso.solver.excess import Excess
from roodso.solver.rows import LoopOptions, Programme, WarmStart, choose_spread
from roodso.solver.solution import BoxBound, Solution
from roodso.solver.solve import solve_programme
from roodso.support import latin_hypercube

__all__ = ["MAX_PROVED_COLUMNS", "BoxSearch", "check_provable", "solve_over_box"]

logger = logging.getLogger(__name__)

#: Columns up to which branch and bound is offered.
MAX_PROVED_COLUMNS = 3
#: Maxima of h above this share of the tolerance become support points: what is left of the
#: tolerance is room for the proof.
_ADD = 0.25
#: A proof that meets more than this share of the tolerance goes back for another round.
_HALT = 0.5
#: Share of a time limit after which no points are added any more where a proof is to follow.
_ROUNDS_SHARE = 0.7
#: Share of the tolerance to which maxima are climbed.
_CLIMB = 0.01
#: Support points, chosen at random where there are more, among which starts are looked for.
_ASKED = 2000
#: Maxima count as found twice where k is within this share of k(x, x).
_ALIKE = 0.01


@dataclass(frozen=True)
class BoxSearch:
    """What is asked of the box.

    Attributes
    ----------
    lower, upper : ndarray of shape (d,)
        The box, in the user's units.
    prove : bool
        Whether to prove a bound besides searching.
    starts : int
        Latin hypercube starts a search, and as many from the support; points with weight besides.
    rounds : int
        How often support points may be added.
    cells : int
        Cells that one proof may examine.
    seed : int
        Draws the starts.
    """

    lower: Array
    upper: Array
    prove: bool
    starts: int
    rounds: int
    cells: int
    seed: int


def check_provable(problem: Problem, n_columns: int) -> None:
    """Say why a bound over the box cannot be proved, if so."""
    if n_columns > MAX_PROVED_COLUMNS:
        raise ValueError(
            f"continuous='prove' works for up to {MAX_PROVED_COLUMNS} columns, the data have "
            f"{n_columns}; use continuous='search'"
        )
    if not problem.convex_in_xi:
        raise ValueError(
            "continuous='prove' needs a loss that is convex in xi as well: promise it with "
            "ConvexLoss(convex_in_xi=True), or use continuous='search'"
        )


def solve_over_box(
    programme: Programme,
    options: LoopOptions,
    search: BoxSearch,
    *,
    warm: WarmStart | None = None,
    n_jobs: int = 1,
) -> tuple[Programme, Solution]:
    """Solve a programme, and support points added until the box holds no violation.

    Parameters
    ----------
    programme : Programme
    options : LoopOptions
        ``tol`` is the tolerance of the box as well.
    search : BoxSearch
    warm : WarmStart, optional
    n_jobs : int

    Returns
    -------
    programme : Programme
        With the points that were added.
    solution : Solution
        With ``box``.
    """
    return _Rounds(programme, options, search, n_jobs).run(warm)


class _Rounds:
    """One run: the programme as it grows, its solution, and what was spent."""

    def __init__(
        self, programme: Programme, options: LoopOptions, search: BoxSearch, n_jobs: int
    ) -> None:
        self.programme = programme
        self.options = options
        self.search = search
        self.n_jobs = n_jobs
        started = time.monotonic()
        self.deadline = started + options.time_limit
        share = _ROUNDS_SHARE if search.prove else 1.0
        self.rounds_until = started + share * options.time_limit
        self.n_given = len(programme.support)
        self.rounds, self.iterations = 0, 0
        self.timings: dict[str, float] = {"box": 0.0}
        self.stopped = False

    def run(self, warm: WarmStart | None) -> tuple[Programme, Solution]:
        """Add points until none is found, or rounds or time are spent."""
        self._take(self._solve(self.programme, warm))
        if self.solution.witness is None:
            return self._finish(self._bound(violation=0.0, excess=0.0))
        while True:
            started = time.perf_counter()
            points, box = self._look()
            self.timings["box"] += time.perf_counter() - started
            if len(points) == 0:
                return self._finish(box)
            self._add(points)

    def _solve(self, programme: Programme, warm: WarmStart | None) -> Solution:
        left = max(self.rounds_until - time.monotonic(), 0.0)
        solution = solve_programme(programme, replace(self.options, time_limit=left), warm=warm)
        self.iterations += solution.iterations
        for stage, seconds in solution.timings.items():
            self.timings[stage] = self.timings.get(stage, 0.0) + seconds
        return solution

    def _take(self, solution: Solution) -> None:
        self.solution = solution
        self.z = np.concatenate([solution.decision, solution.internal])
        self.tol = self.options.tol * max(1.0, abs(solution.upper_bound))

    def _add(self, points: Array) -> None:
        """Make these support points, and solve again; stop with what there is if that fails."""
        embedding = self.programme.embedding.extended(points, n_jobs=self.n_jobs)
        programme = replace(self.programme, embedding=embedding)
        fresh = np.arange(len(self.programme.support), len(programme.support))
        warm = WarmStart(np.concatenate([self.solution.active, fresh]), self.z)
        try:
            solution = self._solve(programme, warm)
        except SolverError as error:
            logger.warning("box, round %d: %s", self.rounds, error)
            self.stopped = True
            return
        if solution.status == "time limit":
            self.stopped = True
            return
        self.programme = programme
        self.rounds += 1
        self._take(solution)

    def _look(self) -> tuple[Array, BoxBound]:
        """Points to add, if any, and what is known of the box so far."""
        excess = self._excess()
        starts = self._starts(excess)
        found, values = ascend(excess, starts, _CLIMB * self.tol)
        points, violation = self._worth_adding(found, values), float(values.max())
        proof: ExcessBound | None = None
        if self.search.prove and (self._last() or len(points) == 0):
            proof = self._prove(excess, halt=np.inf if self._last() else _HALT * self.tol)
            violation = max(violation, proof.lower)
            if len(proof.points):
                points = self._worth_adding(*ascend(excess, proof.points, _CLIMB * self.tol))
        logger.debug(
            "box, round %d: %d points, violation %.3g", self.rounds, len(points), violation
        )
        box = self._bound(
            violation=violation,
            excess=np.inf if proof is None else proof.upper,
            starts=len(starts),
            cells=0 if proof is None else proof.cells,
        )
        return points[:0] if self._last() else points, box

    def _last(self) -> bool:
        """Whether no points may be added any more."""
        spent = self.rounds >= self.search.rounds or time.monotonic() > self.rounds_until
        return self.stopped or spent

    def _excess(self) -> Excess:
        witness = self.solution.witness
        assert witness is not None
        witness = replace(witness, g=replace(witness.g, n_jobs=self.n_jobs))
        return Excess(self.programme.problem, self.z, witness, self.search.lower, self.search.upper)

    def _starts(self, excess: Excess) -> Array:
        """Points with weight, others of large excess, and Latin hypercube points."""
        search = self.search
        rng = np.random.default_rng([search.seed, self.rounds])
        drawn = latin_hypercube(search.lower, search.upper, search.starts, rng)
        support, points = self.programme.support, self.programme.embedding.points
        asked = np.arange(len(support))
        if len(asked) > _ASKED:
            asked = rng.choice(asked, _ASKED, replace=False)
        values = excess(support[asked])
        kernel = self.programme.embedding.space.kernel
        high = choose_spread(kernel, points[asked], values - values.min(), 0.0, search.starts)
        from_support = np.union1d(self.solution.active, asked[high])
        return np.vstack([support[from_support], drawn])

    def _worth_adding(self, found: Array, values: Array) -> Array:
        """Maxima above a share of the tolerance, the highest first; once what was found twice."""
        space = self.programme.embedding.space
        order = np.argsort(-values, kind="stable")
        high = found[order[values[order] > _ADD * self.tol]]
        kernel = space.kernel
        alike = 1.0 - space(high, high) / kernel.bound
        chosen: list[int] = []
        for row in range(len(high)):
            if (alike[row, chosen] > _ALIKE).all():
                chosen.append(row)
        return high[chosen[: self.options.max_rows]]

    def _prove(self, excess: Excess, *, halt: float) -> ExcessBound:
        return bound_excess(
            excess,
            tol=self.tol,
            budget=self.search.cells,
            halt=halt,
            deadline=self.deadline,
            progress=self.options.progress,
        )

    def _bound(
        self, *, violation: float, excess: float, starts: int = 0, cells: int = 0
    ) -> BoxBound:
        return BoxBound(
            lower=self.search.lower,
            upper=self.search.upper,
            upper_bound=self.solution.upper_bound + max(excess, 0.0),
            violation_found=max(violation, 0.0),
            tolerance=self.tol,
            proved=excess <= self.tol,
            starts=starts,
            cells=cells,
            rounds=self.rounds,
            points_added=len(self.programme.support) - self.n_given,
        )

    def _finish(self, box: BoxBound) -> tuple[Programme, Solution]:
        solution = replace(self.solution, box=box, iterations=self.iterations, timings=self.timings)
        return self.programme, solution
