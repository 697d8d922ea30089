r"""The worst case over a 1-Wasserstein ball round the samples, as an average of another cost.

With the distance of two distributions the least mean way between them, in a norm of xi, the ball's
worst case is (Mohajerin Esfahani and Kuhn, 2018)

.. math:: \sup_{W_1(P, \hat P) \le \epsilon} \mathrm E_P f(z, \xi) = \min_{\lambda \ge 0} \;
          \frac1N \sum_i \Big[ \epsilon \lambda
          + \sup_{\xi \in \Xi} f(z, \xi) - \lambda |\xi - \hat\xi_i| \Big].

Each bracket is convex in (z, lambda): a cost like any other, whose sample average is minimised as
all averages are.

**Whole space.** The supremum is :math:`f(z, \hat\xi_i)` if lambda is at least the Lipschitz
constant L(z) of f(z, .), and, for f convex in xi, infinite otherwise. So the cost is f + epsilon L.

**Box.** For costs that are largest of sums over columns (`ColumnPieces`) the supremum is found
exactly (`roodso.solver.transport`), and its maximiser gives the subgradients: that of f(., xi)
there, and epsilon less the way. No lambda above the largest Lipschitz constant is needed.

The cuts that prove the lower bound each moved the samples somewhere; mixed by their multipliers,
these are a distribution. It is pulled towards the samples until its mean way is at most epsilon,
and the bound is stated for what remains.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from roodso._typing import Array, IntArray
from roodso.losses.base import Problem
from roodso.solver.average import AverageResult, first_decision, minimize_over_mixtures
from roodso.solver.mixtures import solve_mixtures, status_of
from roodso.solver.rows import LoopOptions
from roodso.solver.solution import Solution
from roodso.solver.transport import best_points, distances
from roodso.sources import Sources

__all__ = ["WassersteinBall", "check_ball", "solve_over_ball"]

#: Cuts with a smaller share move no mass.
_SHARE = 1e-9


@dataclass(frozen=True)
class WassersteinBall:
    """A 1-Wasserstein ball round pooled samples.

    Attributes
    ----------
    radius : float
    norm : float
        1, 2 or inf: the norm that ways are measured in.
    box : (lower, upper) or None
        Where mass may be; None is the whole space.
    """

    radius: float
    norm: float
    box: tuple[Array, Array] | None


def check_ball(problem: Problem, ball: WassersteinBall) -> None:
    """Refuse a loss for which the worst case over such a ball is not known."""
    z = problem.region.some_point()
    if ball.box is None:
        problem.lipschitz(z, ball.norm)
    elif problem.column_pieces(z) is None:
        raise ValueError(
            'support="box" needs a loss that is the largest of sums over the columns of xi '
            "(Newsvendor, CVaRPortfolio): for a loss known by values and subgradients in x only, "
            "where in the box it is worst is not known. Use support='unbounded' with "
            "ConvexLoss(..., lipschitz=...), which bounds the worst case from above"
        )


def solve_over_ball(
    problem: Problem, sources: Sources, ball: WassersteinBall, options: LoopOptions
) -> Solution:
    """Minimise the worst case over the ball, and certify it.

    Parameters
    ----------
    problem : Problem
    sources : Sources
        Samples within the ball's box.
    ball : WassersteinBall
    options : LoopOptions

    Returns
    -------
    Solution
        With a box, ``support`` holds the samples, then where they are moved, by the source that
        they are from. On the whole space no worst distribution need exist: mass goes ever further
        in ever smaller portions; ``worst_case_weights`` are then those of the samples.
    """
    if ball.box is not None:
        return _solve_in_box(problem, sources, ball, ball.box, options)
    anchors = np.full((sources.n_samples, 1), 1.0 / sources.n_samples)
    solution = solve_mixtures(_Regularized(problem, ball), sources, anchors, options)
    z = np.concatenate([solution.decision, solution.internal])
    price, _ = problem.lipschitz(z, ball.norm)
    return replace(solution, multipliers=np.array([price]))


class _Regularized(Problem):
    """f + epsilon L: the cost whose average is the worst case on the whole space."""

    def __init__(self, problem: Problem, ball: WassersteinBall) -> None:
        self.problem = problem
        self.ball = ball
        self.region = problem.region
        self.n_decisions = problem.n_decisions

    def values(self, z: Array, xi: Array) -> Array:
        constant, _ = self.problem.lipschitz(z, self.ball.norm)
        return self.problem.values(z, xi) + self.ball.radius * constant

    def slopes(self, z: Array, xi: Array) -> Array:
        _, slope = self.problem.lipschitz(z, self.ball.norm)
        return self.problem.slopes(z, xi) + self.ball.radius * slope

    def mean_slope(self, z: Array, xi: Array, weights: Array) -> Array:
        _, slope = self.problem.lipschitz(z, self.ball.norm)
        added = np.multiply.outer(weights.sum(axis=0), self.ball.radius * slope)
        return self.problem.mean_slope(z, xi, weights) + added

    def minimize_average(self, xi: Array, weights: Array) -> Array | None:
        # What minimises the average of f minimises the sum where L has its minimum there too.
        z = self.problem.minimize_average(xi, weights)
        if z is None or self.problem.lipschitz(z, self.ball.norm)[1].any():
            return None
        return z

    def complete(self, x: Array, xi: Array, weights: Array) -> Array:
        return self.problem.complete(x, xi, weights)


class _Priced(Problem):
    """epsilon lambda + sup_xi f(z, xi) - lambda |xi - xi_i|, in (z, lambda), over a box of xi."""

    def __init__(
        self, problem: Problem, radius: float, norm: float, box: tuple[Array, Array]
    ) -> None:
        self.problem = problem
        self.radius = radius
        self.norm = norm
        self.box = box
        self.region = problem.region.extended(0.0, problem.lipschitz_bound(norm))
        self.n_decisions = problem.n_decisions
        self._last: tuple[Array, Array, Array] | None = None

    def move(self, z: Array, xi: Array) -> Array:
        """Where each sample is worth most at (z, lambda); remembered for the next call."""
        if self._last is None or self._last[1] is not xi or not np.array_equal(self._last[0], z):
            pieces = self.problem.column_pieces(z[:-1])
            assert pieces is not None
            moved = best_points(pieces, xi, *self.box, max(float(z[-1]), 0.0), self.norm)
            self._last = z.copy(), xi, moved
        return self._last[2]

    def values(self, z: Array, xi: Array) -> Array:
        moved = self.move(z, xi)
        way = distances(moved, xi, self.norm)
        return self.problem.values(z[:-1], moved) + z[-1] * (self.radius - way)

    def slopes(self, z: Array, xi: Array) -> Array:
        moved = self.move(z, xi)
        way = distances(moved, xi, self.norm)
        return np.column_stack([self.problem.slopes(z[:-1], moved), self.radius - way])

    def mean_slope(self, z: Array, xi: Array, weights: Array) -> Array:
        moved = self.move(z, xi)
        way = weights.T @ (self.radius - distances(moved, xi, self.norm))
        return np.hstack([self.problem.mean_slope(z[:-1], moved, weights), way[..., None]])


def _solve_in_box(
    problem: Problem,
    sources: Sources,
    ball: WassersteinBall,
    box: tuple[Array, Array],
    options: LoopOptions,
) -> Solution:
    samples, n = sources.samples, sources.n_samples
    started = time.perf_counter()
    priced = _Priced(problem, ball.radius, ball.norm, box)
    equal = np.full(n, 1.0 / n)
    first = first_decision(problem, samples, equal)
    start = np.append(first, problem.lipschitz(first, ball.norm)[0])
    result = minimize_over_mixtures(
        priced,
        samples,
        equal[:, None],
        cap=1.0,
        start=start,
        tol=0.5 * options.tol,  # the rest is left to the certificate
        max_iter=options.max_iter,
        time_limit=options.time_limit,
        progress=options.progress,
    )
    z = priced.region.project(result.z)
    upper = float(priced.values(z, samples).mean())
    worst = _worst_distribution(priced, samples, result)
    lower = min(_least_cost(priced, samples, worst, z[:-1], upper, options), upper)
    return Solution.over(
        sources,
        np.vstack([samples, worst.points]),
        z[:-1],
        problem.n_decisions,
        (lower, upper),
        weights=np.concatenate([worst.staying, worst.weights]),
        origin=np.concatenate([sources.codes, sources.codes[worst.rows]]),
        mixture=np.ones(1),
        multipliers=z[-1:],
        status=status_of(lower, upper, result, options),
        iterations=result.rounds,
        timings={"rows": time.perf_counter() - started},
    )


@dataclass(frozen=True)
class _Moved:
    """A distribution in the ball: mass that stays at the samples, and mass that is moved.

    ``points`` (m, d) with ``weights`` (m,) are moved from the samples ``rows`` (m,); ``staying``
    (n,) is the samples' weight. The share ``kept`` of it is the mixture that the cuts gave, the
    rest the samples as they are; ``minorant`` (value at 0, slope) lies below the mixture's part of
    the mean cost.
    """

    points: Array
    weights: Array
    rows: IntArray
    staying: Array
    kept: float
    minorant: tuple[float, Array]


def _worst_distribution(priced: _Priced, samples: Array, result: AverageResult) -> _Moved:
    """Mix the ways in which the proving cuts moved the samples, and pull the mixture inside."""
    n, d = samples.shape
    used = result.shares > _SHARE
    touch, shares = result.touch[used], result.shares[used]
    shares = shares / shares.sum() if len(shares) else shares
    moves = [priced.move(z, samples) for z in touch]
    way = sum(
        share * distances(moved, samples, priced.norm).mean()
        for share, moved in zip(shares, moves, strict=True)
    )
    kept = min(1.0, priced.radius * (1 - 1e-12) / way) if way > 0 else float(len(shares) > 0)
    constant, slope = 0.0, np.zeros(priced.problem.region.dimension)
    staying = np.full(n, (1.0 - kept) / n)
    left = np.zeros((len(moves), n))  # mass that each way of moving brings to its own points
    equal = np.full(n, 1.0 / n)
    for number, (z, share, moved) in enumerate(zip(touch[:, :-1], shares, moves, strict=True)):
        at = priced.problem.mean_slope(z, moved, equal)
        constant += kept * share * float(priced.problem.values(z, moved).mean() - at @ z)
        slope = slope + kept * share * at
        stays = (moved == samples).all(axis=1)
        staying[stays] += kept * share / n
        new = ~stays
        for earlier in range(number):  # the same point again takes the earlier one's place
            same = new & (moved == moves[earlier]).all(axis=1)
            left[earlier, same] += kept * share / n
            new &= ~same
        left[number, new] = kept * share / n
    which, rows = np.nonzero(left)
    points = np.stack(moves)[which, rows] if len(moves) else np.empty((0, d))
    return _Moved(points, left[which, rows], rows, staying, kept, (constant, slope))


def _least_cost(
    priced: _Priced, samples: Array, worst: _Moved, z: Array, upper: float, options: LoopOptions
) -> float:
    """A lower bound on the mean cost of any decision under the distribution."""
    problem = priced.problem
    equal = np.full(len(samples), (1.0 - worst.kept) / len(samples))
    slope = problem.mean_slope(z, samples, equal)
    constant = float(equal @ problem.values(z, samples) - slope @ z)
    minorant = worst.minorant[0] + constant, worst.minorant[1] + slope
    lower = minorant[0] + problem.region.minimize_linear(minorant[1])
    if upper - lower <= options.tol * max(1.0, abs(upper)):
        return lower
    result = minimize_over_mixtures(
        problem,
        np.vstack([samples, worst.points]),
        np.concatenate([worst.staying, worst.weights])[:, None],
        cap=1.0,
        start=z,
        tol=0.1 * options.tol,
        first_cut=minorant,
        enough=upper - 0.5 * options.tol * max(1.0, abs(upper)),
        max_iter=options.max_iter,
    )
    return max(lower, result.lower)
