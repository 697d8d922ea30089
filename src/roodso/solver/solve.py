"""From a programme to a certified solution: loop, certificate, and the words for how it ended."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from roodso._typing import Array, IntArray
from roodso.chunks import SupportChunks
from roodso.embedding import Embedding
from roodso.lowrank import LowRank, Streamed
from roodso.sets.uncertainty import UncertaintySet
from roodso.solver.basis import Basis
from roodso.solver.certificate import certify
from roodso.solver.mixtures import solve_mixtures
from roodso.solver.rows import LoopOptions, Programme, WarmStart, generate_rows
from roodso.solver.solution import EmbeddingReport, Solution, Witness
from roodso.solver.sweeps import Swept, WorkingSet, sweep_programme

__all__ = ["report_embedding", "solve_programme", "solve_streamed"]


#: Support points above which the loop runs on a working set, where the embedding is of low rank;
#: and samples in that to begin with.
_MANY, _WORKING = 40_000, 20_000


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
    if isinstance(programme.embedding, Streamed):
        return solve_streamed(programme, options, warm=warm)[1]
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
    if isinstance(programme.embedding, LowRank) and len(programme.support) > _MANY:
        return _solve_by_sweeps(programme, programme.embedding, options, warm)
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


def _solve_by_sweeps(
    programme: Programme, embedding: LowRank, options: LoopOptions, warm: WarmStart | None
) -> Solution:
    """Solve on a working set, with a look at all points now and then (`roodso.solver.sweeps`)."""
    started = time.perf_counter()
    working = WorkingSet.of(embedding, _WORKING)
    if warm is not None:
        missing = np.setdiff1d(warm.points, working.numbers)
        drawn = np.full(len(missing), -1, dtype=np.intp)
        working = working.joined(programme.support[missing], drawn, missing)
        warm = WarmStart(working.places(warm.points), warm.z)
    swept = sweep_programme(programme, working, SupportChunks(embedding), options, warm=warm)
    numbers = swept.working.numbers
    weights = np.zeros(len(programme.support))
    anchor_weights = programme.anchor_weights()
    weights[: len(anchor_weights)] = anchor_weights @ swept.pulled.anchors
    weights[numbers[swept.points]] += swept.pulled.points
    return _swept_solution(
        programme, swept, programme.support, weights, numbers[swept.active], started
    )


def solve_streamed(
    programme: Programme, options: LoopOptions, *, warm: WarmStart | None = None
) -> tuple[Programme, Solution]:
    """Solve where the samples are elsewhere; also the programme with its last working set.

    Parameters
    ----------
    programme : Programme
        Whose embedding is `Streamed`.
    options : LoopOptions
    warm : WarmStart, optional
        Points of the embedding's support.

    Returns
    -------
    programme : Programme
    solution : Solution
    """
    started = time.perf_counter()
    embedding = programme.embedding
    assert isinstance(embedding, Streamed)
    if programme.uncertainty.radius == 0.0:
        raise ValueError(
            "the set has radius 0, so that only mixtures of the sources are in it: that is solved "
            "in memory only"
        )
    if embedding.chunks is None:
        raise ValueError(
            "the data that the model was fitted to are out of reach (a saved model does not hold "
            "them): fit again"
        )
    working = WorkingSet(embedding, embedding.codes, embedding.numbers)
    swept = sweep_programme(programme, working, embedding.chunks, options, warm=warm)
    last = swept.working
    known = last.embedding
    grown = Streamed(
        *(known.space, known.support, known.points, known.means, known.sources, known.landmarks),
        codes=last.codes,
        numbers=last.numbers,
        chunks=embedding.chunks,
    )
    weights = np.zeros(len(known.support))
    weights[swept.points] = swept.pulled.points
    solution = _swept_solution(programme, swept, known.support, weights, swept.active, started)
    own = swept.pulled.anchors @ programme.uncertainty.mixtures
    grown_programme = replace(programme, embedding=grown)
    return grown_programme, replace(solution, origin=last.codes, source_weights=own)


def _swept_solution(
    programme: Programme,
    swept: Swept,
    support: Array,
    weights: Array,
    active: IntArray,
    started: float,
) -> Solution:
    return Solution.over(
        programme.embedding.sources,
        support,
        swept.z,
        programme.problem.n_decisions,
        (swept.lower, swept.upper),
        status=swept.status,
        iterations=swept.rounds,
        weights=weights,
        mixture=swept.pulled.mixture,
        witness=Witness(swept.g.expanded(swept.working.embedding), swept.beta),
        active=active,
        timings={"rows": time.perf_counter() - started},
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
