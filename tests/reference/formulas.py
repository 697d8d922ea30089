"""Kernels and mean embeddings from the textbook, one distance and one exact sum at a time.

A kernel is a Python function of the Euclidean distance r. Nothing of the library or of NumPy's
linear algebra is used; `math.dist` and `math.fsum` are correct to the last digits.
"""

from __future__ import annotations

import math


def rbf(sigma):
    """exp(-r^2 / 2 sigma^2)."""
    return lambda r: math.exp(-(r**2) / (2 * sigma**2))


def laplace(sigma):
    """exp(-r / sigma)."""
    return lambda r: math.exp(-r / sigma)


def matern32(sigma):
    """(1 + s) exp(-s), s = sqrt(3) r / sigma."""
    return lambda r: (1 + math.sqrt(3) * r / sigma) * math.exp(-math.sqrt(3) * r / sigma)


def matern52(sigma):
    """(1 + s + s^2 / 3) exp(-s), s = sqrt(5) r / sigma."""

    def k(r):
        s = math.sqrt(5) * r / sigma
        return (1 + s + s**2 / 3) * math.exp(-s)

    return k


def plus(k1, k2):
    """k1 + k2."""
    return lambda r: k1(r) + k2(r)


def times(k1, k2):
    """k1 k2."""
    return lambda r: k1(r) * k2(r)


def kernel_rows(k, a, b):
    """k(|a_i - b_j|), as a list of rows."""
    return [[k(math.dist(p, q)) for q in b] for p in a]


def mean_at(k, table, point):
    """The mean embedding of a table of samples, at one point (eq:empirical_counterpart)."""
    return math.fsum(k(math.dist(point, row)) for row in table) / len(table)


def gram(k, tables):
    """Inner products of the tables' mean embeddings (eq:empirical_Gram_matrix)."""
    return [
        [math.fsum(mean_at(k, one, point) for point in other) / len(other) for one in tables]
        for other in tables
    ]


def expansion(k, points, coefficients, at):
    """g(at) = sum_p c_p k(y_p, at)."""
    return math.fsum(c * k(math.dist(p, at)) for c, p in zip(coefficients, points, strict=True))


def herding(k, table, n_steps):
    """eq:herding_step, line by line; among equals the first."""
    n = len(table)
    chosen = []
    for t in range(1, n_steps + 1):
        scores = []
        for y in table:
            attraction = math.fsum(k(math.dist(x, y)) for x in table) / n
            if t == 1:
                scores.append(attraction)
            else:
                repulsion = math.fsum(k(math.dist(table[c], y)) for c in chosen) / (t - 1)
                scores.append(attraction - repulsion)
        chosen.append(max(range(n), key=lambda row: scores[row]))
    return chosen


def squared_mmd(k, one, other):
    """|mu_one - mu_other|^2 of two tables' mean embeddings."""
    (a, b), (_, c) = gram(k, [one, other])
    return a - 2 * b + c
