r"""Kernel values between two sets of points, a tile at a time, to about 1e-11 C or better.

Squared distances come from one matrix product,

.. math:: c |a - b|^2 = [a, \; |a|^2, \; 1] \cdot [-2 c b, \; c, \; c |b|^2],

with c the factor that the kernel wants, at a fraction of the cost of differences. They are wrong by
about eps E^2, with E^2 the points' squared extent, so points should be centred. Two cases need
differences all the same:

- a kernel with a kink at 0 takes the square root, which halves the digits: pairs nearer than
  1e-3 E are done again;
- where the extent is hundreds of bandwidths (one wild outlier will do), eps E^2 is felt by every
  kernel: all pairs are done by differences.
"""

from __future__ import annotations

import numpy as np

from roodso._typing import Array
from roodso.kernels import Kernel, squared_distances

__all__ = ["BEARABLE", "NEAR", "Pairs"]

#: Squared distances below this share of the squared extent are recomputed for kernels with a kink.
NEAR = 1e-6
#: Errors of kernel values, relative to C, above which all distances are taken by differences.
BEARABLE = 1e-11
_EPS = float(np.finfo(np.float64).eps)


class Pairs:
    """The pairs of the rows of ``a`` (m, d) and ``b`` (n, d), in the kernel's coordinates.

    Attributes
    ----------
    near : float
        The squared distance below which pairs are recomputed; 0 for kernels without a kink.
    rounding : float
        By about how much kernel values may be wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.kernels import Laplace
    >>> points = np.array([[0.0], [1e-9], [1.0]])
    >>> pairs = Pairs(Laplace(1.0), points, points)
    >>> (1.0 - pairs.values()[0, 1]).round(12)
    np.float64(1e-09)
    """

    def __init__(self, kernel: Kernel, a: Array, b: Array) -> None:
        self.kernel = kernel
        self._a, self._b = a, b
        extent = _largest_square(a) + _largest_square(b)
        self.near = NEAR * extent if kernel.sharp else 0.0
        error = _EPS * extent * _steepness(kernel, self.near)
        self._by_product = bool(error <= BEARABLE * kernel.bound)  # False where it overflows
        self.rounding = 10 * _EPS * kernel.bound + (error if self._by_product else 0.0)
        if self._by_product:
            one_a, one_b = np.ones((len(a), 1)), np.ones((len(b), 1))
            self._left = np.hstack([a, _squares(a)[:, None], one_a])
            self._right = np.ascontiguousarray(np.hstack([-2 * b, one_b, _squares(b)[:, None]]).T)
            self._scaled_right = kernel.factor * self._right

    def values(
        self,
        rows: slice = slice(None),
        columns: slice = slice(None),
        buffer: Array | None = None,
    ) -> Array:
        """Kernel values of a tile, inside a flat ``buffer`` where one of enough size is given."""
        tile = self._tile(rows, columns, self.kernel.factor, buffer)
        return self.kernel.from_scaled(tile)

    def squared(self, rows: slice = slice(None), columns: slice = slice(None)) -> Array:
        """Squared distances of a tile."""
        return self._tile(rows, columns, 1.0, None)

    def _tile(self, rows: slice, columns: slice, factor: float, buffer: Array | None) -> Array:
        """The squared distances times a factor, which is 1 or the kernel's."""
        a, b = self._a[rows], self._b[columns]
        shape = len(a), len(b)
        out = None if buffer is None else buffer[: len(a) * len(b)].reshape(shape)
        if not self._by_product:
            tile = squared_distances(a, b, out)
            tile *= factor
            return tile
        right = self._right if factor == 1.0 else self._scaled_right
        tile = np.matmul(self._left[rows], right[:, columns], out=out)
        if self.near > 0.0:  # then c > 0
            i, j = np.nonzero(tile < factor * self.near)
            tile[i, j] = factor * _squares(a[i] - b[j])
        return tile


def _squares(x: Array) -> Array:
    """Squared length of each row."""
    return np.einsum("nd,nd->n", x, x)


def _largest_square(x: Array) -> float:
    return float(_squares(x).max(initial=0.0))


def _steepness(kernel: Kernel, near: float) -> float:
    """The largest |dk / d(r^2)| among pairs that are at least the squared distance ``near`` apart.

    It falls with r, as k is completely monotone in r^2; at 0 it is half of -k''(0).
    """
    if near == 0.0:
        return kernel.curvature / 2 if np.isfinite(kernel.curvature) else 0.0
    r = np.sqrt(np.array([near]))
    return float(abs(kernel.profile(r)[1][0]) / (2 * r[0]))
