r"""Functions in the RKHS by their kernel expansion: values and gradients anywhere.

.. math:: g = \sum_p c_p \, k(\cdot, y_p), \qquad
          \nabla g(a) = \sum_p c_p \frac{\kappa'(r_p)}{r_p} (a - y_p), \quad r_p = |a - y_p|, \qquad
          |g|^2 = \sum_{pq} c_p c_q \, k(y_p, y_q),

with :math:`\kappa` the kernel as a function of distance. Points and gradients are in the user's
units; distances are taken in the kernel's coordinates, (x - shift) / scale.

Sums run over tiles of kernel values that stay in cache. The sum in the gradient is split as
:math:`a \sum_p w_p - \sum_p w_p y_p`, which are matrix products; where a kernel with a kink at 0
makes the weights :math:`w_p` of near points large, those are summed as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roodso._typing import Array
from roodso.embedding import _BLOCK, KernelSpace, _in_order
from roodso.pairs import BEARABLE, NEAR, Pairs

__all__ = ["KernelExpansion"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class KernelExpansion:
    """A function g = sum_p c_p k(., y_p).

    Attributes
    ----------
    space : KernelSpace
    points : ndarray of shape (P, d)
        y_p in the user's units.
    coefficients : ndarray of shape (P,)
    known_norm : float, optional
        The RKHS norm where it is known, which spares P^2 / 2 kernel values.
    n_jobs : int, default=1
        Threads; the values do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.embedding import Coordinates
    >>> from roodso.kernels import RBF
    >>> space = KernelSpace(RBF(1.0), Coordinates(np.array([5.0]), np.array([2.0])))
    >>> g = KernelExpansion(space, np.array([[5.0], [7.0]]), np.array([1.0, -1.0]))
    >>> g(np.array([[5.0], [6.0], [7.0]])).round(4).tolist()
    [0.3935, 0.0, -0.3935]
    >>> g.gradient(np.array([[6.0]])).round(4).tolist()
    [[-0.4412]]
    >>> round(g.norm, 4)
    0.8871
    """

    space: KernelSpace
    points: Array
    coefficients: Array
    known_norm: float | None = None
    n_jobs: int = 1

    def __call__(self, xi: Array) -> Array:
        """Values at the rows of ``xi`` (m, d) in the user's units: (m,)."""
        return self._values(self._centered(xi))

    def gradient(self, xi: Array) -> Array:
        """Gradients with respect to the user's units at the rows of ``xi`` (m, d): (m, d).

        A term whose point coincides with the row contributes 0, also where it has a kink there.
        """
        return self.value_and_gradient(xi)[1]

    def value_and_gradient(self, xi: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, d) from one pass over kernel values."""
        at = self._centered(xi)
        starts = range(0, len(at), _BLOCK)

        def rows(start: int) -> tuple[Array, Array]:
            return self._rows_with_gradient(at[start : start + _BLOCK])

        parts = list(_in_order(lambda a: rows(starts[a]), len(starts), self.n_jobs))
        if not parts:
            return np.zeros(0), np.zeros_like(at)
        values = np.concatenate([value for value, _ in parts])
        return values, np.vstack([slope for _, slope in parts]) / self.space.coordinates.scale

    @cached_property
    def norm(self) -> float:
        """The RKHS norm |g|."""
        if self.known_norm is not None:
            return self.known_norm
        squared = float(self.coefficients @ self._values(self._centers))
        return float(np.sqrt(max(squared, 0.0)))

    @cached_property
    def mass(self) -> float:
        """sum_p |c_p|."""
        return float(np.abs(self.coefficients).sum())

    @cached_property
    def _origin(self) -> Array:
        points = self.space.coordinates(self.points)
        return points.sum(axis=0) / max(len(points), 1)  # no points: g = 0

    @cached_property
    def _centers(self) -> Array:
        """y_p in centred kernel coordinates."""
        return self._centered(self.points)

    def _centered(self, xi: Array) -> Array:
        """The kernel's coordinates, moved to the points' mean: squared distances keep digits."""
        return self.space.coordinates(xi) - self._origin

    def rounding(self, lower: Array, upper: Array) -> tuple[float, float]:
        r"""Bounds on the rounding errors of values and gradients in a box of the user's units.

        With E the extent of box and points, in the kernel's coordinates: a squared distance from
        the matrix product is wrong by some eps E^2. A smooth k changes by at most kappa / 2 times
        that, kappa = -k''(0). One with a kink has its distances below 1e-3 E from differences, so
        the distance itself is wrong by at most some 1e3 eps E, its direction by 1e6 eps. Where that
        would be felt, all distances come from differences (`roodso.pairs`) and are wrong by some
        eps E. A sum of P terms adds P eps. The gradient's bound is for the kernel's coordinates.

        Returns
        -------
        tuple of float
        """
        kernel = self.space.kernel
        corners = self._centered(np.vstack([lower, upper]))
        extent = float(np.linalg.norm(np.abs(np.vstack([corners, self._centers])).max(axis=0)))
        unit = (len(self.coefficients) + 64) * _EPS * self.mass
        by_difference = kernel.bound + 4.0 * kernel.steepness * extent
        most = 4.0 * BEARABLE / _EPS * kernel.bound
        kappa = kernel.curvature
        if np.isfinite(kappa):
            stretch = min(kappa * extent**2, most)
            return unit * (by_difference + stretch), unit * kappa * extent * (8.0 + stretch)
        blur = kernel.steepness / np.sqrt(NEAR)
        return unit * (by_difference + min(blur * extent, most)), unit * blur / np.sqrt(NEAR)

    def _values(self, at: Array) -> Array:
        """Values at points in centred kernel coordinates."""
        centers = self._centers
        pairs = Pairs(self.space.kernel, at, centers)
        starts = range(0, len(at), _BLOCK)

        def rows(a: int) -> Array:
            own = slice(starts[a], min(starts[a] + _BLOCK, len(at)))
            total = np.zeros(own.stop - own.start)
            buffer = np.empty(len(total) * _BLOCK)
            for start in range(0, len(centers), _BLOCK):
                part = slice(start, start + _BLOCK)
                total += pairs.values(own, part, buffer) @ self.coefficients[part]
            return total

        parts = list(_in_order(rows, len(starts), self.n_jobs))
        return np.concatenate(parts) if parts else np.zeros(0)

    def _rows_with_gradient(self, at: Array) -> tuple[Array, Array]:
        """Values and gradients at one block of rows, all in centred kernel coordinates."""
        kernel = self.space.kernel
        values, gradient, total = np.zeros(len(at)), np.zeros_like(at), np.zeros(len(at))
        pairs = Pairs(kernel, at, self._centers)
        for start in range(0, len(self.points), _BLOCK):
            part = slice(start, start + _BLOCK)
            centers, coefficients = self._centers[part], self.coefficients[part]
            squared = pairs.squared(columns=part)
            np.maximum(squared, 0.0, out=squared)
            rows, columns = np.nonzero(squared < pairs.near)
            r = np.sqrt(squared, out=squared)
            value, weight = kernel.profile(r)
            values += value @ coefficients
            np.divide(weight, r, out=weight, where=r > 0)
            # The limit at 0, where r may be so by rounding only; a kink has none, and no part.
            weight[r == 0] = 0.0 if kernel.sharp else -kernel.curvature
            weight *= coefficients
            if len(rows):
                difference = at[rows] - centers[columns]
                np.add.at(gradient, rows, weight[rows, columns][:, None] * difference)
                weight[rows, columns] = 0.0
            total += weight.sum(axis=1)
            gradient -= weight @ centers
        gradient += total[:, None] * at
        return values, gradient
