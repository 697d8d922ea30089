"""Populations of distributions whose mean embeddings are known exactly.

Gaussians under the RBF kernel, by the Gaussian integral

    E k(x, y) = sigma^d / sqrt(det V) exp(-(m - m')' V^-1 (m - m') / 2),  V = sigma^2 I + S + S',

and distributions on a few atoms, by matrix products: a sample of any size is then a vector of
counts. Nothing of the library is used.
"""

from __future__ import annotations

import numpy as np


def gaussian_products(means, variances, other_means, other_variances, sigma):
    """Inner products of the embeddings of N(m, s^2 I) and N(m', s'^2 I) under the RBF kernel.

    means (a, d), variances (a,), other_means (b, d), other_variances (b,): (a, b). A point is a
    Gaussian of variance 0.
    """
    v = sigma**2 + variances[:, None] + other_variances[None, :]
    squared = ((means[:, None, :] - other_means[None, :, :]) ** 2).sum(axis=2)
    return (sigma**2 / v) ** (means.shape[1] / 2) * np.exp(-squared / (2 * v))


def embedding_errors(samples, means, variances, sigma):
    """|mu_hat - mu| of samples (r, n, d) from N(means_r, variances_r I), one for each r."""
    zero = np.zeros(samples.shape[1])
    errors = []
    for table, mean, variance in zip(samples, means, variances, strict=True):
        at, around = mean[None], np.array([variance])
        own = gaussian_products(table, zero, table, zero, sigma).mean()
        cross = gaussian_products(table, zero, at, around, sigma).mean()
        true = gaussian_products(at, around, at, around, sigma)[0, 0]
        errors.append(np.sqrt(max(own - 2 * cross + true, 0.0)))
    return np.array(errors)


class Atoms:
    """Distributions on atoms (A, d) under the RBF kernel: one row of probabilities each."""

    def __init__(self, atoms, sigma):
        squared = ((atoms[:, None, :] - atoms[None, :, :]) ** 2).sum(axis=2)
        self.kernel = np.exp(-squared / (2 * sigma**2))

    def products(self, one, other):
        """Inner products of the embeddings of the rows of two tables of probabilities."""
        return one @ self.kernel @ other.T

    def norm(self, measure):
        """RKHS norm of a signed measure on the atoms."""
        return float(np.sqrt(max(measure @ self.kernel @ measure, 0.0)))

    @staticmethod
    def sample(rng, distributions, sizes):
        """Empirical distributions of independent samples, one per row."""
        counts = [rng.multinomial(n, p) for n, p in zip(sizes, distributions, strict=True)]
        return np.array(counts) / np.asarray(sizes)[:, None]
