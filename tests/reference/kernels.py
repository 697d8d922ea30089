"""Kernels by their formulas, from differences: slow, and exact near and far.

A kernel is described by a tuple: ("rbf", sigma), ("laplace", sigma), ("matern32", sigma),
("matern52", sigma), ("sum", kernel, kernel) or ("product", kernel, kernel).
"""

from __future__ import annotations

import numpy as np


def kernel_matrix(kernel, a, b):
    """Kernel values between the rows of a and b."""
    kind = kernel[0]
    if kind == "sum":
        return kernel_matrix(kernel[1], a, b) + kernel_matrix(kernel[2], a, b)
    if kind == "product":
        return kernel_matrix(kernel[1], a, b) * kernel_matrix(kernel[2], a, b)
    sigma = kernel[1]
    r = np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))
    if kind == "rbf":
        return np.exp(-(r**2) / (2 * sigma**2))
    if kind == "laplace":
        return np.exp(-r / sigma)
    if kind == "matern32":
        s = np.sqrt(3) * r / sigma
        return (1 + s) * np.exp(-s)
    if kind == "matern52":
        s = np.sqrt(5) * r / sigma
        return (1 + s + s**2 / 3) * np.exp(-s)
    raise ValueError(kind)


def describe(kernel):
    """The tuple for a kernel object of the library, from its own description."""
    d = kernel.to_dict()
    if "parts" in d:
        from roodso.kernels import kernel_from_dict

        return (d["kind"], *(describe(kernel_from_dict(part)) for part in d["parts"]))
    return (d["kind"], d["bandwidth"])
