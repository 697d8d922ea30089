r"""Generation of couplings, points, cuts and balls: few at a time, exact at the end.

The loop alternates between the master over what is at hand (`roodso.solver.intersection.master`)
and a look at all support points:

1. solve the master: prices (z, lambda, s) and a worst-case distribution; its value is a lower bound
   on the programme over the active balls;
2. evaluate f(z, v_l) - sum_i min_j (s_ij + lambda_i |v_l - xi_ij|) at all support points: its
   maximum completes an upper bound, whatever balls are active;
3. where it is largest, add points, their arcs to the minimising samples, and cuts; also at the
   midpoint between the master's prices and the best so far, which damps its jumps;
4. once the bounds are near each other, measure the distribution's exact distance to all sources and
   activate the ball that it violates most. Few balls bind, so it begins with none.

Rows that have long been idle are dropped only after the master's value has risen, so that no set of
rows can come back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from roodso._typing import Array, IntArray, Progress
from roodso.exceptions import SolverError
from roodso.losses.base import Problem
from roodso.solver.intersection.balls import Excess, Inner, Prices, Pricing
from roodso.solver.intersection.master import Master, MasterPoint

__all__ = ["GenerationOptions", "GenerationResult", "generate"]

logger = logging.getLogger(__name__)

#: Points that the first master begins with, and balls that are activated at first.
_SEEDS, _FIRST_BALLS = 30, 2
#: Gaps, in units of the costs' range, at which the worst case's distances are measured.
_FIRST_STAGE, _NEXT_STAGE = 1e-2, 0.1
#: Ways that an atom of the worst case gets per round and ball: it serves many samples, and all that
#: are cheaper than those it has are worth having at once.
_ARCS = 100
#: Rounds that add nothing before the loop gives up: the linear solver's tolerance is reached.
_STALLS = 3


@dataclass(frozen=True)
class GenerationOptions:
    """How the loop runs.

    Attributes
    ----------
    tol : float
        Relative gap to reach, in units of max(1, |upper bound|).
    max_iter, max_rows : int
        Rounds; support points added per round.
    time_limit : float
        Seconds.
    n_jobs : int
    progress : callable or None
    """

    tol: float = 1e-6
    max_iter: int = 2000
    max_rows: int = 20
    time_limit: float = np.inf
    n_jobs: int = 1
    progress: Progress | None = None


@dataclass(frozen=True)
class GenerationResult:
    """What the loop hands to the certificate, which trusts none of it.

    Attributes
    ----------
    prices : Prices
        Those with the best upper bound.
    upper : float
    weights : ndarray of shape (L,)
        The last master's worst case.
    minorant : tuple of float and ndarray
        Affine, and below the worst case's mean cost for every z.
    rounds : int
    status : str
    """

    prices: Prices
    upper: float
    weights: Array
    minorant: tuple[float, Array]
    rounds: int
    status: str


def generate(
    problem: Problem,
    pricing: Pricing,
    inner: Inner,
    options: GenerationOptions,
    start: Array,
    *,
    factor: bool = False,
    enough: Callable[[Array, Array, float], bool] | None = None,
) -> GenerationResult:
    """Run the loop.

    Parameters
    ----------
    problem : Problem
    pricing : Pricing
    inner : Inner
    options : GenerationOptions
    start : ndarray
        First decision.
    factor : bool
        Minimise the common factor of the radii; ``upper`` is then minus a lower bound of it.
    enough : callable, optional
        ``enough(weights, distances, upper)`` stops the loop early; it is asked whenever distances
        have been measured.

    Returns
    -------
    GenerationResult
    """
    return _Generation(problem, pricing, inner, options, start, factor, enough).run(start)


class _Generation:
    """The loop's state."""

    def __init__(
        self,
        problem: Problem,
        pricing: Pricing,
        inner: Inner,
        options: GenerationOptions,
        start: Array,
        factor: bool,
        enough: Callable[[Array, Array, float], bool] | None,
    ) -> None:
        self.problem, self.pricing, self.options = problem, pricing, options
        self.balls = pricing.balls
        self.factor, self.enough = factor, enough
        costs = problem.values(start, self.balls.support)
        self.unit = float(np.ptp(costs)) or 1.0
        self.master = Master(
            problem, pricing, inner, shift=float(costs.mean()), unit=self.unit, factor=factor
        )
        seeds = np.argsort(-costs, kind="stable")[:_SEEDS]
        self.master.add_points(seeds)
        self.master.add_cuts(seeds, start)
        self.master.add_inner_cut(start)
        self.upper, self.lower = np.inf, -np.inf
        self.stage = _FIRST_STAGE
        self.started = time.monotonic()

    def run(self, start: Array) -> GenerationResult:
        """Alternate between master and points until the bounds meet and no ball is violated."""
        result: GenerationResult | None = None
        stalled = 0
        for rounds in range(1, self.options.max_iter + 1):
            left = self.options.time_limit - (time.monotonic() - self.started)
            try:
                point = self.master.solve(left)
            except SolverError as error:
                if result is None:
                    raise
                logger.warning("round %d: %s (%s)", rounds, error, error.status)
                return self._result(result, rounds, "time limit" if left <= 0 else "inaccurate")
            risen = point.value > self.lower + 1e-9 * self.unit
            self.lower = point.value
            excess, upper = self._price(point.prices)
            self._report(rounds)
            status, extended = self._judge(point)
            result = self._result(point, rounds, status or "iteration limit")
            if status:
                break
            if risen:
                self.master.drop_idle()
            added = self._grow(point, excess, upper)
            stalled = 0 if added or extended or risen else stalled + 1
            if stalled == _STALLS:
                return self._result(point, rounds, "inaccurate")
        assert result is not None
        return result

    def _price(self, prices: Prices) -> tuple[Excess, float]:
        """Look at all points; keep the prices if the upper bound they prove is the best."""
        costs = self.problem.values(prices.z, self.balls.support)
        excess = self.pricing.excess(costs, prices, self.master.active)
        upper = self.pricing.mean_potentials(prices) + float(excess.values.max())
        if not self.factor:
            upper += float(prices.multipliers @ self.balls.radii)
        if upper < self.upper:
            self.upper, self.best = upper, prices
        return excess, upper

    def _allowed(self) -> float:
        """The gap to end with. Half the tolerance is left to the certificate."""
        scale = abs(self.upper) if self.factor else max(1.0, abs(self.upper))
        return 0.5 * self.options.tol * scale

    def _judge(self, point: MasterPoint) -> tuple[str, bool]:
        """Why to stop, or an empty string; and whether a ball was activated."""
        gap, allowed = self.upper - self.lower, self._allowed()
        if gap <= max(self.stage * self.unit, allowed):
            distances = self.balls.distances(point.weights)
            if self.enough is not None and self.enough(point.weights, distances, self.upper):
                return "enough", False
            if self._activate(distances):
                self.stage = _FIRST_STAGE
                return "", True
            if gap <= allowed:
                return "optimal", False
            while self.stage * self.unit >= gap:
                self.stage *= _NEXT_STAGE
        if time.monotonic() - self.started > self.options.time_limit:
            return "time limit", False
        return "", False

    def _activate(self, distances: Array) -> bool:
        """Activate the inactive ball that is violated most, at first two."""
        active, radii = self.master.active, self.balls.radii
        ratios = distances / radii
        if self.factor:  # any ball beyond the factor that the active ones ask for
            reached = ratios[active].max(initial=0.0)
            violated = ratios > reached * (1.0 + 1e-9) + 1e-12
        else:
            violated = self.balls.outside(distances) > 0.0
        violated[active] = False
        candidates = np.flatnonzero(violated)
        worst = candidates[np.argsort(-ratios[candidates], kind="stable")]
        for i in worst[: 1 if active else _FIRST_BALLS]:
            logger.debug("ball %d is violated: %.6g > %.6g", i, distances[i], radii[i])
            self.master.add_ball(int(i))
        return len(worst) > 0

    def _grow(self, point: MasterPoint, excess: Excess, upper: float) -> int:
        """Add rows at the master's prices, and at those halfway between them and the best."""
        prices = point.prices
        atoms = np.intersect1d(np.flatnonzero(point.weights), self.master.points)
        added = self.master.add_cheaper_arcs(atoms, prices, _ARCS)
        added += self._add(prices, excess, upper)
        added += self.master.add_cuts(atoms, prices.z)
        self.master.add_inner_cut(prices.z)
        if prices is not self.best:
            middle = prices.halfway(self.best)
            added += self._add(middle, *self._price(middle))
        return added

    def _add(self, prices: Prices, excess: Excess, upper: float) -> int:
        """Add the points that keep the prices' upper bound most above the master's value."""
        threshold = excess.values.max() - (upper - self.lower) + 1e-9 * self.unit
        violated = np.flatnonzero(excess.values > threshold)
        chosen = _largest(excess.values, violated, self.options.max_rows)
        added = self.master.add_points(chosen)
        for i, nearest in excess.nearest.items():
            added += self.master.add_arcs(i, chosen, nearest[chosen])
        return added + self.master.add_cuts(chosen, prices.z)

    def _report(self, rounds: int) -> None:
        gap = self.upper - self.lower
        logger.debug(
            "round %d: %d balls, %d points, %d rows, upper %.10g, lower %.10g",
            *(rounds, len(self.master.active), len(self.master.points), self.master.n_rows),
            *(self.upper, self.lower),
        )
        if self.options.progress is not None:
            details = {"round": rounds, "upper": self.upper, "lower": self.lower, "gap": gap}
            details["balls"] = len(self.master.active)
            self.options.progress("radii" if self.factor else "couplings", None, details)

    def _result(
        self, last: MasterPoint | GenerationResult, rounds: int, status: str
    ) -> GenerationResult:
        return GenerationResult(self.best, self.upper, last.weights, last.minorant, rounds, status)


def _largest(values: Array, candidates: IntArray, count: int) -> IntArray:
    """The ``count`` candidates of largest value."""
    if len(candidates) <= count:
        return candidates
    return candidates[np.argpartition(-values[candidates], count)[:count]]
