r"""Kernels as functions of the squared Euclidean distance.

===========  ==========================================================
``rbf``      :math:`\exp(-r^2 / 2\sigma^2)`
``laplace``  :math:`\exp(-r / \sigma)`, r the Euclidean norm, not L1
``matern32`` :math:`(1 + s) e^{-s}`, :math:`s = \sqrt3\, r / \sigma`
``matern52`` :math:`(1 + s + s^2 / 3) e^{-s}`, :math:`s = \sqrt5\, r / \sigma`
===========  ==========================================================

with :math:`r = |a - b|`. Any two may be added or multiplied. Each satisfies the
paper's Assumption 2 (``ass:kernel``): continuous, integrally strictly positive
definite, k(x, x) = C.

As a function of a signed distance t along any line k is :math:`\varphi(t) = \int \cos(\omega t)
\, dF(\omega)`, a mixture of cosines (Bochner). The moments of F bound derivatives in any direction
u, of k and of every g in the RKHS:

.. math:: |D_u^{2j} k| \le m_{2j} = \int \omega^{2j} dF = (-1)^j \varphi^{(2j)}(0), \qquad
          |D_u^j g| \le |g| \sqrt{m_{2j}} ,

the second because :math:`D_u^j g(a) = \langle g, D_u^j k(a, \cdot) \rangle`. F of a sum is the sum,
F of a product the convolution, so its moments are those of a sum of independent frequencies.

Every kernel is written as :math:`\kappa(u)` with :math:`u = c\,r^2` and a factor
c of its own, so that one matrix product yields u for a whole tile of pairs and
the rest happens in place (`roodso.embedding`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import check_real

__all__ = [
    "RBF",
    "Kernel",
    "Laplace",
    "Matern32",
    "Matern52",
    "Product",
    "Sum",
    "as_kernel",
    "kernel_from_dict",
    "median_bandwidth",
    "squared_distances",
]


class Kernel(ABC):
    """A kernel that depends on the Euclidean distance alone.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = RBF(1.0) + Laplace(2.0)
    >>> float(kernel.bound)
    2.0
    >>> kernel(np.array([[0.0]]), np.array([[0.0], [1.0]])).round(4).tolist()
    [[2.0, 1.2131]]
    """

    @property
    @abstractmethod
    def bound(self) -> float:
        """C = k(x, x), the paper's bound on the diagonal."""

    @property
    @abstractmethod
    def factor(self) -> float:
        """The c of u = c r^2 that `from_scaled` expects; may be negative."""

    @property
    @abstractmethod
    def sharp(self) -> bool:
        """Whether k has a kink at r = 0, so that rounding of r^2 near 0 costs half the digits."""

    @abstractmethod
    def from_scaled(self, u: Array) -> Array:
        """Turn u = c r^2 into kernel values, in place."""

    @abstractmethod
    def profile(self, r: Array) -> tuple[Array, Array]:
        """Value and derivative of k as a function of r >= 0."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """-k''(0) as a function of r; infinite where k has a kink at 0."""

    @property
    @abstractmethod
    def steepness(self) -> float:
        """A bound on |k'(r)| as a function of r."""

    @property
    def moments(self) -> tuple[float, float, float, float]:
        """m_0, m_2, m_4 and m_6 of the module's text; infinite where they are not known."""
        return self.bound, self.curvature, np.inf, np.inf

    @property
    def third(self) -> float:
        """Bound on the third derivative of k(., y) along any line; infinite where none is known."""
        return np.inf

    def derivatives(self, r: Array) -> tuple[Array, Array, Array]:
        r"""Kernel values, first and second derivatives with respect to w = r^2 / 2.

        With them the gradient at a = y + d is k' d and the Hessian k'' d d' + k' I. Only kernels
        with finite ``third`` need have them.
        """
        raise NotImplementedError(f"{type(self).__name__} states no second derivatives")

    def linear_remainder(self, r: Array, radius: Array) -> tuple[Array, Array]:
        r"""How far k(., y) can depart from its linearisation, at points within ``radius``.

        At distance r from y, for every |d| <= radius: ``-below <= k(a + d) - k(a) - k'd <= above``,
        with the convention that the gradient is 0 at y. In general by the curvature, or by
        :math:`|k(a + d, y) - k(a, y)| \le \sqrt{C} \, |k(a + d, \cdot) - k(a, \cdot)|`.

        Parameters
        ----------
        r : ndarray of shape (m, n)
        radius : ndarray of shape (m, 1)

        Returns
        -------
        below, above : ndarray of shape (m, n)
        """
        steepness = np.where(r > 0, np.abs(self.profile(r)[1]), 0.0)
        drift = np.sqrt(self.bound) * self.taylor_remainder(radius, 0) + steepness * radius
        bend = 0.5 * self.curvature * radius**2 if np.isfinite(self.curvature) else np.inf
        either = np.minimum(bend, drift)
        return either, either

    def taylor_remainder(self, r: Array, order: int) -> Array:
        r"""How far a function of norm one can be from its Taylor polynomial at distance r.

        The remainder of order 0, 1 or 2 on a line is a bounded functional of g, such as
        :math:`g(a + r u) - g(a) - r D_u g(a)`, and its norm N is exact, from the inner products of
        point evaluations and derivatives at both ends:

        .. math:: N_0^2 &= 2 (\varphi(0) - \varphi(r)), \\
                  N_1^2 &= N_0^2 + 2 r \varphi'(r) + r^2 m_2, \\
                  N_2^2 &= N_0^2 + 2 r \varphi'(r) - r^2 \varphi''(r) + \tfrac14 r^4 m_4 .

        They grow with r. Infinite where the kernel has too few derivatives. The differences cost
        half the digits, which is allowed for.

        Examples
        --------
        >>> import numpy as np
        >>> float(RBF(1.0).taylor_remainder(np.array([0.1]), 1)[0].round(4))  # sqrt(3) / 2 r^2
        0.0086
        """
        if not np.isfinite(self.moments[order]):
            return np.full_like(r, np.inf)
        (m0, m2, m4, _), (value, slope) = self.moments, self.profile(r)
        square, size = 2.0 * (m0 - value), np.full_like(r, m0)
        if order >= 1:
            square += 2.0 * r * slope
            size += r**2 * m2
        if order == 1:
            square += r**2 * m2
        if order == 2:
            _, first, second = self.derivatives(r)
            square += 0.25 * r**4 * m4 - r**2 * (first + r**2 * second)
            size += r**4 * m4
        return np.sqrt(np.maximum(square, 0.0) + 16 * np.finfo(float).eps * size)

    @abstractmethod
    def with_bandwidth(self, bandwidth: float) -> Kernel:
        """The same kernel with ``bandwidth`` wherever none was given."""

    @property
    @abstractmethod
    def bandwidths(self) -> tuple[float | None, ...]:
        """The bandwidths of the single kernels it is made of."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A description that `kernel_from_dict` reads back."""

    def from_squared(self, squared: Array) -> Array:
        """Kernel values from squared distances, in place."""
        squared *= self.factor
        return self.from_scaled(squared)

    def __call__(self, a: Array, b: Array) -> Array:
        """Kernel values between the rows of ``a`` (m, d) and ``b`` (n, d): (m, n)."""
        a, b = np.atleast_2d(a), np.atleast_2d(b)
        return self.from_squared(squared_distances(a, b))

    def gradient(self, at: Array, points: Array) -> Array:
        """Gradients of k(., p) at the rows of ``at``: (m, n, d); 0 where the two coincide."""
        difference = at[:, None, :] - points[None, :, :]
        r = np.sqrt(np.einsum("mnd,mnd->mn", difference, difference))
        _, slope = self.profile(r)
        slope = np.divide(slope, r, out=np.zeros_like(r), where=r > 0)
        difference *= slope[:, :, None]
        return difference

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other)

    def __mul__(self, other: Kernel) -> Kernel:
        return Product(self, other)


@dataclass(frozen=True)
class _Single(Kernel):
    """A kernel with one bandwidth; ``None`` means 'to be chosen from the data'."""

    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None:
            sigma = check_real(self.bandwidth, "bandwidth", low=0.0, low_open=True)
            object.__setattr__(self, "bandwidth", sigma)

    @property
    def sigma(self) -> float:
        if self.bandwidth is None:
            raise ValueError(f"{type(self).__name__} has no bandwidth yet: give one or fit a model")
        return self.bandwidth

    @property
    def bound(self) -> float:
        return 1.0

    @property
    def sharp(self) -> bool:
        return False

    def with_bandwidth(self, bandwidth: float) -> Kernel:
        return self if self.bandwidth is not None else replace(self, bandwidth=bandwidth)

    @property
    def bandwidths(self) -> tuple[float | None, ...]:
        return (self.bandwidth,)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": _NAMES[type(self)], "bandwidth": self.bandwidth}


class RBF(_Single):
    """exp(-r^2 / 2 sigma^2)."""

    @property
    def factor(self) -> float:
        return -0.5 / self.sigma**2

    def from_scaled(self, u: Array) -> Array:
        return np.exp(u, out=u)

    def profile(self, r: Array) -> tuple[Array, Array]:
        value = np.exp(self.factor * r**2)
        return value, -r / self.sigma**2 * value

    @property
    def curvature(self) -> float:
        return self.sigma**-2

    @property
    def steepness(self) -> float:
        return float(np.exp(-0.5)) / self.sigma  # at r = sigma

    @property
    def moments(self) -> tuple[float, float, float, float]:
        return 1.0, self.sigma**-2, 3.0 * self.sigma**-4, 15.0 * self.sigma**-6

    @property
    def third(self) -> float:
        # (3 q - q^3) exp(-r^2 / 2) with q <= r in units of sigma: largest at q = r, q^2 = 3 - 6^.5.
        q2 = 3.0 - np.sqrt(6.0)
        return float(np.sqrt(6.0 * q2) * np.exp(-0.5 * q2)) / self.sigma**3

    def derivatives(self, r: Array) -> tuple[Array, Array, Array]:
        value = np.exp(self.factor * r**2)
        return value, -value / self.sigma**2, value / self.sigma**4


class Laplace(_Single):
    """exp(-r / sigma) with the Euclidean norm."""

    @property
    def factor(self) -> float:
        return self.sigma**-2

    @property
    def sharp(self) -> bool:
        return True

    def from_scaled(self, u: Array) -> Array:
        np.maximum(u, 0.0, out=u)
        np.sqrt(u, out=u)
        np.negative(u, out=u)
        return np.exp(u, out=u)

    def profile(self, r: Array) -> tuple[Array, Array]:
        value = np.exp(-r / self.sigma)
        return value, -value / self.sigma

    @property
    def curvature(self) -> float:
        return np.inf

    @property
    def steepness(self) -> float:
        return 1.0 / self.sigma  # at r = 0

    def linear_remainder(self, r: Array, radius: Array) -> tuple[Array, Array]:
        # With u = a / r, |a + d| >= r + u'd, so k(a + d) <= k(a) exp(-u'd / sigma): second order,
        # also at the kink. |a + d| - r - u'd is at most radius^2 / 2r, or 2 (radius - r) across
        # the kink, and exp is convex: k(a + d) >= k(a) (1 - (|a + d| - r) / sigma).
        value, t = np.exp(-r / self.sigma), radius / self.sigma
        bulge = radius**2 / (2.0 * np.maximum(r, 0.5 * radius))
        bulge = np.where(radius <= 2.0 * r, bulge, 2.0 * (radius - r))
        return value / self.sigma * bulge, value * (np.expm1(t) - t)


class Matern32(_Single):
    """(1 + s) exp(-s), s = sqrt(3) r / sigma."""

    @property
    def factor(self) -> float:
        return 3.0 / self.sigma**2

    def from_scaled(self, u: Array) -> Array:
        np.maximum(u, 0.0, out=u)
        np.sqrt(u, out=u)
        decay = np.exp(-u)
        u += 1.0
        u *= decay
        return u

    def profile(self, r: Array) -> tuple[Array, Array]:
        s = np.sqrt(3.0) / self.sigma * r
        decay = np.exp(-s)
        return (1 + s) * decay, -np.sqrt(3.0) / self.sigma * s * decay

    @property
    def curvature(self) -> float:
        return 3.0 / self.sigma**2

    @property
    def steepness(self) -> float:
        return float(np.sqrt(3.0) * np.exp(-1.0)) / self.sigma  # at s = 1

    @property
    def third(self) -> float:
        # a^3 exp(-s) (3 q - (1 + s) q^3), a = sqrt(3) / sigma, q a cosine: largest at s = 0, q = 1.
        return float(2.0 * (np.sqrt(3.0) / self.sigma) ** 3)

    def derivatives(self, r: Array) -> tuple[Array, Array, Array]:
        a = np.sqrt(3.0) / self.sigma
        s = a * r
        decay = np.exp(-s)
        # The second times d d' vanishes with r, whatever it is at r = 0.
        second = np.divide(a**4 * decay, s, out=np.zeros_like(s), where=s > 0)
        return (1 + s) * decay, -(a**2) * decay, second


class Matern52(_Single):
    """(1 + s + s^2 / 3) exp(-s), s = sqrt(5) r / sigma."""

    @property
    def factor(self) -> float:
        return 5.0 / self.sigma**2

    def from_scaled(self, u: Array) -> Array:
        np.maximum(u, 0.0, out=u)
        s = np.sqrt(u)
        u /= 3.0
        u += s
        u += 1.0
        np.negative(s, out=s)
        u *= np.exp(s, out=s)
        return u

    def profile(self, r: Array) -> tuple[Array, Array]:
        s = np.sqrt(5.0) / self.sigma * r
        decay = np.exp(-s)
        return (1 + s + s**2 / 3) * decay, -np.sqrt(5.0) / self.sigma * s * (1 + s) / 3 * decay

    @property
    def curvature(self) -> float:
        return 5.0 / (3.0 * self.sigma**2)

    @property
    def steepness(self) -> float:
        s = (1 + np.sqrt(5.0)) / 2  # where s (1 + s) exp(-s) is largest
        return float(np.sqrt(5.0) * s * (1 + s) / 3 * np.exp(-s)) / self.sigma

    @property
    def moments(self) -> tuple[float, float, float, float]:
        return 1.0, self.curvature, 25.0 * self.sigma**-4, np.inf

    @property
    def third(self) -> float:
        # a^3 / 3 exp(-s) s (3 q - s q^3), a = sqrt(5) / sigma, q the cosine: largest at q = 1,
        # s = (5 - sqrt(13)) / 2.
        s = (5.0 - np.sqrt(13.0)) / 2.0
        return float((np.sqrt(5.0) / self.sigma) ** 3 / 3.0 * s * (3.0 - s) * np.exp(-s))

    def derivatives(self, r: Array) -> tuple[Array, Array, Array]:
        a = np.sqrt(5.0) / self.sigma
        s = a * r
        third_of_decay = np.exp(-s) / 3.0
        return (
            (3 + 3 * s + s**2) * third_of_decay,
            -(a**2) * (1 + s) * third_of_decay,
            a**4 * third_of_decay,
        )


@dataclass(frozen=True)
class _Pair(Kernel):
    first: Kernel
    second: Kernel

    def __post_init__(self) -> None:
        for part in (self.first, self.second):
            if not isinstance(part, Kernel):
                raise TypeError(f"a kernel can be combined with a kernel only, got {part!r}")

    @property
    def factor(self) -> float:
        return 1.0

    @property
    def sharp(self) -> bool:
        return self.first.sharp or self.second.sharp

    def with_bandwidth(self, bandwidth: float) -> Kernel:
        first = self.first.with_bandwidth(bandwidth)
        return replace(self, first=first, second=self.second.with_bandwidth(bandwidth))

    @property
    def bandwidths(self) -> tuple[float | None, ...]:
        return self.first.bandwidths + self.second.bandwidths

    def to_dict(self) -> dict[str, Any]:
        parts = [self.first.to_dict(), self.second.to_dict()]
        return {"kind": _NAMES[type(self)], "parts": parts}


class Sum(_Pair):
    """k1 + k2."""

    @property
    def bound(self) -> float:
        return self.first.bound + self.second.bound

    def from_scaled(self, u: Array) -> Array:
        second = self.second.from_squared(u.copy())
        self.first.from_squared(u)
        u += second
        return u

    def profile(self, r: Array) -> tuple[Array, Array]:
        (value1, slope1), (value2, slope2) = self.first.profile(r), self.second.profile(r)
        return value1 + value2, slope1 + slope2

    @property
    def curvature(self) -> float:
        return self.first.curvature + self.second.curvature

    @property
    def steepness(self) -> float:
        return self.first.steepness + self.second.steepness

    @property
    def moments(self) -> tuple[float, float, float, float]:
        first, second = np.array([self.first.moments, self.second.moments])
        m0, m2, m4, m6 = (float(m) for m in first + second)
        return m0, m2, m4, m6

    @property
    def third(self) -> float:
        return self.first.third + self.second.third

    def derivatives(self, r: Array) -> tuple[Array, Array, Array]:
        (a, a1, a2), (b, b1, b2) = self.first.derivatives(r), self.second.derivatives(r)
        return a + b, a1 + b1, a2 + b2

    def linear_remainder(self, r: Array, radius: Array) -> tuple[Array, Array]:
        parts = self.first.linear_remainder(r, radius), self.second.linear_remainder(r, radius)
        (below1, above1), (below2, above2) = parts
        return below1 + below2, above1 + above2


class Product(_Pair):
    """k1 * k2."""

    @property
    def bound(self) -> float:
        return self.first.bound * self.second.bound

    def from_scaled(self, u: Array) -> Array:
        second = self.second.from_squared(u.copy())
        self.first.from_squared(u)
        u *= second
        return u

    def profile(self, r: Array) -> tuple[Array, Array]:
        (value1, slope1), (value2, slope2) = self.first.profile(r), self.second.profile(r)
        return value1 * value2, slope1 * value2 + value1 * slope2

    @property
    def curvature(self) -> float:
        return self.first.curvature * self.second.bound + self.first.bound * self.second.curvature

    @property
    def steepness(self) -> float:
        return self.first.steepness * self.second.bound + self.first.bound * self.second.steepness

    @property
    def moments(self) -> tuple[float, float, float, float]:
        (a0, a2, a4, a6), (b0, b2, b4, b6) = self.first.moments, self.second.moments
        return (
            a0 * b0,
            a2 * b0 + a0 * b2,
            a4 * b0 + 6 * a2 * b2 + a0 * b4,
            a6 * b0 + 15 * a4 * b2 + 15 * a2 * b4 + a0 * b6,
        )

    @property
    def third(self) -> float:
        a, b = self.first, self.second  # Leibniz' rule
        mixed = a.curvature * b.steepness + a.steepness * b.curvature
        return a.third * b.bound + 3 * mixed + a.bound * b.third

    def derivatives(self, r: Array) -> tuple[Array, Array, Array]:
        (a, a1, a2), (b, b1, b2) = self.first.derivatives(r), self.second.derivatives(r)
        return a * b, a1 * b + a * b1, a2 * b + 2 * a1 * b1 + a * b2

    def linear_remainder(self, r: Array, radius: Array) -> tuple[Array, Array]:
        # With a = A + e, b = B + f, A and B the linearisations along the same unit vector, and
        # q in [-radius, radius]: a b - (its linearisation) = a' b' q^2 + a f + e B, a' b' >= 0.
        (_, a1), (b, b1) = self.first.profile(r), self.second.profile(r)
        (e_below, e_above), (f_below, f_above) = (
            part.linear_remainder(r, radius) for part in (self.first, self.second)
        )
        reach = np.where(r > 0, np.abs(b1), 0.0) * radius
        most, least = b + reach, np.maximum(reach - b, 0.0)  # B <= most, -B <= least
        square = np.where(r > 0, a1 * b1, 0.0) * radius**2
        below = self.first.bound * f_below + np.maximum(e_below * most, e_above * least)
        above = self.first.bound * f_above + np.maximum(e_above * most, e_below * least)
        return below, square + above


_SINGLE: dict[str, type[_Single]] = {
    "rbf": RBF,
    "laplace": Laplace,
    "matern32": Matern32,
    "matern52": Matern52,
}
_NAMES: dict[type, str] = {cls: name for name, cls in _SINGLE.items()} | {
    Sum: "sum",
    Product: "product",
}


def as_kernel(kernel: Any) -> Kernel:
    """Return a kernel object from a name or a kernel object."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str) and kernel in _SINGLE:
        return _SINGLE[kernel]()
    accepted = ", ".join(repr(name) for name in _SINGLE)
    raise ValueError(f"kernel must be one of {accepted} or a roodso Kernel, got {kernel!r}")


def kernel_from_dict(description: dict[str, Any]) -> Kernel:
    """Inverse of `Kernel.to_dict`."""
    kind = description["kind"]
    if kind in _SINGLE:
        return _SINGLE[kind](description["bandwidth"])
    first, second = (kernel_from_dict(part) for part in description["parts"])
    return {"sum": Sum, "product": Product}[kind](first, second)


def squared_distances(a: Array, b: Array, out: Array | None = None) -> Array:
    """Squared Euclidean distances between rows, by differences: exact near and far.

    Parameters
    ----------
    a : ndarray of shape (m, d)
    b : ndarray of shape (n, d)
    out : ndarray of shape (m, n), optional
        Contiguous; takes the result.

    Returns
    -------
    ndarray of shape (m, n)

    Examples
    --------
    >>> import numpy as np
    >>> squared_distances(np.array([[1e9]]), np.array([[1e9 + 3]])).tolist()
    [[9.0]]
    """
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(a, b, "sqeuclidean", out=out))


#: Above this many samples the median heuristic works on a random subsample of that many.
MEDIAN_SUBSAMPLE = 2000


def median_bandwidth(samples: Array, random_state: np.random.Generator | None = None) -> float:
    """Median of all pairwise Euclidean distances (the paper's bandwidth).

    Above `MEDIAN_SUBSAMPLE` samples, a random subsample of that many is used. Where more than half
    of the pairs coincide, the median of the positive distances; where all do, 1.

    Parameters
    ----------
    samples : ndarray of shape (N, d)
    random_state : numpy Generator, optional
        Draws the subsample.

    Examples
    --------
    >>> import numpy as np
    >>> median_bandwidth(np.array([[0.0], [1.0], [3.0]]))
    2.0
    """
    from scipy.spatial.distance import pdist

    if len(samples) > MEDIAN_SUBSAMPLE:
        generator = np.random.default_rng(0) if random_state is None else random_state
        samples = samples[generator.choice(len(samples), MEDIAN_SUBSAMPLE, replace=False)]
    distances = pdist(samples)
    median = _median(distances) if distances.size else 0.0
    if median > 0:
        return median
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0


def _median(values: Array) -> float:
    """The median, of many values by looking only at those that a sample says are near it."""
    n = len(values)
    if n > 100_000:
        sample = np.sort(values[:: n // 10_000])
        low, high = sample[[int(0.47 * len(sample)), int(0.53 * len(sample))]]
        near = values[(values >= low) & (values <= high)]
        rank = n // 2 - int(np.count_nonzero(values < low))
        if 1 <= rank < len(near):  # else the sample misled, which costs only time
            near.partition((rank - 1, rank))
            return float(near[rank] if n % 2 else 0.5 * (near[rank - 1] + near[rank]))
    return float(np.median(values))
