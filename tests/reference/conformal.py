"""Conformal balls by definition: distances as double sums, every centre from its own QP.

The QP is solved by sequential minimal optimisation (reference/ball.py).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from reference.ball import dual
from reference.kernels import kernel_matrix


def rank(m, nu):
    """ceil((1 - nu) (m + 1)) in exact arithmetic; nu is a Fraction or text."""
    return math.ceil((1 - Fraction(nu)) * (m + 1))


def smallest_calibration(nu):
    """The smallest m of which a score of that rank exists, by trying."""
    return next(m for m in range(1, 10**6) if rank(m, nu) <= m)


def gram(kernel, tables):
    """Inner products of the tables' embeddings."""
    return np.array([[kernel_matrix(kernel, a, b).mean() for b in tables] for a in tables])


def distance(K, a, b):
    """|sum_i (a_i - b_i) mu_i|."""
    return math.sqrt(max(float((a - b) @ K @ (a - b)), 0.0))


def center(K, members, nu):
    """Weights of the ball's centre, learned from the members only."""
    a = np.zeros(len(K))
    members = list(members)
    a[members] = dual(K[np.ix_(members, members)], nu)
    return a


def split_scores(K, training, calibration, nu):
    """Weights of the centre and |mu_i - c| of the calibration sources."""
    c, eye = center(K, training, nu), np.eye(len(K))
    return c, [distance(K, eye[i], c) for i in calibration]


def leave_one_out_scores(K, training, calibration, nu):
    """Weights of the centre of all, and |mu_i - c_-i| + |c_-i - c| of the calibration sources."""
    everyone = [*training, *calibration]
    c, eye, scores = center(K, everyone, nu), np.eye(len(K)), []
    for i in calibration:
        without = center(K, [j for j in everyone if j != i], nu)
        scores.append(distance(K, eye[i], without) + distance(K, without, c))
    return c, scores


def gaussian_distance(tables, weights, sigma, mean, covariance):
    """Distance of a Gaussian's own embedding to a mixture of the tables', under the RBF kernel.

    E k(v, x) = |I + S / s^2|^(-1/2) exp(-(v - m)' (S + s^2 I)^(-1) (v - m) / 2), and
    |mu|^2 = |I + 2 S / s^2|^(-1/2).
    """
    d = len(mean)
    inverse = np.linalg.inv(covariance + sigma**2 * np.eye(d))
    factor = np.linalg.det(np.eye(d) + covariance / sigma**2) ** -0.5

    def embedding(v):
        return factor * np.exp(-0.5 * np.einsum("ni,ij,nj->n", v - mean, inverse, v - mean))

    own = np.linalg.det(np.eye(d) + 2 * covariance / sigma**2) ** -0.5
    used = [i for i, w in enumerate(weights) if w > 0]
    cross = sum(weights[i] * embedding(tables[i]).mean() for i in used)
    K = gram(("rbf", sigma), [tables[i] for i in used])
    w = np.array([weights[i] for i in used])
    return math.sqrt(max(own - 2 * cross + w @ K @ w, 0.0))
