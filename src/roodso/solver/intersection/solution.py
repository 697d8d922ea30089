"""What solving the programme over an intersection of balls gives beyond other solutions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from roodso._typing import Array
from roodso.solver.solution import Solution
from roodso.transport import ground_distances

__all__ = ["IntersectionSolution"]


@dataclass(frozen=True)
class IntersectionSolution(Solution):
    r"""A decision with its certificate.

    The upper bound is :math:`\sum_i (\lambda_i \epsilon_i + \frac1{n_i} \sum_j s_{ij}) + \beta`,
    since the `majorant` is at least the cost of the decision at every support point: anyone can
    check that. The lower bound is what ``worst_case_weights`` cost at least, whatever the decision;
    they lie in every ball.

    Attributes
    ----------
    multipliers : ndarray of shape (M,)
        lambda, 0 for balls that do not matter.
    potentials : ndarray of shape (N,)
        s, one for each sample.
    constant : float
        beta.
    norm : float
    """

    potentials: Array = field(default_factory=lambda: np.empty(0), repr=False)
    constant: float = 0.0
    norm: float = 2.0

    def majorant(self, points: Array) -> Array:
        """Beta + sum_i min_j (s_ij + lambda_i |v - xi_ij|) at points v (m, d)."""
        points = np.atleast_2d(np.asarray(points, dtype=float))
        values = np.full(len(points), self.constant)
        codes = self.origin[: len(self.potentials)]
        for i, multiplier in enumerate(self.multipliers):
            rows = np.flatnonzero(codes == i)
            reach = multiplier * ground_distances(points, self.support[rows], self.norm)
            values += (reach + self.potentials[rows]).min(axis=1)
        return values
