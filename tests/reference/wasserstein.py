r"""Worst cases over 1-Wasserstein balls, as the conic programmes of Mohajerin Esfahani and Kuhn.

For a cost that is the largest of affine functions a_k(x)'xi + b_k(x) and samples in
Xi = {xi : C xi <= d},

    minimise  radius lam + sum_i s_i / N
    s.t.      b_k + a_k'xi_i + gamma_ik'(d - C xi_i) <= s_i,  |C'gamma_ik - a_k|_* <= lam,
              gamma_ik >= 0     for all samples i and pieces k

(Theorem 5.1 and Corollary 5.1 there). The newsvendor's pieces are all 2^d combinations of the
items' two. Nothing of the library is used.
"""

from __future__ import annotations

import itertools
import warnings

import cvxpy as cp
import numpy as np
import ot

DUAL = {1: np.inf, 2: 2, np.inf: 1}


def newsvendor_pieces(x, price, cost, holding, backorder):
    """eq:multi_newsvendor as affine functions of xi: pairs of slope (d,) and constant."""
    d = len(price)
    for over in itertools.product([0, 1], repeat=d):
        over = np.array(over)  # where the order exceeds the demand
        slope = np.where(over == 1, -(price + holding), backorder)
        in_x = np.where(over == 1, cost + holding, cost - price - backorder)
        yield slope, in_x @ x


def portfolio_pieces(x, tau, risk_aversion, tail):
    """eq:portfolio as affine functions of xi."""
    steep = risk_aversion / tail
    yield -x, risk_aversion * tau
    yield -(1 + steep) * x, (risk_aversion - steep) * tau


def worst_case(pieces, feasible, samples, radius, norm, box=None, solver=None):
    """Optimal value of the programme; the decision may be a variable or fixed."""
    n, d = samples.shape
    lam, s = cp.Variable(nonneg=True), cp.Variable(n)
    rows = list(feasible)
    for slope, constant in pieces:
        if box is None:
            rows.append(cp.norm(slope, DUAL[norm]) <= lam)
            rows += [constant + slope @ xi <= s[i] for i, xi in enumerate(samples)]
            continue
        lower, upper = box
        for i, xi in enumerate(samples):
            up, down = cp.Variable(d, nonneg=True), cp.Variable(d, nonneg=True)
            rows.append(constant + slope @ xi + up @ (upper - xi) + down @ (xi - lower) <= s[i])
            rows.append(cp.norm(up - down - slope, DUAL[norm]) <= lam)
    problem = cp.Problem(cp.Minimize(radius * lam + cp.sum(s) / n), rows)
    linear = {"solver": "HIGHS"}
    conic = {"solver": "SCS", "eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 500_000}
    chosen = solver or (conic if norm == 2 else linear)
    with warnings.catch_warnings():
        # cvxpy multiplies infinite bounds of its own variables by zero.
        warnings.filterwarnings("ignore", "invalid value encountered in matmul")
        return float(problem.solve(**chosen))


def distance(norm, points, weights, samples):
    """The distance W1 of a weighted distribution from equally weighted samples, by POT."""
    ways = np.linalg.norm(points[:, None, :] - samples[None, :, :], ord=norm, axis=2)
    equal = np.full(len(samples), 1 / len(samples))
    return float(ot.emd2(weights / weights.sum(), equal, ways))


def best_on_a_grid(cost, sample, lower, upper, price, norm, n_grid):
    """sup of cost(xi) - price |xi - sample| over a grid that holds the sample and the corners."""
    axes = [
        np.unique(np.append(np.linspace(low, high, n_grid), at))
        for low, high, at in zip(lower, upper, sample, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sample))
    return float((cost(grid) - price * np.linalg.norm(grid - sample, ord=norm, axis=1)).max())
