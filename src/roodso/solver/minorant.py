r"""Functions below the witness, cell by cell: what a proof over a box stands on.

On a cell with centre a, all :math:`|\delta_j| \le r_j`, :math:`\rho = |r|`, the witness is at least

.. math:: g(a + \delta) \ge g(a) + \nabla g(a)^\top \delta + \tfrac12 \mu |\delta|^2 - E .

**Kernels without a kink.** With H the Hessian at a, m_j the kernel's `moments`, N_j its
`taylor_remainder`,

.. math:: T = \min \{ |g| \sqrt{m_6}, \; \textstyle\sum_p |c_p| \, \kappa_3 \}, \qquad
          L = \min \{ |g| \sqrt{m_4}, \; \textstyle\sum_p |c_p| \, m_2 \}

bound third and second derivatives of g along any line; :math:`\kappa_3` is the kernel's `third`.
So :math:`D_u^2 g \ge \lambda_{\min}(H) - T t` at distance t from a, and integrated twice along the
line that gives the first of four pairs, of which the one that loses least is taken:

.. math:: (\mu, E) \in \{ (\lambda_{\min}(H) - \tfrac13 T \rho, \, 0), \;
          (\lambda_{\min}(H), \, |g| N_2(\rho)), \; (-L, \, 0), \; (0, \, |g| N_1(\rho)) \} .

Where f - g has a maximum, f being linear there, g is convex and :math:`\mu > 0` on small cells:
that is why few remain near touching points.

**Kernels with a kink** have :math:`\mu = 0` and E the sum of what the single k(., y_p) can depart
from their linearisation (`Kernel.linear_remainder`): below it for c_p > 0, above it for c_p < 0.

**A constant** is known as well: :math:`g(a) - |g| N_0(\rho)`; and for large cells, as in the empty
parts of a box that outliers have stretched, each k(., y_p) between its values at distances
d_p - rho and d_p + rho.

Coordinates are the kernel's. What rounding can do is in ``slack`` (`KernelExpansion.rounding`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roodso._typing import Array
from roodso.embedding import _in_order
from roodso.expansion import KernelExpansion

__all__ = ["Minorants", "WitnessMinorant"]

_EPS = float(np.finfo(np.float64).eps)
#: Cells and points of a tile: the half dozen arrays of a tile stay in cache.
_CELLS, _POINTS = 64, 512
#: A cell is large where k falls below this share of k(x, x) across its radius.
_LARGE = 0.9


@dataclass(frozen=True)
class Minorants:
    """Lower bounds of the witness on cells; see the module's formula.

    Attributes
    ----------
    value, curvature, shortfall, constant : ndarray of shape (m,)
        g(a), mu, E and the constant.
    slope : ndarray of shape (m, d)
        The gradient at a in the kernel's coordinates.
    slack : ndarray of shape (m,)
        How wrong rounding can make the bounds.
    """

    value: Array
    slope: Array
    curvature: Array
    shortfall: Array
    constant: Array
    slack: Array


@dataclass(frozen=True)
class WitnessMinorant:
    """Makes minorants of one witness.

    Attributes
    ----------
    g : KernelExpansion
    lower, upper : ndarray of shape (d,)
        A box that holds all cells, in the user's units.
    """

    g: KernelExpansion
    lower: Array
    upper: Array

    def __call__(self, centers: Array, half: Array) -> Minorants:
        """Minorants on the cells with these centres (m, d) and half sides (m, d).

        Both in the kernel's coordinates; half sides cover the cell with all rounding.
        """
        radius = np.linalg.norm(half, axis=1)
        starts = range(0, len(centers), _CELLS)

        def block(number: int) -> tuple[Array, ...]:
            part = slice(starts[number], starts[number] + _CELLS)
            if np.isfinite(self.g.space.kernel.third):
                return self._quadratic(centers[part], radius[part])
            return self._linear(centers[part], radius[part])

        parts = list(_in_order(block, len(starts), self.g.n_jobs))
        value, slope, curvature, shortfall, constant = map(np.concatenate, zip(*parts, strict=True))
        by_value, by_slope, by_hessian = self._rounding
        slack = by_value + by_slope * radius + 0.5 * by_hessian * radius**2
        return Minorants(value, slope, curvature, shortfall, constant, slack)

    @cached_property
    def _points(self) -> Array:
        return self.g.space.coordinates(self.g.points)

    @cached_property
    def _norm(self) -> float:
        """|g| and what rounding can have taken from it."""
        n_points = len(self.g.coefficients)
        lost = (n_points + 64) * _EPS * self.g.mass**2 * self.g.space.kernel.bound
        return float(np.sqrt(self.g.norm**2 + lost))

    @cached_property
    def _third(self) -> float:
        """T, a bound on the third derivative of g along any line."""
        kernel = self.g.space.kernel
        return min(_times(self._norm, kernel.moments[3] ** 0.5), _times(self.g.mass, kernel.third))

    @cached_property
    def _second(self) -> float:
        """L, a bound on the second derivative of g along any line."""
        moments = self.g.space.kernel.moments
        return min(_times(self._norm, moments[2] ** 0.5), _times(self.g.mass, moments[1]))

    def _quadratic(self, centers: Array, radius: Array) -> tuple[Array, ...]:
        kernel = self.g.space.kernel
        m, d = centers.shape
        value, slope, hessian = np.zeros(m), np.zeros((m, d)), np.zeros((m, d, d))
        constant = self._constant_start(radius)
        for points, coefficients in self._tiles():
            difference, r = _differences(centers, points)
            k, first, second = kernel.derivatives(r)
            value += k @ coefficients
            first *= coefficients
            second *= coefficients
            trace = first.sum(axis=1)
            for i in range(d):
                slope[:, i] += np.einsum("mp,mp->m", first, difference[i])
                hessian[:, i, i] += trace
                bent = second * difference[i]
                for j in range(i + 1):
                    hessian[:, i, j] += np.einsum("mp,mp->m", bent, difference[j])
            self._add_constant(constant, r, radius, coefficients)
        return value, slope, *self._bent(hessian, radius), self._raised(constant, value, radius)

    def _linear(self, centers: Array, radius: Array) -> tuple[Array, ...]:
        kernel = self.g.space.kernel
        m = len(centers)
        value, slope, departure = np.zeros(m), np.zeros_like(centers), np.zeros(m)
        constant = self._constant_start(radius)
        for points, coefficients in self._tiles():
            difference, r = _differences(centers, points)
            k, weight = kernel.profile(r)
            value += k @ coefficients
            weight = np.divide(weight, r, out=np.zeros_like(r), where=r > 0) * coefficients
            for i, along in enumerate(difference):
                slope[:, i] += np.einsum("mp,mp->m", weight, along)
            below, above = kernel.linear_remainder(r, radius[:, None])
            departure += below @ np.maximum(coefficients, 0.0)
            departure += above @ np.maximum(-coefficients, 0.0)
            self._add_constant(constant, r, radius, coefficients)
        departure = np.minimum(departure, self._remainder(radius, 1))
        return value, slope, np.zeros(m), departure, self._raised(constant, value, radius)

    def _bent(self, hessian: Array, radius: Array) -> tuple[Array, Array]:
        """Mu and E: of the four bounds, the one that loses least across the cell."""
        zero = np.zeros_like(radius)
        lowest = np.linalg.eigvalsh(hessian)[:, 0]  # which reads the lower triangle
        curvature = [lowest - self._third * radius / 3.0, lowest, zero - self._second, zero]
        shortfall = [zero, self._remainder(radius, 2), zero, self._remainder(radius, 1)]
        curved, short = np.stack(curvature), np.stack(shortfall)
        loss = short + 0.5 * np.maximum(-curved, 0.0) * radius**2
        best = loss.argmin(axis=0), np.arange(len(radius))
        return curved[best], short[best]

    def _raised(self, constant: Array, value: Array, radius: Array) -> Array:
        """The constant bound, where |g| alone does not give a better one."""
        return np.maximum(constant, value - self._remainder(radius, 0))

    def _remainder(self, radius: Array, order: int) -> Array:
        """|g| times the kernel's."""
        unit = self.g.space.kernel.taylor_remainder(radius, order)
        return np.multiply(self._norm, unit, out=np.full_like(unit, np.inf), where=unit < np.inf)

    def _tiles(self) -> list[tuple[Array, Array]]:
        parts = [slice(a, a + _POINTS) for a in range(0, len(self._points), _POINTS)]
        return [(self._points[part], self.g.coefficients[part]) for part in parts]

    def _constant_start(self, radius: Array) -> Array:
        kernel = self.g.space.kernel
        large = kernel.profile(radius)[0] < _LARGE * kernel.bound
        return np.where(large, 0.0, -np.inf)

    def _add_constant(self, constant: Array, r: Array, radius: Array, coefficients: Array) -> None:
        """Add the least that these points' terms can be on the large cells."""
        large = np.isfinite(constant)
        if not large.any():
            return
        profile, reach = self.g.space.kernel.profile, radius[large, None]
        near = profile(np.maximum(r[large] - reach, 0.0))[0]
        far = profile(r[large] + reach)[0]
        constant[large] += far @ np.maximum(coefficients, 0.0)
        constant[large] -= near @ np.maximum(-coefficients, 0.0)

    @cached_property
    def _rounding(self) -> tuple[float, float, float]:
        """Rounding errors of g, of its gradient and of its Hessian."""
        value, slope = self.g.rounding(self.lower, self.upper)
        curvature = self.g.space.kernel.curvature
        unit = 4 * (len(self.g.coefficients) + 64) * _EPS * self.g.mass
        return value, slope, unit * curvature if np.isfinite(curvature) else 0.0


def _differences(centers: Array, points: Array) -> tuple[list[Array], Array]:
    """a_i - y_i for every pair, coordinate by coordinate, and the distances."""
    difference = [np.subtract.outer(a, y) for a, y in zip(centers.T, points.T, strict=True)]
    squared = difference[0] * difference[0]
    for along in difference[1:]:
        squared += along * along
    return difference, np.sqrt(squared, out=squared)


def _times(factor: float, bound: float) -> float:
    """The product, where an infinite bound stays one."""
    return factor * bound if np.isfinite(bound) else np.inf
