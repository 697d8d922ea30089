r"""Sample averages, and the worst of several: the programme at radius zero.

.. math:: \min_{z \in \mathcal X} \max_{a \in \mathcal A} \textstyle\sum_k a_k F_k(z), \qquad
          F_k(z) = \sum_l w_{lk} f(z, \xi_l),

with A the simplex, capped. One F is a sample average (SAA); the sources' averages give group DRO.
At radius zero the witness drops out, and row generation over points would crawl, so F's own cuts
are used: a level method. Each round takes a lower bound from the cuts, and the next trial point is
the one nearest to the best so far at which the cuts promise a fixed share of the gap. Near the end
that point can be nearer to the best than the solver is accurate; after some rounds that gained
nothing, the trial point is therefore where the cuts are lowest. The bound is restated from the
multipliers through `Region.minimize_linear`, so it holds whatever their accuracy.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from roodso._typing import Array, Progress
from roodso.losses.base import Problem
from roodso.sets.mixtures import into_capped_simplex, largest_mixture
from roodso.solver.conic import ConicProgramme
from roodso.solver.master import Cuts

__all__ = ["AverageResult", "first_decision", "minimize_over_mixtures"]

#: The level is set this share of the gap above the lower bound.
_LEVEL = 0.3
#: Rounds in a row that may gain next to nothing before the trial point is where the cuts are
#: lowest.
_STALLS = 3
#: Where the optimum is below what would be enough, the share of what is missing that the lower
#: bound may be from the optimum.
_NEARLY = 0.01
#: So many rounds in a row that gain next to nothing, and the bounds will not meet: the costs differ
#: by more digits than the solver has.
_GIVE_UP = 200
#: Rounds that a cut may be without multiplier before it is dropped.
_PATIENCE = 20


@dataclass(frozen=True)
class AverageResult:
    """A decision and bounds on the optimum.

    Attributes
    ----------
    z : ndarray
    upper, lower : float
    mixture : ndarray of shape (K,)
        An a in A with min_z sum_k a_k F_k(z) >= lower.
    rounds : int
    touch : ndarray of shape (T, n)
        Where the cuts that prove ``lower`` touch the averages.
    shares : ndarray of shape (T,)
        Their multipliers, which add up to one.
    stalled : bool
        Whether it ended because rounds gained nothing any more.
    """

    z: Array
    upper: float
    lower: float
    mixture: Array
    rounds: int
    touch: Array
    shares: Array
    stalled: bool = False


def first_decision(problem: Problem, xi: Array, weights: Array) -> Array:
    """A first decision, best for the weighted average (n,) where that is cheap to know."""
    found = problem.minimize_average(xi, weights)
    if found is None:
        x = problem.region.some_point()[: problem.n_decisions]
        found = problem.complete(x, xi, weights)
    return problem.region.project(found)


def minimize_over_mixtures(
    problem: Problem,
    xi: Array,
    weights: Array,
    *,
    cap: float,
    start: Array,
    tol: float,
    first_cut: tuple[float, Array] | None = None,
    enough: float = np.inf,
    max_iter: int = 2000,
    time_limit: float = np.inf,
    progress: Progress | None = None,
) -> AverageResult:
    """Minimise the worst mixture of weighted averages.

    Parameters
    ----------
    problem : Problem
    xi : ndarray of shape (n, d)
    weights : ndarray of shape (n, K)
        Columns add up to one.
    cap : float
    start : ndarray
        First trial point, in the region.
    tol : float
        Relative gap to stop at.
    first_cut : tuple of float and ndarray, optional
        A minorant of F (K = 1 only) known already: value at 0 and slope.
    enough : float
        Stop once the lower bound reaches this, or, where it cannot, nearly its best.
    max_iter : int
    time_limit : float
        Seconds.
    progress : callable, optional

    Returns
    -------
    AverageResult
    """
    if weights.shape[1] == 1:
        closed = problem.minimize_average(xi, weights[:, 0])
        if closed is not None:
            value = float(weights[:, 0] @ problem.values(closed, xi))
            return AverageResult(closed, value, value, np.ones(1), 0, closed[None], np.ones(1))
    level = _Level(problem, xi, weights, cap)
    if first_cut is not None:
        level.cuts.add(np.zeros(1, dtype=np.intp), np.zeros_like(start), *_as_cut(first_cut))
    return level.run(start, tol, enough, max_iter, time.monotonic() + time_limit, progress)


def _as_cut(cut: tuple[float, Array]) -> tuple[Array, Array]:
    return np.array([cut[0]]), cut[1][None]


class _Level:
    """The level method's state: cuts, bounds, the best point."""

    def __init__(self, problem: Problem, xi: Array, weights: Array, cap: float) -> None:
        self.problem = problem
        self.xi = xi
        self.weights = weights
        self.cap = cap
        self.cuts = Cuts(problem.region.dimension)
        self.upper, self.lower = np.inf, -np.inf
        self.mixture = np.full(weights.shape[1], 1.0 / weights.shape[1])
        self.proof = np.empty((0, problem.region.dimension)), np.empty(0)

    def run(
        self,
        z: Array,
        tol: float,
        enough: float,
        max_iter: int,
        deadline: float,
        progress: Progress | None,
    ) -> AverageResult:
        """Alternate cuts, bound and trial point."""
        rounds, stalls, gap = 0, 0, np.inf
        while rounds < max_iter and (rounds == 0 or time.monotonic() < deadline):
            rounds += 1
            self._visit(z)
            if self._closed(tol, enough):
                break
            self._raise_lower()
            if self._closed(tol, enough):
                break
            if progress is not None:
                progress("cuts", None, self._details(rounds))
            gap, before = self.upper - self.lower, gap
            stalls = 0 if gap < 0.999 * before else stalls + 1
            if stalls >= _GIVE_UP:
                break
            z = self.lowest if stalls and stalls % _STALLS == 0 else self._trial()
        return AverageResult(
            *(self.z, self.upper, self.lower, self.mixture, rounds),
            *self.proof,
            stalled=stalls >= _GIVE_UP,
        )

    def _details(self, rounds: int) -> dict[str, float]:
        gap = (self.upper - self.lower) / max(1.0, abs(self.upper))
        return {"round": rounds, "upper": self.upper, "lower": self.lower, "gap": gap}

    def _closed(self, tol: float, enough: float) -> bool:
        """Whether the bounds meet, or the lower one is enough or nearly all that it can be."""
        gap = self.upper - self.lower
        if gap <= tol * max(1.0, abs(self.upper)) or self.lower >= enough:
            return True
        return bool(np.isfinite(enough)) and gap <= _NEARLY * (enough - self.upper)

    def _visit(self, z: Array) -> None:
        """Evaluate all averages at z, and add their linearisations."""
        values = self.problem.values(z, self.xi) @ self.weights
        slopes = np.atleast_2d(self.problem.mean_slope(z, self.xi, self.weights))
        self.cuts.add(np.arange(len(values)), z, values, slopes)
        value, _ = largest_mixture(values, self.cap)
        self.latest, self.latest_values, self.latest_slopes = z, values, slopes
        if value < self.upper:
            self.upper, self.z = value, z

    def _raise_lower(self) -> None:
        """Minimise the cuts' model; restate its multipliers as a bound."""
        p, rows = self._model()
        p.solve(1e-10)
        region = self.problem.region
        self.lowest = region.project(region.lower + region.side * p["u"])
        multipliers = np.maximum(p.multipliers(rows), 0.0)
        self.cuts.count_idle(multipliers)
        by_anchor = np.bincount(self.cuts.owner, multipliers, len(self.mixture))
        mixture = into_capped_simplex(by_anchor / by_anchor.sum(), self.cap)
        # Each anchor's multipliers, scaled to one, combine its cuts to a minorant of F_k; an anchor
        # that has none but got weight from rounding takes its latest linearization.
        constant, slope = 0.0, np.zeros(region.dimension)
        for k in np.flatnonzero(mixture):
            if by_anchor[k] > 1e-12:
                own = np.where(self.cuts.owner == k, multipliers / by_anchor[k], 0.0)
                part, part_slope = self.cuts.minorant(own)
            else:
                part_slope = self.latest_slopes[k]
                part = self.latest_values[k] - part_slope @ self.latest
            constant, slope = constant + mixture[k] * part, slope + mixture[k] * part_slope
        lower = constant + region.minimize_linear(slope)
        if lower > self.lower:
            self.lower, self.mixture = lower, mixture
            used = multipliers > 0
            self.proof = self.cuts.touch[used], multipliers[used] / multipliers.sum()
            self.cuts.drop_idle(_PATIENCE)

    def _trial(self) -> Array:
        """The point nearest to the best one at which the model reaches the level."""
        level = self.lower + _LEVEL * (self.upper - self.lower)
        p, _ = self._model(level)
        p.solve(1e-8)
        region = self.problem.region
        return region.project(region.lower + region.side * p["u"])

    def _model(self, level: float | None = None) -> tuple[ConicProgramme, slice]:
        """The programme over the cuts: minimise the model, or project onto a level set of it.

        v_k stands for F_k, and q + cap sum_k (v_k - q)^+ for the worst mixture; costs are measured
        from the best value in units of the cuts' spread, decisions in sides of the box.
        """
        region, n_anchors = self.problem.region, len(self.mixture)
        shift, unit = self.upper, self._unit()
        projecting = level is not None
        p = ConicProgramme()
        if projecting:
            best = (self.z - region.lower) / np.where(region.side > 0, region.side, 1.0)
            p.add_columns("u", -best, quadratic=np.ones(region.dimension))
        else:
            p.add_columns("u", np.zeros(region.dimension))
        region.add_rows(p, "u")
        objective = 0.0 if projecting else 1.0
        if n_anchors == 1:
            p.add_columns("v", np.array([objective]))
            model = {"v": np.ones((1, 1))}
        else:
            p.add_columns("v", np.zeros(n_anchors))
            p.add_columns("q", np.array([objective]))
            p.add_columns("excess", np.full(n_anchors, objective * self.cap))
            eye = np.eye(n_anchors)
            above = {"v": eye, "q": -np.ones((n_anchors, 1)), "excess": -eye}
            p.add_rows("nonnegative", above, np.zeros(n_anchors))
            p.add_rows("nonnegative", {"excess": -eye}, np.zeros(n_anchors))
            model = {"q": np.ones((1, 1)), "excess": np.full((1, n_anchors), self.cap)}
        if level is not None:
            p.add_rows("nonnegative", model, np.array([(level - shift) / unit]))
        owner = np.zeros((len(self.cuts), n_anchors))
        owner[np.arange(len(self.cuts)), self.cuts.owner] = -1.0
        right = (shift - self.cuts.constant - self.cuts.slope @ region.lower) / unit
        slope = self.cuts.slope * region.side / unit
        return p, p.add_rows("nonnegative", {"u": slope, "v": owner}, right)

    def _unit(self) -> float:
        """How much the latest averages can vary over the box."""
        spread = np.abs(self.latest_slopes * self.problem.region.side).sum(axis=1).max()
        gap = self.upper - self.lower
        return float(max(spread, gap if np.isfinite(gap) else 0.0)) or 1.0
