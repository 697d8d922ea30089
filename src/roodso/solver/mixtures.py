r"""The worst mixture of sample averages, certified: the programme of a set without a kernel.

.. math:: \min_{z \in \mathcal X} \max_{a \in \mathcal A} \textstyle\sum_k a_k
          \sum_l w_{lk} f(z, \xi_l)

It is solved by `roodso.solver.average`. **Upper**: the averages at the decision, recomputed, and
the worst mixture of them. **Lower**: the returned mixture's own distribution, which no decision
brings below the bound. One column w of pooled weights gives the sample average approximation, the
sources' columns give group DRO, and the anchors of a learned set of radius 0 give RooD-SO's limit.
"""

from __future__ import annotations

import time

import numpy as np

from roodso._typing import Array
from roodso.losses.base import Problem
from roodso.sets.mixtures import largest_mixture
from roodso.solver.average import AverageResult, first_decision, minimize_over_mixtures
from roodso.solver.rows import LoopOptions
from roodso.solver.solution import Solution
from roodso.sources import Sources

__all__ = ["solve_mixtures", "status_of"]


def solve_mixtures(
    problem: Problem,
    sources: Sources,
    anchors: Array,
    options: LoopOptions,
    *,
    cap: float = 1.0,
    start: Array | None = None,
    support: Array | None = None,
) -> Solution:
    """Minimise the worst mixture of averages over samples.

    Parameters
    ----------
    problem : Problem
    sources : Sources
    anchors : ndarray of shape (N, K)
        Weights of the samples in each average; columns add up to one.
    options : LoopOptions
        Tolerance and limits.
    cap : float, default=1.0
        Largest weight of one anchor.
    start : ndarray, optional
        First trial decision, by default the best for the anchors' average where that is cheap.
    support : ndarray of shape (L, d), optional
        Support points to report: the samples, then others, which get no weight.

    Returns
    -------
    Solution
    """
    samples = sources.samples
    started = time.perf_counter()
    if start is None:
        start = first_decision(problem, samples, anchors.mean(axis=1))
    result = minimize_over_mixtures(
        problem,
        samples,
        anchors,
        cap=cap,
        start=start,
        tol=options.tol,
        max_iter=options.max_iter,
        time_limit=options.time_limit,
        progress=options.progress,
    )
    z = problem.region.project(result.z)
    upper, _ = largest_mixture(problem.values(z, samples) @ anchors, cap)
    lower = min(result.lower, upper)  # which rounding can exchange
    support = samples if support is None else support
    weights = np.zeros(len(support))
    weights[: len(samples)] = anchors @ result.mixture
    return Solution.over(
        sources,
        support,
        z,
        problem.n_decisions,
        (lower, upper),
        weights=weights,
        mixture=result.mixture,
        status=status_of(lower, upper, result, options),
        iterations=result.rounds,
        timings={"rows": time.perf_counter() - started},
    )


def status_of(lower: float, upper: float, result: AverageResult, options: LoopOptions) -> str:
    """How the level method ended, from the bounds that were recomputed after it."""
    if upper - lower <= options.tol * max(1.0, abs(upper)):
        return "optimal"
    if result.stalled:
        return "stalled"
    return "iteration limit" if result.rounds >= options.max_iter else "time limit"
