r"""Where decisions may lie: a box cut by linear constraints.

.. math:: \mathcal X = \{ z : l \le z \le u, \; A z \le b, \; A_e z = b_e \},

with a finite box, so that every affine function has a finite minimum over it and every lower bound
that the solver states is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from roodso._typing import Array
from roodso.exceptions import SolverError

__all__ = ["Region", "check_constraints"]


class ConicRowSink(Protocol):
    """What takes rows: `roodso.solver.conic.ConicProgramme`."""

    def add_rows(self, kind: str, parts: dict[str, Any], right: Array) -> slice:
        """Add rows to the blocks named."""


@dataclass(frozen=True)
class Region:
    """A bounded polyhedron.

    Attributes
    ----------
    lower, upper : ndarray of shape (n,)
        Finite bounds.
    A_ub, b_ub : ndarray of shape (m, n) and (m,)
    A_eq, b_eq : ndarray of shape (e, n) and (e,)

    Examples
    --------
    >>> import numpy as np
    >>> simplex = Region.box([0, 0], [1, 1]).with_equality(np.ones((1, 2)), np.ones(1))
    >>> simplex.minimize_linear(np.array([3.0, 1.0]))
    1.0
    """

    lower: Array
    upper: Array
    A_ub: Array
    b_ub: Array
    A_eq: Array
    b_eq: Array

    @classmethod
    def box(cls, lower: Any, upper: Any) -> Region:
        """A box without further constraints."""
        low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
        none, empty = np.zeros((0, len(low))), np.zeros(0)
        return cls(low, high, none, empty, none, empty)

    def with_inequality(self, A_ub: Array, b_ub: Array) -> Region:
        """The same region with A_ub z <= b_ub besides."""
        return replace(
            self, A_ub=np.vstack([self.A_ub, A_ub]), b_ub=np.concatenate([self.b_ub, b_ub])
        )

    def with_equality(self, A_eq: Array, b_eq: Array) -> Region:
        """The same region with A_eq z = b_eq besides."""
        return replace(
            self, A_eq=np.vstack([self.A_eq, A_eq]), b_eq=np.concatenate([self.b_eq, b_eq])
        )

    @property
    def dimension(self) -> int:
        """Number of decision variables."""
        return len(self.lower)

    @property
    def side(self) -> Array:
        """Lengths of the box's sides."""
        return self.upper - self.lower

    @property
    def is_box(self) -> bool:
        """Whether there is no constraint but the bounds."""
        return len(self.b_ub) == 0 and len(self.b_eq) == 0

    def extended(self, lower: float, upper: float) -> Region:
        """The region with one more variable, bounded and otherwise free."""
        n_ub, n_eq = len(self.b_ub), len(self.b_eq)
        return Region(
            np.append(self.lower, lower),
            np.append(self.upper, upper),
            np.hstack([self.A_ub, np.zeros((n_ub, 1))]),
            self.b_ub,
            np.hstack([self.A_eq, np.zeros((n_eq, 1))]),
            self.b_eq,
        )

    def fixed(self, values: Array) -> Region:
        """The region with its first ``len(values)`` variables fixed, side constraints dropped."""
        n = len(values)
        return Region.box(
            np.concatenate([values, self.lower[n:]]), np.concatenate([values, self.upper[n:]])
        )

    def violation(self, z: Array) -> float:
        """Largest violation of a bound or constraint at ``z``; 0 inside."""
        parts = [self.lower - z, z - self.upper, self.A_ub @ z - self.b_ub]
        parts.append(np.abs(self.A_eq @ z - self.b_eq))
        return float(max(part.max(initial=0.0) for part in parts))

    def minimize_linear(self, slope: Array) -> float:
        r"""A lower bound of min slope'z over the region, tight up to rounding.

        With multipliers y >= 0 and e of the constraints, for every z in the region

        .. math:: s^\top z \ge -b^\top y - b_e^\top e
                  + \sum_j \min_{l_j \le z_j \le u_j} (s + A^\top y + A_e^\top e)_j z_j ,

        so whatever the accuracy of the solver's multipliers, the value is a bound.
        """
        return self._linear(slope)[0]

    def argmin_linear(self, slope: Array) -> Array:
        """A minimiser of slope'z over the region."""
        return self._linear(slope)[1]

    def _linear(self, slope: Array) -> tuple[float, Array]:
        corner = np.where(slope > 0, self.lower, self.upper)
        if self.is_box:
            return float(slope @ corner), corner
        result = self._linprog(slope)
        y = np.maximum(-result.ineqlin.marginals, 0.0) if len(self.b_ub) else self.b_ub
        e = -result.eqlin.marginals if len(self.b_eq) else self.b_eq
        reduced = slope + y @ self.A_ub + e @ self.A_eq
        value = np.minimum(reduced * self.lower, reduced * self.upper).sum()
        return float(value - self.b_ub @ y - self.b_eq @ e), np.asarray(result.x)

    def _linprog(self, slope: Array) -> Any:
        result = linprog(
            slope,
            A_ub=self.A_ub if len(self.b_ub) else None,
            b_ub=self.b_ub if len(self.b_ub) else None,
            A_eq=self.A_eq if len(self.b_eq) else None,
            b_eq=self.b_eq if len(self.b_eq) else None,
            bounds=np.column_stack([self.lower, self.upper]),
        )
        if result.status == 2:
            raise ValueError(
                "the side constraints and bounds of the loss leave no feasible decision"
            )
        if result.status != 0:
            raise SolverError("a linear programme over the decisions failed", str(result.message))
        return result

    def add_rows(self, programme: ConicRowSink, name: str) -> None:
        """Add the region's rows to a programme whose block ``name`` is u = (z - lower) / side."""
        n = self.dimension
        A_eq, A_ub = self.A_eq * self.side, self.A_ub * self.side
        programme.add_rows("zero", {name: A_eq}, self.b_eq - self.A_eq @ self.lower)
        programme.add_rows("nonnegative", {name: A_ub}, self.b_ub - self.A_ub @ self.lower)
        box = np.vstack([-np.eye(n), np.eye(n)])
        programme.add_rows("nonnegative", {name: box}, np.repeat([0.0, 1.0], n))

    def some_point(self) -> Array:
        """A feasible point; `ValueError` where there is none."""
        if (self.lower > self.upper).any():
            raise ValueError("the lower bound of the loss exceeds its upper bound")
        if self.is_box:
            return 0.5 * (self.lower + self.upper)
        return np.asarray(self._linprog(np.zeros(self.dimension)).x)

    def project(self, z: Array) -> Array:
        """The nearest point of the region, in units of the box's sides."""
        clipped = np.clip(z, self.lower, self.upper)
        if self.violation(clipped) <= 1e-12 * (1.0 + np.abs(clipped).max()):
            return clipped
        side = np.where(self.side > 0, self.side, 1.0)
        n = self.dimension
        eye = sparse.eye(n)
        A = sparse.vstack([self.A_eq * side, self.A_ub * side, eye, -eye], format="csc")
        low, high = (self.lower - clipped) / side, (self.upper - clipped) / side
        right = np.concatenate(
            [self.b_eq - self.A_eq @ clipped, self.b_ub - self.A_ub @ clipped, high, -low]
        )
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
        cones = [
            clarabel.ZeroConeT(len(self.b_eq)),
            clarabel.NonnegativeConeT(len(self.b_ub) + 2 * n),
        ]
        zero = np.zeros(n)
        solver = clarabel.DefaultSolver(eye.tocsc(), zero, A, right, cones, settings)
        step = np.asarray(solver.solve().x)
        projected = np.clip(clipped + side * step, self.lower, self.upper)
        if not np.isfinite(projected).all():
            raise SolverError("a decision could not be projected onto its feasible region")
        return projected


def check_constraints(A: Any, b: Any, name: str, width: int) -> tuple[Array, Array]:
    """Check one pair of side constraints, ``A_name`` and ``b_name``."""
    if (A is None) != (b is None):
        raise ValueError(f"A_{name} and b_{name} must be given together")
    if A is None:
        return np.zeros((0, width)), np.zeros(0)
    try:
        matrix = np.atleast_2d(np.asarray(A, dtype=float))
        right = np.atleast_1d(np.asarray(b, dtype=float))
    except (TypeError, ValueError):
        raise TypeError(f"A_{name} and b_{name} must hold numbers") from None
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise ValueError(
            f"A_{name} must have {width} columns (one per decision), got {matrix.shape}"
        )
    if right.shape != (len(matrix),):
        raise ValueError(
            f"b_{name} must have one entry per row of A_{name} ({len(matrix)}), "
            f"got shape {right.shape}"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        raise ValueError(f"A_{name} and b_{name} must hold finite numbers")
    return matrix, right
