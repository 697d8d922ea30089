"""From a programme to a certified solution: loop, certificate, and the words for how it ended."""

from __future__ import annotations

import time

import numpy as np

from roodso._typing import Array, IntArray
from roodso.sets.mixtures import largest_mixture
from roodso.solver.average import minimize_over_mixtures
from roodso.solver.basis import Basis
from roodso.solver.certificate import certify
from roodso.solver.rows import LoopOptions, Programme, WarmStart, generate_rows
from roodso.solver.solution import Solution, Witness

__all__ = ["solve_programme"]


def solve_programme(
    programme: Programme,
    options: LoopOptions,
    *,
    basis: Basis | None = None,
    warm: WarmStart | None = None,
) -> Solution:
    """Solve a programme and certify the outcome.

    Parameters
    ----------
    programme : Programme
    options : LoopOptions
    basis : Basis, optional
        The paper's representers; exact by default.
    warm : WarmStart, optional

    Returns
    -------
    Solution
    """
    if programme.uncertainty.radius == 0.0:
        return _solve_at_radius_zero(programme, options, warm)
    started = time.perf_counter()
    result = generate_rows(programme, options, basis=basis, warm=warm)
    looped = time.perf_counter()
    certificate = certify(programme, result, options.tol)
    timings = {"rows": looped - started, "certificate": time.perf_counter() - looped}
    status = result.status
    if certificate.gap <= options.tol:
        status = "optimal"
    elif status == "optimal":
        status = "inaccurate" if options.epsilon is None else "stopped by epsilon"
    return _solution(
        programme,
        certificate.z,
        (certificate.lower, certificate.upper),
        status=status,
        iterations=result.rounds,
        weights=certificate.weights,
        mixture=certificate.mixture,
        witness=Witness(certificate.g.expanded(programme.embedding), certificate.beta),
        active=result.active,
        timings=timings,
    )


def _solve_at_radius_zero(
    programme: Programme, options: LoopOptions, warm: WarmStart | None
) -> Solution:
    """Only mixtures of the anchors' own distributions are in the set."""
    problem, cap = programme.problem, programme.uncertainty.cap
    samples = programme.embedding.sources.samples
    anchors = programme.anchor_weights()
    started = time.perf_counter()
    start = programme.start() if warm is None else problem.region.project(warm.z)
    result = minimize_over_mixtures(
        problem, samples, anchors, cap=cap, start=start, tol=options.tol, max_iter=options.max_iter
    )
    z = problem.region.project(result.z)
    upper, _ = largest_mixture(problem.values(z, samples) @ anchors, cap)
    weights = np.zeros(len(programme.support))
    weights[: len(samples)] = anchors @ result.mixture
    closed = upper - result.lower <= options.tol * max(1.0, abs(upper))
    return _solution(
        programme,
        z,
        (result.lower, upper),
        status="optimal" if closed else "iteration limit",
        iterations=result.rounds,
        weights=weights,
        mixture=result.mixture,
        witness=None,
        active=np.empty(0, dtype=np.intp),
        timings={"rows": time.perf_counter() - started},
    )


def _solution(
    programme: Programme,
    z: Array,
    bounds: tuple[float, float],
    *,
    status: str,
    iterations: int,
    weights: Array,
    mixture: Array,
    witness: Witness | None,
    active: IntArray,
    timings: dict[str, float],
) -> Solution:
    sources = programme.embedding.sources
    drawn = np.full(len(programme.support) - sources.n_samples, -1, dtype=np.intp)
    n = programme.problem.n_decisions
    return Solution(
        decision=z[:n],
        internal=z[n:],
        upper_bound=float(bounds[1]),
        lower_bound=float(bounds[0]),
        status=status,
        iterations=iterations,
        support=programme.support,
        worst_case_weights=weights,
        mixture=mixture,
        witness=witness,
        active=active,
        origin=np.concatenate([sources.codes, drawn]),
        labels=sources.labels,
        names=sources.names,
        timings=timings,
    )
