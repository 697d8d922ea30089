"""Averages over samples, written out whole and given to a solver through cvxpy."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np

_LINEAR = {"solver": "HIGHS"}
_SMOOTH = {"solver": "CLARABEL", "tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def average(instance, points) -> float:
    """Min over decisions of the mean cost over the points."""
    costs, _, feasible = instance.costs(points)
    return _least(instance.kind, cp.sum(cp.hstack(costs)) / len(points), feasible)


def worst_group(instance, tables) -> float:
    """Min over decisions of the largest mean cost over one table."""
    means, feasible = _means(instance, tables)
    return _least(instance.kind, cp.max(cp.hstack(means)), feasible)


def mean_of_worst_groups(instance, tables, tail) -> float:
    """Min over decisions of the conditional value at risk of the tables' mean costs."""
    means, feasible = _means(instance, tables)
    q = cp.Variable()
    tail_mean = q + sum(cp.pos(mean - q) for mean in means) / (tail * len(tables))
    return _least(instance.kind, tail_mean, feasible)


def _means(instance, tables):
    """The mean cost of each table, over one common decision."""
    costs, _, feasible = instance.costs(np.vstack(tables))
    ends = np.cumsum([len(table) for table in tables])
    parts = np.split(np.arange(ends[-1]), ends[:-1])
    return [sum(costs[row] for row in part) / len(part) for part in parts], feasible


def _least(kind, objective, feasible) -> float:
    """HiGHS for what is a linear programme, Clarabel for the rest."""
    linear = kind.startswith(("newsvendor", "portfolio"))
    problem = cp.Problem(cp.Minimize(objective), feasible)
    with warnings.catch_warnings():
        # cvxpy multiplies infinite bounds of its own variables by zero.
        warnings.filterwarnings("ignore", "invalid value encountered in matmul")
        return float(problem.solve(**(_LINEAR if linear else _SMOOTH)))
