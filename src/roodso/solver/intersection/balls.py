r"""The set: distributions on the support points within given W1 distances of all sources.

.. math:: \mathcal U^\cap = \{ P \text{ on } v_1, \dots, v_L : W_1(P, \hat P_i) \le \epsilon_i,
          \; i = 1, \dots, M \}

(paper, eq:intersection_ambiguity_set, on support points). With multipliers :math:`\lambda_i \ge 0`
of the balls and potentials :math:`s_{ij}` of the samples,

.. math:: \max_{P \in \mathcal U^\cap} \mathrm E_P c \le
          \sum_i \Big( \lambda_i \epsilon_i + \tfrac1{n_i} \sum_j s_{ij} \Big)
          + \max_l \Big( c(v_l) - \sum_i \min_j (s_{ij} + \lambda_i |v_l - \xi_{ij}|) \Big),

with equality for the best of them. The minimum over j is taken source by source, which is why the
programme is not exponential in M on support points.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roodso._typing import Array, IntArray
from roodso.sources import Sources
from roodso.transport import ground_distances, wasserstein

__all__ = ["Balls", "Excess", "Inner", "Prices", "Pricing"]


@dataclass(frozen=True)
class Balls:
    """The sources' balls, and the points that distributions live on.

    Attributes
    ----------
    sources : Sources
    support : ndarray of shape (L, d)
        The samples first.
    radii : ndarray of shape (M,)
    norm : float
        1, 2 or inf: of the distance between points.
    """

    sources: Sources
    support: Array
    radii: Array
    norm: float

    @cached_property
    def rows(self) -> list[IntArray]:
        """Which samples each source has, as rows of the data."""
        return [np.flatnonzero(self.sources.codes == i) for i in range(self.sources.n_sources)]

    @cached_property
    def length(self) -> float:
        """Diameter of the support's box: the unit in which distances are small or large."""
        corners = np.stack([self.support.min(axis=0), self.support.max(axis=0)])
        return float(ground_distances(corners[:1], corners[1:], self.norm)[0, 0]) or 1.0

    def samples(self, source: int) -> Array:
        """Samples of one source: (n_i, d)."""
        return self.sources.samples[self.rows[source]]

    def distances(self, weights: Array) -> Array:
        """W1 from a distribution on the support points to every source, by POT: (M,)."""
        used = np.flatnonzero(weights)
        shares = weights[used] / weights[used].sum()
        result = np.empty(self.sources.n_sources)
        for i, size in enumerate(self.sources.sizes):
            between = ground_distances(self.support[used], self.samples(i), self.norm)
            result[i] = wasserstein(between, shares, np.full(size, 1.0 / size))
        return result

    def outside(self, distances: Array) -> Array:
        """By how much distances exceed the radii, beyond what rounding explains: (M,)."""
        allowed = self.radii * (1.0 + 1e-9) + 1e-12 * self.length
        return np.asarray(np.where(distances > allowed, distances - self.radii, 0.0))


@dataclass(frozen=True)
class Inner:
    """A distribution in the set, the deeper inside the better.

    Attributes
    ----------
    weights : ndarray of shape (L,)
    distances : ndarray of shape (M,)
        Upper bounds on its W1 distances to the sources.
    """

    weights: Array
    distances: Array

    def factor(self, radii: Array) -> float:
        """The factor by which the radii may be scaled while the distribution stays inside."""
        return float(np.max(self.distances / radii))


@dataclass(frozen=True)
class Prices:
    """A trial point of the dual: decision, multipliers of the balls, potentials of the samples.

    Attributes
    ----------
    z : ndarray
    multipliers : ndarray of shape (M,)
        lambda.
    potentials : ndarray of shape (N,)
        s, in the order of the samples.
    """

    z: Array
    multipliers: Array
    potentials: Array

    def halfway(self, other: Prices) -> Prices:
        """The midpoint of two trial points."""
        return Prices(
            0.5 * (self.z + other.z),
            0.5 * (self.multipliers + other.multipliers),
            0.5 * (self.potentials + other.potentials),
        )


@dataclass(frozen=True)
class Excess:
    """By how much costs exceed sum_i min_j (s_ij + lambda_i |v_l - xi_ij|), and the minimisers.

    Attributes
    ----------
    values : ndarray of shape (L,)
    nearest : dict
        For each ball that has multipliers, the minimising j for each support point.
    """

    values: Array
    nearest: dict[int, IntArray]


class Pricing:
    """Looks at all support points at once; keeps the distances that it has needed.

    Parameters
    ----------
    balls : Balls
    n_jobs : int
        Threads; each takes whole balls.
    """

    def __init__(self, balls: Balls, n_jobs: int = 1) -> None:
        self.balls = balls
        self.n_jobs = n_jobs
        self._distances: dict[int, Array] = {}

    def distances(self, source: int) -> Array:
        """Distance of every support point to every sample of a source: (L, n_i)."""
        if source not in self._distances:
            balls = self.balls
            between = ground_distances(balls.support, balls.samples(source), balls.norm)
            self._distances[source] = between
        return self._distances[source]

    def excess(self, costs: Array, prices: Prices, active: Iterable[int]) -> Excess:
        """Subtract from costs what the active balls account for."""
        active = list(active)

        def cheapest(i: int) -> tuple[IntArray, Array]:
            reach = prices.multipliers[i] * self.distances(i)
            reach += prices.potentials[self.balls.rows[i]]
            nearest = reach.argmin(axis=1)
            return nearest, reach[np.arange(len(reach)), nearest]

        if self.n_jobs > 1 and len(active) > 1:
            with ThreadPoolExecutor(self.n_jobs) as pool:
                found = list(pool.map(cheapest, active))
        else:
            found = [cheapest(i) for i in active]
        values = costs.copy()
        for _, reach in found:  # in a fixed order, so that rounding is the same for any n_jobs
            values -= reach
        return Excess(values, {i: nearest for i, (nearest, _) in zip(active, found, strict=True)})

    def mean_potentials(self, prices: Prices) -> float:
        """sum_i mean_j s_ij."""
        return float(sum(prices.potentials[rows].mean() for rows in self.balls.rows))
