r"""The programme over an intersection of W1 balls on support points, written out in full.

For a fixed decision the inner problem has a coupling with every source:

.. math:: \max_{P, \pi^i \ge 0} \sum_l P_l c_l \quad \text{s.t.} \quad \sum_j \pi^i_{lj} = P_l, \;
          \sum_l \pi^i_{lj} = 1 / n_i, \; \sum_{lj} |v_l - \xi_{ij}| \pi^i_{lj} \le \epsilon_i .

With the decision, its dual with all L n_i rows of every ball. Distances are numpy's; nothing of the
library is used.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np


def distances(a, b, norm=2):
    """Between all rows of a and b."""
    return np.linalg.norm(a[:, None, :] - b[None, :, :], ord=norm, axis=2)


def couplings(P, support, tables, norm):
    """Constraints that couple P with every source, and the cost of each coupling."""
    constraints, costs = [], []
    for table in tables:
        pi = cp.Variable((len(support), len(table)), nonneg=True)
        constraints += [cp.sum(pi, axis=1) == P, cp.sum(pi, axis=0) == 1 / len(table)]
        costs.append(cp.sum(cp.multiply(distances(support, table, norm), pi)))
    return constraints, costs


def worst_distribution(costs, support, tables, radii, norm=2):
    """The largest mean of given costs over the set."""
    P = cp.Variable(len(support), nonneg=True)
    constraints, lengths = couplings(P, support, tables, norm)
    constraints += [length <= radius for length, radius in zip(lengths, radii, strict=True)]
    problem = cp.Problem(cp.Maximize(costs @ P), [*constraints, cp.sum(P) == 1])
    return float(problem.solve(solver="HIGHS"))


def smallest_factor(support, tables, radii, norm=2):
    """The least t for which the balls of radii t eps_i intersect."""
    P, t = cp.Variable(len(support), nonneg=True), cp.Variable(nonneg=True)
    constraints, lengths = couplings(P, support, tables, norm)
    constraints += [length <= t * radius for length, radius in zip(lengths, radii, strict=True)]
    problem = cp.Problem(cp.Minimize(t), [*constraints, cp.sum(P) == 1])
    return float(problem.solve(solver="HIGHS"))


def full_programme(costs, feasible, support, tables, radii, norm=2, **solver):
    """The best decision's worst case; ``costs`` are cvxpy expressions, one per support point."""
    lam = cp.Variable(len(tables), nonneg=True)
    objective, account = lam @ radii, 0
    constraints = list(feasible)
    for i, table in enumerate(tables):
        s, u = cp.Variable(len(table)), cp.Variable(len(support))
        between = distances(support, table, norm)
        constraints += [u <= s[j] + lam[i] * between[:, j] for j in range(len(table))]
        if i > 0:  # a constant can be moved from one source's s and u to another's
            constraints.append(s[0] == 0)
        objective, account = objective + cp.sum(s) / len(table), account + u
    constraints += [cost <= account[row] for row, cost in enumerate(costs)]
    return float(cp.Problem(cp.Minimize(objective), constraints).solve(**solver))
