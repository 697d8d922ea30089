r"""The master programme: the rows at hand, solved in the span of what they touch.

With active points :math:`v_p`, anchors :math:`\mu_k` and g in their span, the programme is

.. math::
   \min \; \max_{a \in \mathcal A} \textstyle\sum_k a_k \langle g, \mu_k \rangle + R |g| + \beta
   \quad \text{s.t.} \quad
   f_{pc} + s_{pc}^\top (z - z_c) \le g(v_p) + \beta, \quad
   \mathrm{E}_k[f] \text{ cuts} \le \langle g, \mu_k \rangle + \beta, \quad z \in \mathcal X .

The part of g outside the span changes none of the inner products and only adds to |g|, so this is
exact whatever the number of support points. With F the coordinates of the spanning functions and y
those of g in an orthonormal basis (`roodso.solver.basis`), inner products are F y and |g| = |y|:
linear rows and one second-order cone. The aggregated rows, one per anchor, follow from
the point rows; they bound the first master from below.

For A = {a in the simplex, a <= cap} the first term is min_q q + cap sum_k (<g, mu_k> - q)^+.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from roodso._typing import Array, IntArray
from roodso.losses.base import ConicRows
from roodso.losses.region import Region
from roodso.solver.conic import ConicProgramme, cone_numbers

__all__ = ["IDLE", "Cuts", "Master", "MasterSolution"]

#: A cut with a smaller multiplier is idle; multipliers add up to one.
IDLE = 1e-9


class Cuts:
    """Linear minorants of costs: owner (a point or an anchor), value at z = 0, slope.

    ``touch`` is the z at which each was made; ``idle`` counts for how many rounds in a row a cut
    had no multiplier.
    """

    def __init__(self, dimension: int) -> None:
        self.owner: IntArray = np.empty(0, dtype=np.intp)
        self.constant: Array = np.empty(0)
        self.slope: Array = np.empty((0, dimension))
        self.touch: Array = np.empty((0, dimension))
        self.idle: IntArray = np.empty(0, dtype=np.intp)

    def __len__(self) -> int:
        return len(self.owner)

    def add(self, owner: IntArray, z: Array, values: Array, slopes: Array) -> None:
        """Add the linearisations at ``z``."""
        self.owner = np.concatenate([self.owner, owner])
        self.constant = np.concatenate([self.constant, values - slopes @ z])
        self.slope = np.vstack([self.slope, slopes])
        self.touch = np.vstack([self.touch, np.broadcast_to(z, slopes.shape)])
        self.idle = np.concatenate([self.idle, np.zeros(len(owner), dtype=np.intp)])

    def count_idle(self, weights: Array) -> None:
        """Note which cuts had no multiplier this time."""
        self.idle = np.where(weights > IDLE, 0, self.idle + 1)

    def drop_idle(self, patience: int) -> bool:
        """Drop cuts idle for ``patience`` rounds; say whether there were any."""
        keep = self.idle < patience
        self.owner, self.constant = self.owner[keep], self.constant[keep]
        self.slope, self.touch = self.slope[keep], self.touch[keep]
        self.idle = self.idle[keep]
        return not bool(keep.all())

    def largest(self, z: Array, n_owners: int) -> Array:
        """The largest cut of each owner at ``z``; -inf where it has none."""
        values = np.full(n_owners, -np.inf)
        np.maximum.at(values, self.owner, self.constant + self.slope @ z)
        return values

    def minorant(self, weights: Array) -> tuple[float, Array]:
        """Sum of weights times cuts: value at z = 0 and slope."""
        return float(weights @ self.constant), weights @ self.slope


@dataclass(frozen=True)
class MasterSolution:
    """Where the master put everything, and its multipliers.

    The multipliers of the rows of one point add up to its probability under the worst case; those
    of the anchors' rows to the share of each anchor's own distribution. ``mixture`` is the a of the
    worst case, ``norm`` is |g|; ``accurate`` says whether the solver's error is small enough.
    """

    z: Array
    y: Array
    norm: float
    value: float
    cut_weights: Array
    anchor_cut_weights: Array
    conic_weights: list[Array]
    mixture: Array
    accurate: bool


@dataclass(frozen=True)
class Master:
    """Solves master programmes; holds what does not change between them.

    Attributes
    ----------
    region : Region
    radius, cap : float
    shift, unit : float
        Costs enter as (f - shift) / unit and decisions as shares of the box's sides, so that the
        solver sees numbers near one.
    tol, enough : float
        The errors that the solver aims at and that will do, in units of ``unit``.
    time_limit : float
        Seconds.
    """

    region: Region
    radius: float
    cap: float
    shift: float
    unit: float
    tol: float = 1e-9
    enough: float = 1e-7
    time_limit: float = np.inf

    def solve(
        self,
        F_points: Array,
        F_anchors: Array,
        cuts: Cuts,
        anchor_cuts: Cuts,
        conic: list[tuple[IntArray, ConicRows]],
    ) -> MasterSolution:
        """Solve with the rows given.

        Parameters
        ----------
        F_points : ndarray of shape (P, r)
            Coordinates of the active points' kernel functions; cuts name their point by number.
        F_anchors : ndarray of shape (K, r)
        cuts, anchor_cuts : Cuts
        conic : list of (rows of F_points, ConicRows)
        """
        # Where R is tiny |g| is large. So y is counted in units of 1 / R, and g from its mean over
        # the anchors, which joins beta and would cancel against it.
        scale = min(self.radius, 1.0)
        origin = F_anchors.mean(axis=0)
        F_points, F_anchors = (F_points - origin) / scale, (F_anchors - origin) / scale
        p = ConicProgramme()
        p.add_columns("u", np.zeros(self.region.dimension))
        self.region.add_rows(p, "u")
        hull = self._add_witness(p, F_anchors, self.radius / scale)
        point_rows = self._add_cuts(p, cuts, F_points)
        anchor_rows = self._add_cuts(p, anchor_cuts, F_anchors)
        conic_rows = [
            self._add_conic(p, str(number), F_points[owners], rows)
            for number, (owners, rows) in enumerate(conic)
        ]
        p.solve(self.tol, self.time_limit, self.enough)

        def weights(rows: slice) -> Array:
            return np.maximum(p.multipliers(rows), 0.0)

        y = p["y"] * (self.unit / scale)
        return MasterSolution(
            z=self.region.lower + self.region.side * p["u"],
            y=y,
            norm=float(np.linalg.norm(y)),
            value=p.value * self.unit + self.shift,
            cut_weights=weights(point_rows),
            anchor_cut_weights=weights(anchor_rows),
            conic_weights=[weights(rows) for rows in conic_rows],
            mixture=np.ones(1) if hull is None else weights(hull),
            accurate=p.error <= self.enough,
        )

    def _add_witness(self, p: ConicProgramme, F_anchors: Array, radius: float) -> slice | None:
        """max_a sum_k a_k F_k y + R |y| + beta; returns the rows whose multipliers are a."""
        n_anchors, rank = F_anchors.shape
        single = n_anchors == 1
        p.add_columns("y", F_anchors[0].copy() if single else np.zeros(rank))
        p.add_columns("norm", np.array([radius]))
        p.add_columns("beta", np.ones(1))
        cone = {"norm": np.eye(1 + rank, 1) * -1.0, "y": -np.eye(1 + rank, rank, -1)}
        p.add_rows("second_order", cone, np.zeros(1 + rank))
        if single:
            return None
        # excess_k >= F_k y - q, excess_k >= 0.
        p.add_columns("q", np.ones(1))
        p.add_columns("excess", np.full(n_anchors, self.cap))
        zero, eye = np.zeros(n_anchors), np.eye(n_anchors)
        p.add_rows("nonnegative", {"excess": -eye}, zero)
        above = {"y": F_anchors, "q": -np.ones((n_anchors, 1)), "excess": -eye}
        return p.add_rows("nonnegative", above, zero)

    def _add_cuts(self, p: ConicProgramme, cuts: Cuts, F: Array) -> slice:
        """(constant + slope'lower - shift + (slope side)'u) / unit <= F y + beta."""
        region = self.region
        right = (self.shift - cuts.constant - cuts.slope @ region.lower) / self.unit
        slope = cuts.slope * region.side / self.unit
        minus_one = np.full((len(cuts), 1), -1.0)
        parts = {"u": slope, "y": -F[cuts.owner], "beta": minus_one}
        return p.add_rows("nonnegative", parts, right)

    def _add_conic(self, p: ConicProgramme, name: str, F: Array, rows: ConicRows) -> slice:
        """f(z, xi) <= t in the loss's own cones, t = unit t' + shift, and t' <= F y + beta."""
        n = len(F)
        t, o = "t" + name, "o" + name
        p.add_columns(t, np.zeros(n))
        p.add_columns(o, np.zeros(rows.A_o.shape[1]))
        in_u = rows.A_z @ sparse.diags(self.region.side)
        in_t = rows.A_t * self.unit
        right = rows.b - rows.A_z @ self.region.lower - rows.A_t @ np.full(n, self.shift)
        by_row, by_o = _balance(in_u, in_t, rows.A_o, rows.cones)
        D = sparse.diags(by_row)
        parts = {"u": D @ in_u, t: D @ in_t, o: D @ rows.A_o @ sparse.diags(by_o)}
        p.add_block(parts, by_row * right, rows.cones)
        parts = {t: np.eye(n), "y": -F, "beta": np.full((n, 1), -1.0)}
        return p.add_rows("nonnegative", parts, np.zeros(n))


def _balance(
    in_u: sparse.csc_matrix,
    in_t: sparse.csc_matrix,
    in_o: sparse.csc_matrix,
    cones: list[tuple[str, float]],
) -> tuple[Array, Array]:
    """Factors for rows and for the auxiliary columns that bring their entries near one.

    All rows of a cone get the same factor, which keeps it the cone it is; so do rows of the
    nonnegative and the zero cone, each by itself.
    """
    cone_of = cone_numbers(cones)
    by_row, by_o = np.ones(len(cone_of)), np.ones(in_o.shape[1])
    given, auxiliary = abs(sparse.hstack([in_u, in_t], format="csr")), abs(in_o.tocsr())
    for _ in range(5):
        in_rows = np.maximum(_largest(given, 1), _largest(auxiliary @ sparse.diags(by_o), 1))
        in_cones = np.zeros(cone_of.max(initial=-1) + 1)
        np.maximum.at(in_cones, cone_of, by_row * in_rows)
        by_row /= np.sqrt(np.where(in_cones > 0, in_cones, 1.0))[cone_of]
        in_columns = by_o * _largest(sparse.diags(by_row) @ auxiliary, 0)
        by_o /= np.sqrt(np.where(in_columns > 0, in_columns, 1.0))
    return by_row, by_o


def _largest(matrix: sparse.csr_matrix, axis: int) -> Array:
    """The largest entry of each column (axis 0) or row (axis 1) of a nonnegative matrix."""
    if 0 in matrix.shape:
        return np.zeros(matrix.shape[1 - axis])
    return np.asarray(matrix.max(axis=axis).todense()).ravel()
