"""Losses item by item and point by point, and their best decisions by linear programmes (HiGHS)."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def newsvendor_cost(x, xi, price, cost, holding, backorder):
    """eq:multi_newsvendor for one decision and one demand, one item at a time."""
    total = 0.0
    for j in range(len(x)):
        total += -price[j] * min(x[j], xi[j]) + cost[j] * x[j]
        total += holding[j] * max(x[j] - xi[j], 0.0) + backorder[j] * max(xi[j] - x[j], 0.0)
    return total


def portfolio_cost(x, tau, xi, risk_aversion, tail):
    """eq:portfolio for one decision and one return."""
    loss = -sum(x[j] * xi[j] for j in range(len(x)))
    return loss + risk_aversion * (tau + max(loss - tau, 0.0) / tail)


def newsvendor_minimum(points, weights, terms, *, lower, upper=None, A_ub=None, b_ub=None):
    """The least weighted mean cost over all orders; None where there is no finite least one.

    With sales s_lj <= x_j, s_lj <= xi_lj: -p s + c x + h (x - s) + b (xi - s), which holds where
    p + h + b >= 0, as selling more then never costs more.
    """
    return _newsvendor(points, terms, lower, upper, A_ub, b_ub, weights)


def newsvendor_game(points, terms, *, lower, upper=None, A_ub=None, b_ub=None):
    """The least cost at the worst of the points."""
    return _newsvendor(points, terms, lower, upper, A_ub, b_ub, None)


def _newsvendor(points, terms, lower, upper, A_ub, b_ub, weights):
    price, cost, holding, backorder = (np.asarray(term, dtype=float) for term in terms)
    n, d = points.shape
    n_columns = d + n * d + 1  # orders, sales, the worst cost
    by_point = np.zeros((n, n_columns))
    for row in range(n):
        by_point[row, :d] = cost + holding
        by_point[row, d + row * d : d + (row + 1) * d] = -(price + holding + backorder)
    constants = points @ backorder
    A, b = [], []
    for row in range(n):
        for j in range(d):
            sold = np.zeros(n_columns)
            sold[d + row * d + j], sold[j] = 1.0, -1.0
            A.append(sold)
            b.append(0.0)
    if A_ub is not None:
        for coefficients, right in zip(np.atleast_2d(A_ub), np.atleast_1d(b_ub), strict=True):
            A.append(np.concatenate([coefficients, np.zeros(n_columns - d)]))
            b.append(right)
    if weights is None:
        objective = np.eye(n_columns)[-1]
        for row in range(n):
            A.append(by_point[row] - objective)
            b.append(-constants[row])
        offset = 0.0
    else:
        objective, offset = weights @ by_point, weights @ constants
    highs = [None] * d if upper is None else [u if np.isfinite(u) else None for u in upper]
    bounds = list(zip(lower, highs, strict=True))
    bounds += [(None, value) for value in points.ravel()] + [(None, None)]
    solved = linprog(objective, A_ub=np.array(A), b_ub=np.array(b), bounds=bounds)
    return solved.fun + offset if solved.status == 0 else None


def portfolio_minimum(points, weights, risk_aversion, tail, A_ub=None, b_ub=None):
    """The least weighted mean of eq:portfolio over portfolios and tau."""
    n, d = points.shape
    objective = np.concatenate(
        [-(weights @ points), [risk_aversion], risk_aversion / tail * weights]
    )
    A = np.hstack([-points, -np.ones((n, 1)), -np.eye(n)])
    b = np.zeros(n)
    if A_ub is not None:
        more = np.atleast_2d(A_ub)
        A = np.vstack([A, np.hstack([more, np.zeros((len(more), 1 + n))])])
        b = np.concatenate([b, np.atleast_1d(b_ub)])
    fully = np.concatenate([np.ones(d), np.zeros(1 + n)])[None]
    bounds = [(0, 1)] * d + [(None, None)] + [(0, None)] * n
    solved = linprog(objective, A_ub=A, b_ub=b, A_eq=fully, b_eq=[1.0], bounds=bounds)
    assert solved.status == 0, solved.message
    return solved.fun
