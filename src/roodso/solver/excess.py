r"""How far a cost exceeds the witness: :math:`h(\xi) = f(z, \xi) - g(\xi) - \beta` over a box.

h <= 0 at every support point. Where h > 0, mass would cost more than the witness says, so sup h
over the box is what the discretised upper bound may lack (`roodso.solver.continuous`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roodso._typing import Array
from roodso.losses.base import Problem
from roodso.solver.solution import Witness

__all__ = ["Excess"]

#: Steps of finite differences, as a share of the box.
_DIFFERENCE = 1e-6


@dataclass(frozen=True)
class Excess:
    """h over a box, in the user's units.

    Attributes
    ----------
    problem : Problem
    z : ndarray
        The decision with internal variables.
    witness : Witness
    lower, upper : ndarray of shape (d,)
    """

    problem: Problem
    z: Array
    witness: Witness
    lower: Array
    upper: Array

    def __call__(self, xi: Array) -> Array:
        """Values at the rows of ``xi`` (m, d): (m,)."""
        return self.problem.values(self.z, xi) - self.witness(xi)

    def value_and_slope(self, xi: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, d)."""
        value, slope = self.witness.g.value_and_gradient(xi)
        costs = self.problem.values(self.z, xi)
        known = self.problem.slopes_in_xi(self.z, xi)
        cost_slope = self._differences(xi) if known is None else known
        return costs - value - self.witness.beta, cost_slope - slope

    def _differences(self, xi: Array) -> Array:
        """The cost's gradient by central differences, which stay in the box."""
        m, d = xi.shape
        step = _DIFFERENCE * (self.upper - self.lower)
        shifts = np.diag(step)
        right = np.minimum(xi + shifts[:, None, :], self.upper).reshape(-1, d)
        left = np.maximum(xi - shifts[:, None, :], self.lower).reshape(-1, d)
        rise = np.subtract(*np.split(self.problem.values(self.z, np.vstack([right, left])), 2))
        run = (right - left).reshape(d, m, d)[np.arange(d), :, np.arange(d)]
        rise = rise.reshape(d, m)
        return np.divide(rise, run, out=np.zeros((d, m)), where=run > 0).T
