"""From a programme to a certified solution: loop, certificate, and the words for how it ended."""

from __future__ import annotations

import time

from roodso.embedding import Embedding
from roodso.lowrank import LowRank
from roodso.sets.uncertainty import UncertaintySet
from roodso.solver.basis import Basis
from roodso.solver.certificate import certify
from roodso.solver.mixtures import solve_mixtures
from roodso.solver.rows import LoopOptions, Programme, WarmStart, generate_rows
from roodso.solver.solution import EmbeddingReport, Solution, Witness

__all__ = ["report_embedding", "solve_programme"]


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
        # Only mixtures of the anchors' own distributions are in the set.
        return solve_mixtures(
            programme.problem,
            programme.embedding.sources,
            programme.anchor_weights(),
            options,
            cap=programme.uncertainty.cap,
            start=None if warm is None else programme.problem.region.project(warm.z),
            support=programme.support,
        )
    started = time.perf_counter()
    result = generate_rows(programme, options, basis=basis, warm=warm)
    looped = time.perf_counter()
    certificate = certify(programme, result, options.tol, options.time_limit)
    timings = {"rows": looped - started, "certificate": time.perf_counter() - looped}
    status = result.status
    if certificate.gap <= options.tol:
        status = "optimal"
    elif status == "optimal":
        status = _why_open(programme, options, basis)
    return Solution.over(
        programme.embedding.sources,
        programme.support,
        certificate.z,
        programme.problem.n_decisions,
        (certificate.lower, certificate.upper),
        status=status,
        iterations=result.rounds,
        weights=certificate.weights,
        mixture=certificate.mixture,
        witness=Witness(certificate.g.expanded(programme.embedding), certificate.beta),
        active=result.active,
        timings=timings,
    )


def report_embedding(embedding: Embedding, uncertainty: UncertaintySet) -> EmbeddingReport:
    """How good the embedding is, and what that means for a set learned with it.

    The optimum of the sources' own QP (eq:dual_SMC_quadratic) is that of the known Gram matrix, or
    more by at most sum_i a_i e_i^2: residuals add a positive semidefinite matrix to K.
    """
    errors = embedding.errors
    landmarks = embedding.landmarks if isinstance(embedding, LowRank) else None
    return EmbeddingReport(
        kind="exact" if landmarks is None else "low rank",
        rank=0 if landmarks is None else landmarks.rank,
        residual=0.0 if landmarks is None else landmarks.residual,
        error=float(errors.max()),
        radius_error=uncertainty.radius_error,
        weights_gap=float((errors**2).max()),
    )


def _why_open(programme: Programme, options: LoopOptions, basis: Basis | None) -> str:
    """Why the certified gap is open although the loop met its own aim."""
    if programme.embedding.errors.any():
        return "low rank"
    if basis is not None and not basis.exact:
        return "restricted"
    return "inaccurate" if options.epsilon is None else "stopped by epsilon"
