r"""From balls and a loss to a certified solution.

**Upper.** The loop's best prices (z, lambda, s), with z in X: sum_i (lambda_i eps_i + mean_j s_ij)
plus the largest excess of the cost over all support points, recomputed. Prices with lambda = 0 are
tried too: the costliest support point.

**Lower.** The last master's worst case is mixed with the known distribution P_0 inside all balls
until its exact distances (POT), mixed alike, are within the radii: W1 is convex. What it costs at
least is then minimised over all of X with a dual-feasible value (`roodso.solver.average`).

A ball of radius 0 holds its source's own distribution alone, so the programme is that average's.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso.losses.base import Problem
from roodso.solver.average import minimize_over_mixtures
from roodso.solver.intersection.balls import Balls, Inner, Prices, Pricing
from roodso.solver.intersection.factor import center_of_empty_ball
from roodso.solver.intersection.loop import GenerationOptions, generate
from roodso.solver.intersection.solution import IntersectionSolution

__all__ = [
    "average_bound",
    "pull_inside",
    "put_together",
    "solve_at_radius_zero",
    "solve_intersection",
]


def solve_intersection(
    problem: Problem, balls: Balls, inner: Inner, options: GenerationOptions, start: Array
) -> IntersectionSolution:
    """Solve the programme and certify the outcome.

    Parameters
    ----------
    problem : Problem
    balls : Balls
    inner : Inner
        A distribution in all balls.
    options : GenerationOptions
    start : ndarray
        First decision, in the region.

    Returns
    -------
    IntersectionSolution
    """
    if center_of_empty_ball(balls) is not None:
        return solve_at_radius_zero(problem, balls, inner, options, start)
    started = time.perf_counter()
    pricing = Pricing(balls, options.n_jobs)
    # Rounding that takes P_0 out of a ball would leave the master unbounded.
    bounding = replace(inner, distances=np.minimum(inner.distances, balls.radii))
    result = generate(problem, pricing, bounding, options, start)
    generated = time.perf_counter()
    prices, constant = result.prices, _constant(problem, pricing, result.prices)
    upper = _upper(balls, prices, constant)
    weights, keep = pull_inside(balls, result.weights, inner)
    first_cut = _with_inner(problem, balls, inner, result.minorant, prices.z, keep)
    lower = average_bound(problem, balls.support, weights, prices.z, upper, options.tol, first_cut)
    return put_together(
        problem,
        balls,
        prices,
        constant,
        (lower, upper),
        weights,
        tol=options.tol,
        status=result.status,
        iterations=result.rounds,
        timings={
            "couplings": generated - started,
            "certificate": time.perf_counter() - generated,
        },
    )


def _constant(problem: Problem, pricing: Pricing, prices: Prices) -> float:
    """The largest excess of the cost."""
    costs = problem.values(prices.z, pricing.balls.support)
    everyone = range(pricing.balls.sources.n_sources)
    active = [
        i
        for i in everyone
        if prices.multipliers[i] > 0 or prices.potentials[pricing.balls.rows[i]].any()
    ]
    return float(pricing.excess(costs, prices, active).values.max())


def _upper(balls: Balls, prices: Prices, constant: float) -> float:
    means = sum(float(prices.potentials[rows].mean()) for rows in balls.rows)
    return float(prices.multipliers @ balls.radii) + means + constant


def pull_inside(balls: Balls, weights: Array, inner: Inner) -> tuple[Array, float]:
    """Mix a distribution with one inside until it is inside; returns the share kept too."""
    distances = balls.distances(weights)
    beyond = balls.outside(distances) > 0
    # Where P_0 is itself on the boundary, what rounding explains is let pass; elsewhere nothing is.
    beyond |= (distances > balls.radii) & (inner.distances < balls.radii * (1.0 - 1e-6))
    if not beyond.any():
        return weights, 1.0
    room = np.maximum(balls.radii - inner.distances, 0.0)[beyond]
    share = float((room / (distances - inner.distances)[beyond]).min())
    keep = min(max(share * (1.0 - 1e-12), 0.0), 1.0)
    return keep * weights + (1.0 - keep) * inner.weights, keep


def _with_inner(
    problem: Problem,
    balls: Balls,
    inner: Inner,
    minorant: tuple[float, Array],
    z: Array,
    keep: float,
) -> tuple[float, Array]:
    """The minorant of the worst case's mean cost, mixed with one of P_0's."""
    used = np.flatnonzero(inner.weights)
    xi, shares = balls.support[used], inner.weights[used]
    slope = problem.mean_slope(z, xi, shares)
    constant = float(shares @ problem.values(z, xi) - slope @ z)
    rest = 1.0 - keep
    return keep * minorant[0] + rest * constant, keep * minorant[1] + rest * slope


def average_bound(
    problem: Problem,
    support: Array,
    weights: Array,
    z: Array,
    upper: float,
    tol: float,
    first_cut: tuple[float, Array] | None = None,
) -> float:
    """What a distribution costs at least, whatever the decision."""
    used = np.flatnonzero(weights)
    return minimize_over_mixtures(
        problem,
        support[used],
        weights[used][:, None] / weights[used].sum(),
        cap=1.0,
        start=z,
        tol=0.1 * tol,
        first_cut=first_cut,
        enough=upper - 0.5 * tol * max(1.0, abs(upper)),
    ).lower


def solve_at_radius_zero(
    problem: Problem, balls: Balls, inner: Inner, options: GenerationOptions, start: Array
) -> IntersectionSolution:
    """The average over one source; its own losses are potentials that prove it."""
    started = time.perf_counter()
    used = np.flatnonzero(inner.weights)
    result = minimize_over_mixtures(
        problem,
        balls.support[used],
        inner.weights[used][:, None],
        cap=1.0,
        start=start,
        tol=options.tol,
        max_iter=options.max_iter,
    )
    z = problem.region.project(result.z)
    i = int(balls.radii.argmin())
    costs = problem.values(z, balls.support)
    potentials = np.zeros(balls.sources.n_samples)
    potentials[balls.rows[i]] = costs[balls.rows[i]]
    multipliers = np.zeros(len(balls.radii))
    # The least lambda with which c(v_l) <= s_j + lambda |v_l - xi_j| at all points and samples.
    between = Pricing(balls).distances(i)
    rises = np.maximum(costs[:, None] - costs[balls.rows[i]], 0.0)
    steep = np.divide(rises, between, out=np.zeros_like(rises), where=between > 0)
    multipliers[i] = steep.max()
    prices = Prices(z, multipliers, potentials)
    constant = _constant(problem, Pricing(balls), prices)
    upper = _upper(balls, prices, constant)
    return put_together(
        problem,
        balls,
        prices,
        constant,
        (result.lower, upper),
        inner.weights,
        tol=options.tol,
        status="iteration limit",
        iterations=result.rounds,
        timings={"average": time.perf_counter() - started},
    )


def put_together(
    problem: Problem,
    balls: Balls,
    prices: Prices,
    constant: float,
    bounds: tuple[float, float],
    weights: Array,
    *,
    tol: float,
    status: str,
    **rest: Any,
) -> IntersectionSolution:
    """The solution, and the word for how it ended: "optimal" if and only if the gap is small."""
    lower, upper = min(bounds), bounds[1]
    if upper - lower <= tol * max(1.0, abs(upper)):
        status = "optimal"
    elif status == "optimal":
        status = "inaccurate"
    return IntersectionSolution.over(
        balls.sources,
        balls.support,
        prices.z,
        problem.n_decisions,
        (lower, upper),
        weights=weights,
        active=np.flatnonzero(weights),
        mixture=np.empty(0),
        status=status,
        multipliers=prices.multipliers,
        potentials=prices.potentials,
        constant=constant,
        norm=balls.norm,
        **rest,
    )
