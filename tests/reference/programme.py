r"""The discretised programme stated whole and given to a conic solver through cvxpy.

.. math:: \min_{x, \theta, \beta} \; \langle g, \mu_c \rangle + R |g| + \beta
          \quad \text{s.t.} \quad f(x, v_l) \le g(v_l) + \beta, \quad
          g = \sum_l \theta_l k(v_l, \cdot)

(eq:discretized_SMC_DRO_SIP_SOCP), with g in an eigenbasis of the kernel matrix so that the norm is
Euclidean. Losses are written out as the paper has them, kernels as the contract has them; nothing
of the library is used.
"""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np

from reference.kernels import kernel_matrix

#: Clarabel with tolerances well below those of the claims that it checks.
ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def accurate_value(problem, solver="CLARABEL"):
    """The optimal value, from Clarabel as accurately as it can: to 1e-8 at least.

    That is well below the claims checked. Where 1e-10 is out of reach cvxpy warns and calls the
    solution inaccurate, and a larger tolerance is tried.
    """
    if solver != "CLARABEL":
        return float(problem.solve(solver=solver))
    for tol in (1e-10, 1e-9, 1e-8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(solver=solver, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        if problem.status == "optimal":
            return float(problem.value)
    raise AssertionError(f"the reference could not be solved: {problem.status}")


def newsvendor(x, points, price, cost, holding, backorder):
    """eq:multi_newsvendor, as a list of cvxpy expressions, one per point."""
    return [
        -price @ cp.minimum(x, xi)
        + cost @ x
        + holding @ cp.pos(x - xi)
        + backorder @ cp.pos(xi - x)
        for xi in points
    ]


def portfolio(x, tau, points, risk_aversion, tail):
    """eq:portfolio, one expression per point."""
    return [-(x @ xi) + risk_aversion * (tau + cp.pos(-(x @ xi) - tau) / tail) for xi in points]


def quadratic(x, points):
    """|x - xi|^2, one expression per point."""
    return [cp.sum_squares(x - xi) for xi in points]


def log_sum_exp(x, points):
    """log sum_j exp(x_j xi_j), one expression per point."""
    return [cp.log_sum_exp(cp.multiply(xi, x)) for xi in points]


def center_values(support, tables, weights, kernel):
    """mu_c at the support points."""
    return sum(
        w * kernel_matrix(kernel, support, table).mean(axis=1)
        for w, table in zip(weights, tables, strict=True)
        if w > 0
    )


def full_programme(costs, constraints, support, tables, weights, radius, kernel, solver="CLARABEL"):
    """Optimal value of the whole programme; ``costs`` and ``constraints`` are in x alone."""
    K = kernel_matrix(kernel, support, support)
    eigenvalues, vectors = np.linalg.eigh(K)
    keep = eigenvalues > 1e-13 * eigenvalues.max()
    F = vectors[:, keep] * np.sqrt(eigenvalues[keep])  # g(v) = F y, |g| = |y|
    at_center = center_values(support, tables, weights, kernel)
    inner = (vectors[:, keep] / np.sqrt(eigenvalues[keep])).T @ at_center  # <g, mu_c> = inner'y
    y, beta = cp.Variable(F.shape[1]), cp.Variable()
    rows = [cost <= F[row] @ y + beta for row, cost in enumerate(costs)]
    problem = cp.Problem(cp.Minimize(inner @ y + radius * cp.norm(y) + beta), rows + constraints)
    return accurate_value(problem, solver)


def worst_distribution(values, support, tables, weights, radius, kernel, solver="CLARABEL"):
    """The inner problem for a fixed decision: max_w w'values, |mu_w - mu_c| <= R, by cvxpy."""
    K = kernel_matrix(kernel, support, support)
    eigenvalues, vectors = np.linalg.eigh(K)
    keep = eigenvalues > 1e-13 * eigenvalues.max()
    F = vectors[:, keep] * np.sqrt(eigenvalues[keep])
    at_center = center_values(support, tables, weights, kernel)
    inner = (vectors[:, keep] / np.sqrt(eigenvalues[keep])).T @ at_center
    w = cp.Variable(len(support), nonneg=True)
    near = cp.norm(F.T @ w - inner) <= radius
    problem = cp.Problem(cp.Maximize(values @ w), [cp.sum(w) == 1, near])
    return accurate_value(problem, solver)


def hull_programme(costs, constraints, support, tables, mixtures, cap, radius, kernel):
    """The same over a hull of anchors, each a mixture of the tables, thickened by the radius.

    The support function is max_a sum_k a_k <g, mu_k> + R |g| over mixtures a with a_k <= cap; the
    maximum over a is stated by its dual, min_q q + cap sum_k (<g, mu_k> - q)^+.
    """
    K = kernel_matrix(kernel, support, support)
    eigenvalues, vectors = np.linalg.eigh(K)
    keep = eigenvalues > 1e-13 * eigenvalues.max()
    F = vectors[:, keep] * np.sqrt(eigenvalues[keep])
    whiten = (vectors[:, keep] / np.sqrt(eigenvalues[keep])).T
    anchors = [whiten @ center_values(support, tables, row, kernel) for row in mixtures]
    y, beta, q = cp.Variable(F.shape[1]), cp.Variable(), cp.Variable()
    rows = [cost <= F[row] @ y + beta for row, cost in enumerate(costs)]
    worst = q + cap * sum(cp.pos(anchor @ y - q) for anchor in anchors)
    objective = worst + radius * cp.norm(y) + beta
    return accurate_value(cp.Problem(cp.Minimize(objective), rows + constraints))
