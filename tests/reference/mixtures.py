"""Distances between distributions and mixtures of sources, from whole kernel matrices."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from reference.kernels import kernel_matrix


def mmd(kernel, a, weights_a, b, weights_b):
    """The distance between two weighted samples."""
    points, weights = np.vstack([a, b]), np.concatenate([weights_a, -np.asarray(weights_b)])
    return float(np.sqrt(max(weights @ kernel_matrix(kernel, points, points) @ weights, 0.0)))


def nearest(kernel, tables, points, weights):
    """The mixture of the tables nearest to a distribution, by cvxpy on the stacked samples."""
    stacked = np.vstack([*tables, points])
    columns = np.zeros((len(stacked), len(tables)))
    start = 0
    for i, table in enumerate(tables):
        columns[start : start + len(table), i] = 1 / len(table)
        start += len(table)
    K = kernel_matrix(kernel, stacked, stacked)
    values, vectors = np.linalg.eigh(K)
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    goal = root @ np.concatenate([np.zeros(start), weights])
    a = cp.Variable(len(tables), nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(root @ columns @ a - goal)), [cp.sum(a) == 1])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    return a.value, float(np.linalg.norm(root @ columns @ a.value - goal))
