"""The ball of support measure clustering, by means other than the library's.

The dual (eq:dual_SMC_quadratic) by sequential minimal optimisation, one pair of weights at a time;
the primal (eq:soft_minimum_ball) as it stands, by cvxpy; and the optimality conditions that join
them. The Gram matrix K is that of the sources' embeddings.
"""

from __future__ import annotations

import math
from fractions import Fraction

import cvxpy as cp
import numpy as np


def dual(K, nu, tol=1e-13, max_steps=500_000):
    """Maximise a'diag(K) - a'Ka over 0 <= a_i <= 1/(M nu), sum a = 1.

    Each step moves weight from the source where it is worth least to the one where it is worth
    most, by the exact optimum for that pair, until no move gains more than ``tol``.
    """
    K = np.asarray(K, dtype=float)
    M = len(K)
    cap = 1 / (M * nu)
    a = np.full(M, 1 / M)
    for _ in range(max_steps):
        worth = np.diag(K) - 2 * K @ a
        up = max((i for i in range(M) if a[i] < cap), key=lambda i: worth[i], default=0)
        down = min((i for i in range(M) if a[i] > 0), key=lambda i: worth[i])
        gain = worth[up] - worth[down]
        if gain <= tol:
            return a
        curvature = 2 * (K[up, up] + K[down, down] - 2 * K[up, down])
        step = gain / curvature if curvature > 0 else math.inf
        room = min(cap - a[up], a[down])
        if step >= room:  # to a bound, exactly
            step = room
        new_up, new_down = a[up] + step, a[down] - step
        if new_up == a[up] and new_down == a[down]:
            return a
        a[up] = cap if step == cap - a[up] else new_up
        a[down] = new_down
    raise AssertionError("the reference QP has not converged")


def squared_distances(K, a):
    """|mu_i - sum_j a_j mu_j|^2 for each i, term by term."""
    M = len(K)
    center = math.fsum(a[i] * a[j] * K[i][j] for i in range(M) for j in range(M))
    return np.array(
        [K[i][i] - 2 * math.fsum(a[j] * K[i][j] for j in range(M)) + center for i in range(M)]
    )


def squared_radius(distances2, nu):
    """The ceil(M nu)-th largest squared distance; nu is a Fraction or text, for no rounding."""
    rank = math.ceil(len(distances2) * Fraction(nu))
    return sorted(distances2, reverse=True)[rank - 1]


def primal(K, nu):
    """Solve eq:soft_minimum_ball for points with Gram matrix K.

    Returns the optimal value, R^2 and the squared distance of each point to the centre.
    """
    K = np.asarray(K, dtype=float)
    M = len(K)
    eigenvalues, vectors = np.linalg.eigh(K)
    points = vectors * np.sqrt(np.maximum(eigenvalues, 0))
    center, R2, s = cp.Variable(M), cp.Variable(), cp.Variable(M, nonneg=True)
    within = [cp.sum_squares(points[i] - center) <= R2 + s[i] for i in range(M)]
    problem = cp.Problem(cp.Minimize(R2 + cp.sum(s) / (M * nu)), within)
    problem.solve(solver=cp.SCS, eps_abs=1e-10, eps_rel=1e-10, max_iters=200_000)
    assert problem.status == "optimal", problem.status
    return problem.value, float(R2.value), ((points - center.value) ** 2).sum(axis=1)


def kkt_violation(K, nu, a, R2):
    """By how much weights and squared radius miss the optimality conditions.

    a_i = 0 only inside or on the sphere, a_i = 1/(M nu) only on it or outside, anything between
    only on it; 0 <= a_i <= 1/(M nu); sum a = 1.
    """
    cap = 1 / (len(a) * nu)
    worst = max(abs(sum(a) - 1), max(-min(a), 0.0), max(max(a) - cap, 0.0))
    for weight, D in zip(a, squared_distances(K, a), strict=True):
        if weight > 1e-12:
            worst = max(worst, R2 - D)
        if weight < cap * (1 - 1e-12):
            worst = max(worst, D - R2)
    return worst
