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
    median = float(np.median(distances, overwrite_input=True)) if distances.size else 0.0
    if median > 0:
        return median
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0
