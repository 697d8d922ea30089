r"""Where decisions may lie: a box cut by linear constraints.

.. math:: \mathcal X = \{ z : l \le z \le u, \; A z \le b, \; A_e z = b_e \},

with a finite box, so that every affine function has a finite minimum over it and every lower bound
that the solver states is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from roodso._typing import Array
from roodso.exceptions import SolverError

__all__ = ["Region", "check_constraints"]


#: A side constraint whose terms vary within the box by less than this share of their size is
#: measured by that size.
_NEGLIGIBLE = 1e-6
#: By how much a projected decision may miss a side constraint, in units of the constraint's range,
#: and below which such a miss is rounding.
_FEASIBLE, _ROUNDING = 1e-8, 1e-14


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

    @cached_property
    def constraints(self) -> Constraints:
        """The side constraints for u = (z - lower) / side, rows brought to size one."""
        return Constraints(
            *self._for_unit_box(self.A_ub, self.b_ub), *self._for_unit_box(self.A_eq, self.b_eq)
        )

    def _for_unit_box(self, A: Array, b: Array) -> tuple[Array, Array]:
        """A z against b as A' u against b'.

        A row that hardly moves within the box is measured by its terms' sizes instead: what is
        left of it is rounding.
        """
        in_u, right = A * self.side, b - A @ self.lower
        terms = np.abs(A) @ np.maximum(np.abs(self.lower), np.abs(self.upper)) + np.abs(b)
        size = np.maximum(np.abs(in_u).max(axis=1, initial=0.0), _NEGLIGIBLE * terms)
        size = np.where(size > 0, size, 1.0)
        return in_u / size[:, None], right / size

    def minimize_linear(self, slope: Array) -> float:
        r"""A lower bound of min slope'z over the region, tight up to rounding.

        With multipliers y >= 0 and e of the constraints in u, for every u in the unit box

        .. math:: s^\top u \ge -b^\top y - b_e^\top e
                  + \sum_j \min \{0, (s + A^\top y + A_e^\top e)_j\} ,

        so whatever the accuracy of the solver's multipliers, the value is a bound.
        """
        in_u = slope * self.side
        base = float(slope @ self.lower)
        if self.is_box:
            return base + float(np.minimum(in_u, 0.0).sum())
        size = float(np.abs(in_u).max())
        if size == 0.0:
            return base
        result, rows = self._linprog(in_u / size), self.constraints
        y = np.maximum(-result.ineqlin.marginals, 0.0) if len(rows.b_ub) else rows.b_ub
        e = -result.eqlin.marginals if len(rows.b_eq) else rows.b_eq
        reduced = in_u / size + y @ rows.A_ub + e @ rows.A_eq
        value = np.minimum(reduced, 0.0).sum() - rows.b_ub @ y - rows.b_eq @ e
        return base + size * float(value)

    def _linprog(self, slope: Array) -> Any:
        """Minimise slope'u."""
        rows = self.constraints
        result = linprog(
            slope,
            A_ub=rows.A_ub if len(rows.b_ub) else None,
            b_ub=rows.b_ub if len(rows.b_ub) else None,
            A_eq=rows.A_eq if len(rows.b_eq) else None,
            b_eq=rows.b_eq if len(rows.b_eq) else None,
            bounds=(0.0, 1.0),
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
        n, rows = self.dimension, self.constraints
        programme.add_rows("zero", {name: rows.A_eq}, rows.b_eq)
        programme.add_rows("nonnegative", {name: rows.A_ub}, rows.b_ub)
        box = np.vstack([-np.eye(n), np.eye(n)])
        programme.add_rows("nonnegative", {name: box}, np.repeat([0.0, 1.0], n))

    def some_point(self) -> Array:
        """A feasible point; `ValueError` where there is none."""
        if (self.lower > self.upper).any():
            raise ValueError("the lower bound of the loss exceeds its upper bound")
        if self.is_box:
            return 0.5 * (self.lower + self.upper)
        return self._at(np.asarray(self._linprog(np.zeros(self.dimension)).x))

    def _at(self, u: Array) -> Array:
        """The z of a u, within the bounds whatever the rounding."""
        return np.clip(self.lower + self.side * u, self.lower, self.upper)

    def project(self, z: Array) -> Array:
        """The nearest point of the region, in units of the box's sides.

        What a solver returns misses the constraints by rounding, and is moved by about as much.
        """
        side = np.where(self.side > 0, self.side, 1.0)
        u, rows = (z - self.lower) / side, self.constraints
        if rows.violation(np.clip(u, 0.0, 1.0)) > _FEASIBLE:
            u = rows.nearest(u)
        u = rows.corrected(u)
        if not rows.violation(u) <= _FEASIBLE:
            raise SolverError("a decision could not be projected onto its feasible region")
        return self._at(u)


@dataclass(frozen=True)
class Constraints:
    """Side constraints A_ub u <= b_ub and A_eq u = b_eq within the unit box."""

    A_ub: Array
    b_ub: Array
    A_eq: Array
    b_eq: Array

    def violation(self, u: Array) -> float:
        """The largest violation at ``u``; 0 where there is none."""
        over = (self.A_ub @ u - self.b_ub).max(initial=0.0)
        return float(max(over, np.abs(self.A_eq @ u - self.b_eq).max(initial=0.0)))

    def nearest(self, u: Array) -> Array:
        """The nearest point by a quadratic programme, to about the root of its tolerance.

        Inequalities are relaxed a little, for regions that rounding makes empty.
        """
        n = len(u)
        eye = sparse.eye(n)
        A = sparse.vstack([self.A_eq, self.A_ub, eye, -eye], format="csc")
        slack = np.concatenate([self.b_ub - self.A_ub @ u, 1.0 - u, u])
        right = np.concatenate([self.b_eq - self.A_eq @ u, slack + 0.1 * _FEASIBLE])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
        cones = [
            clarabel.ZeroConeT(len(self.b_eq)),
            clarabel.NonnegativeConeT(len(self.b_ub) + 2 * n),
        ]
        solver = clarabel.DefaultSolver(eye.tocsc(), np.zeros(n), A, right, cones, settings)
        return u + np.asarray(solver.solve().x)

    def corrected(self, u: Array) -> Array:
        """Undo a small violation by the least step that undoes it; repeated, as bounds may bind."""
        u = np.clip(u, 0.0, 1.0)
        for _ in range(20):
            over = self.A_ub @ u - self.b_ub
            if self.violation(u) <= _ROUNDING:
                break
            rows = np.vstack([self.A_ub[over > 0], self.A_eq])
            missing = np.concatenate([-over[over > 0], self.b_eq - self.A_eq @ u])
            step = np.linalg.lstsq(rows, missing, rcond=None)[0]
            # A variable at a bound that the step would cross stays; the others make up for it.
            free = ((u > 0) | (step > 0)) & ((u < 1) | (step < 0))
            step[free] = np.linalg.lstsq(rows[:, free], missing, rcond=None)[0]
            step[~free] = 0.0
            u = np.clip(u + step, 0.0, 1.0)
        return u


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
