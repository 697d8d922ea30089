r"""Where the witness may lie: the functions that span g in the master.

The master needs the active points' kernel functions and the anchors in orthonormal coordinates,
so that inner products with g are dot products and :math:`|g|` is a Euclidean norm.

`Span` takes exactly the span of the active points and the anchors, which loses nothing
(`roodso.solver.master`). `Fixed` keeps to the span of given points, whatever is active: the paper's
reduced-complexity representer (eq:compact_representer) where these are herded, and its full one
(eq:empirical_representer_g_star) where they are all support points. A distribution that is inside
the set as far as the fixed points can tell may lie outside it: the certificate shows by how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from roodso._typing import Array, IntArray
from roodso.embedding import Embedding
from roodso.sets.uncertainty import UncertaintySet
from roodso.solver.witness import RKHSFunction

__all__ = ["Basis", "Fixed", "Shares", "Span", "pivoted_cholesky"]

#: Functions whose distance to the span of those before is below the square root of this (relative
#: to C) are not given a coordinate of their own; it costs the optimum as little.
_RANK_TOLERANCE = 1e-13


@dataclass(frozen=True)
class Shares:
    """The master's multipliers as probabilities: points and anchors together add up to one.

    Attributes
    ----------
    points : ndarray of shape (P,)
        Of the active points.
    anchors : ndarray of shape (K,)
        Of the anchors' own distributions, from the aggregated rows.
    mixture : ndarray of shape (K,)
        The mixture of anchors that the distribution is near to; adds up to one by itself.
    """

    points: Array
    anchors: Array
    mixture: Array


class Basis(Protocol):
    """Coordinates of whatever is active."""

    @property
    def exact(self) -> bool:
        """Whether the witness that is best of all lies in it."""

    def extend(self, points: IntArray) -> None:
        """Add active points."""

    def retain(self, kept: IntArray) -> None:
        """Keep only these, by their place among the active points."""

    def coordinates(self) -> tuple[Array, Array]:
        """Coordinates of the active points' kernel functions (P, r) and of the anchors (K, r)."""

    def witnesses(self, y: Array, points: IntArray, shares: Shares) -> list[RKHSFunction]:
        """The master's witness, up to positive factors, from y and perhaps from multipliers."""


class Span:
    """The span of the active points and the anchors: exact."""

    exact = True

    def __init__(self, embedding: Embedding, uncertainty: UncertaintySet) -> None:
        self.embedding = embedding
        self.uncertainty = uncertainty
        self.points: IntArray = np.empty(0, dtype=np.intp)
        self._room = np.empty((len(embedding.points), 0), order="F")

    @property
    def columns(self) -> Array:
        """Kernel values of all support points against the active ones: (L, P)."""
        return self._room[:, : len(self.points)]

    def extend(self, points: IntArray) -> None:
        """See `Basis.extend`."""
        old, count = self.columns, len(self.points) + len(points)
        if count > self._room.shape[1]:  # double the room, so that columns are rarely moved
            self._room = np.empty((len(old), 2 * count), order="F")
            self._room[:, : old.shape[1]] = old
        self._room[:, len(self.points) : count] = self.embedding.columns(points)
        self.points = np.concatenate([self.points, points])

    def retain(self, kept: IntArray) -> None:
        """See `Basis.retain`; ``kept`` is ascending, so columns only move to the left."""
        for place, column in enumerate(kept):
            if place < column:
                self._room[:, place] = self._room[:, column]
        self.points = self.points[kept]

    def coordinates(self) -> tuple[Array, Array]:
        """See `Basis.coordinates`."""
        cross = self.embedding.means[self.points] @ self.uncertainty.mixtures.T
        gram = np.block(
            [[self.columns[self.points], cross], [cross.T, self.uncertainty.anchor_gram]]
        )
        self._factor, self._pivots = pivoted_cholesky(gram)
        F = np.empty_like(self._factor)
        F[self._pivots] = self._factor
        return F[: len(self.points)], F[len(self.points) :]

    def witnesses(self, y: Array, points: IntArray, shares: Shares) -> list[RKHSFunction]:
        """See `Basis.witnesses`: mu_w - mu_a straight from the multipliers, and by y.

        In exact arithmetic they agree. The first is immune to an ill-conditioned Gram matrix, the
        second to multipliers of which a degenerate master determines few digits.
        """
        in_sources = (shares.anchors - shares.mixture) @ self.uncertainty.mixtures
        rank = len(y)
        coefficients = np.zeros(len(points) + self.uncertainty.n_anchors)
        coefficients[self._pivots[:rank]] = solve_triangular(
            self._factor[:rank], y, lower=True, trans="T"
        )
        by_y, by_y_in_sources = np.split(coefficients, [len(points)])
        by_y_in_sources = by_y_in_sources @ self.uncertainty.mixtures
        return [
            RKHSFunction.build(self.embedding, points, c, in_s, self.columns)
            for c, in_s in ((shares.points, in_sources), (by_y, by_y_in_sources))
        ]


class Fixed:
    """The span of given support points, which are few (herded) or all.

    With K_pp = L L' on the pivots p of the given points, g = sum_p (L^-T y)_p k(v_p, .) has norm
    |y| and inner product (L^-1 K_pv)'y with k(v, .).
    """

    def __init__(self, embedding: Embedding, uncertainty: UncertaintySet, given: IntArray) -> None:
        self.embedding = embedding
        self.exact = len(given) == len(embedding.points)
        columns = embedding.columns(given)
        factor, pivots = pivoted_cholesky(columns[given])
        rank = factor.shape[1]
        self.pivots = given[pivots[:rank]]
        self.columns = np.asfortranarray(columns[:, pivots[:rank]])
        self.triangle = np.tril(factor[:rank])
        at_anchors = uncertainty.mixtures @ embedding.means[self.pivots].T
        self.F_anchors = self._solve(at_anchors)
        self.F_points = np.empty((0, rank))

    def _solve(self, values: Array) -> Array:
        return solve_triangular(self.triangle, values.T, lower=True).T

    def extend(self, points: IntArray) -> None:
        """See `Basis.extend`."""
        self.F_points = np.vstack([self.F_points, self._solve(self.columns[points])])

    def retain(self, kept: IntArray) -> None:
        """See `Basis.retain`."""
        self.F_points = self.F_points[kept]

    def coordinates(self) -> tuple[Array, Array]:
        """See `Basis.coordinates`."""
        return self.F_points, self.F_anchors

    def witnesses(self, y: Array, points: IntArray, shares: Shares) -> list[RKHSFunction]:
        """See `Basis.witnesses`: the witness itself."""
        coefficients = solve_triangular(self.triangle, y, lower=True, trans="T")
        none = np.zeros(self.embedding.sources.n_sources)
        return [RKHSFunction.build(self.embedding, self.pivots, coefficients, none, self.columns)]


def pivoted_cholesky(gram: Array) -> tuple[Array, IntArray]:
    """F (n, r), lower trapezoidal, and p with F F' = gram[p][:, p] up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> factor, pivots = pivoted_cholesky(np.ones((2, 2)))
    >>> factor.tolist(), pivots.tolist()
    ([[1.0], [1.0]], [0, 1])
    """
    factor, pivots, rank, _ = dpstrf(gram, lower=1, tol=_RANK_TOLERANCE * np.diag(gram).max())
    return np.tril(factor)[:, : max(rank, 1)], pivots - 1
