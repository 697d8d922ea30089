r"""The programme of an MMD ball, vectorised, by cvxpy: what an expert writes in thirty lines.

.. math:: \min \; \textstyle\sum_l w_l g(v_l) + R |g| + \beta
          \quad \text{s.t.} \quad f(x, v_l) \le g(v_l) + \beta

with g(v) = F z and |g| = |z| for a factor F F' of the kernel matrix: by eigenvectors, or by pivoted
Cholesky, which needs no cube of the matrix's size. A rank keeps the largest part of it; without one
everything above 1e-13 is kept, and it is the full programme (eq:discretized_SMC_DRO_SIP_SOCP).
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from scipy.spatial.distance import cdist
from worker import NotInstalledError, serve

PRICE, COST, HOLDING, BACKORDER = (
    np.array(terms, float) for terms in ([50, 40], [20, 15], [5, 3], [10, 8])
)


def eigenvectors(v: np.ndarray, sigma: float, rank: int | None) -> np.ndarray:
    """F with F F' = K but for the smallest eigenvalues."""
    values, vectors = np.linalg.eigh(np.exp(-cdist(v, v, "sqeuclidean") / (2 * sigma**2)))
    keep = np.flatnonzero(values > 1e-13 * values[-1])[-(rank or len(v)) :]
    return vectors[:, keep] * np.sqrt(values[keep])


def pivoted_cholesky(v: np.ndarray, sigma: float, rank: int | None) -> np.ndarray:
    """F with F F' = K but for what the rank leaves out, from that many columns of K."""
    F, left = np.zeros((len(v), rank or len(v))), np.ones(len(v))
    for k in range(F.shape[1]):
        pivot = left.argmax()
        if left[pivot] <= 1e-13:
            return F[:, :k]
        column = np.exp(-((v - v[pivot]) ** 2).sum(axis=1) / (2 * sigma**2))
        F[:, k] = (column - F[:, :k] @ F[pivot, :k]) / np.sqrt(left[pivot])
        left = np.maximum(left - F[:, k] ** 2, 0.0)
    return F


def newsvendor(v: np.ndarray) -> tuple[cp.Variable, cp.Expression, list[Any]]:
    """Decision, cost at every support point, constraints."""
    x = cp.Variable(2, nonneg=True)
    order = np.ones((len(v), 1)) @ cp.reshape(x, (1, 2), order="C")
    over = cp.pos(order - v) @ (PRICE + BACKORDER + HOLDING)
    return x, (COST - PRICE - BACKORDER) @ x + v @ BACKORDER + over, []


def least_absolute(v: np.ndarray) -> tuple[cp.Variable, cp.Expression, list[Any]]:
    """|y - a x - b| for support points (x, y)."""
    x = cp.Variable(2)
    return x, cp.abs(v[:, 1] - v[:, 0] * x[0] - x[1]), []


LOSSES = {"newsvendor": newsvendor, "least absolute deviations": least_absolute}


FACTORS = {"eigen": eigenvectors, "cholesky": pivoted_cholesky}


def solve(data: Any, options: Any) -> dict[str, Any]:
    v, w, R, sigma = (data[name] for name in ("support", "weights", "radius", "bandwidth"))
    F = FACTORS[options["factor"]](v, float(sigma), options["rank"])
    x, costs, rows = LOSSES[str(data["loss"])](v)
    z, beta = cp.Variable(F.shape[1]), cp.Variable()
    objective = cp.Minimize((w @ F) @ z + R * cp.norm(z) + beta)
    problem = cp.Problem(objective, [costs <= F @ z + beta, *rows])
    if options["solver"] not in cp.installed_solvers():
        raise NotInstalledError(f"cvxpy does not find {options['solver']}")
    problem.solve(solver=options["solver"], **options["settings"])
    if x.value is None:
        raise RuntimeError(f"no solution: {problem.status}")
    note = "" if problem.status == "optimal" else problem.status
    return {"value": float(problem.value), "decision": x.value.tolist(), "note": note}


if __name__ == "__main__":
    serve(solve, ["cvxpy", "clarabel", "scs", "ecos", "qoco", "cvxopt", "pyscipopt", "moreau"])
