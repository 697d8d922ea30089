"""Mixtures by other means: distances to hulls by cvxpy, best mixtures by linear programmes.

A hull is all mixtures of anchors with no share above a cap; its anchors are mixtures of sources.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def squared_distance(K, anchors, cap):
    """Squared distance from the last of the points with Gram matrix K to the hull over the others.

    Row k of ``anchors`` mixes the points but the last into anchor k.
    """
    eigenvalues, vectors = np.linalg.eigh(np.asarray(K))
    points = vectors * np.sqrt(np.maximum(eigenvalues, 0))
    corners, point = np.asarray(anchors) @ points[:-1], points[-1]
    a = cp.Variable(len(corners), nonneg=True)
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(corners.T @ a - point)), [cp.sum(a) == 1, a <= min(cap, 1.0)]
    )
    problem.solve(**ACCURATE)
    return float(problem.value)


def quadratic(G, q, cap):
    """Largest q'a - a'Ga over mixtures with no share above the cap, with G = F'F."""
    eigenvalues, vectors = np.linalg.eigh(np.asarray(G))
    F = np.sqrt(np.maximum(eigenvalues, 0))[:, None] * vectors.T
    a = cp.Variable(len(q), nonneg=True)
    problem = cp.Problem(
        cp.Maximize(q @ a - cp.sum_squares(F @ a)), [cp.sum(a) == 1, a <= min(cap, 1.0)]
    )
    problem.solve(**ACCURATE)
    return float(problem.value)


def linear(values, cap):
    """Largest mean of the values under mixtures with no share above the cap."""
    result = linprog(
        -np.asarray(values),
        A_eq=np.ones((1, len(values))),
        b_eq=[1.0],
        bounds=[(0, min(cap, 1.0))] * len(values),
    )
    return -result.fun
