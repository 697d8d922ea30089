r"""The master programme: the couplings at hand, as a linear programme in the prices.

.. math::
   \min_{z, \beta, \lambda \ge 0, s, u} \; & \beta + \textstyle\sum_i ( \lambda_i \epsilon_i
       + \frac1{n_i} \sum_j s_{ij} ) \\
   \text{s.t.} \quad & \text{cut}_{lc}(z) \le \beta + \textstyle\sum_i u_{il}, \\
   & u_{il} \le s_{ij} + \lambda_i |v_l - \xi_{ij}| \quad \text{for the arcs } (i, l, j) \text{ at
   hand}, \\
   & |s_{ij} - s_{ik}| \le \lambda_i |\xi_{ij} - \xi_{ik}| \quad \text{along a tree}, \\
   & \mathrm E_0 \text{ cut}_c(z) \le \beta + \textstyle\sum_i ( \lambda_i W_1(P_0, \hat P_i)
       + \frac1{n_i} \sum_j s_{ij} ).

The multipliers of a point's cuts add up to its probability under the worst case, those of arcs are
its coupling with the sources. Having u as variables is what keeps this small: a cut in (lambda, s)
alone would need one row for each choice of an arc in every ball.

Two things keep the first masters near the last:

- Raising :math:`s_{ij}` above :math:`s_{ik} + \lambda_i |\xi_{ij} - \xi_{ik}|` cannot help, as j
  would then never attain a minimum. So potentials may be asked to be Lipschitz along a tree: a
  few hubs, and each sample tied to the nearest. In the transport problem mass may then go through
  hubs, and no point is without a way to every sample.
- The last row is implied by the others. P_0 lies in all balls, so the master is never unbounded.

With ``factor`` the radii are what is minimised: no costs, lambda costs nothing, and
:math:`\sum_i \lambda_i \epsilon_i = 1`; minus the value is the smallest factor by which the radii
can be scaled (`roodso.solver.intersection.factor`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from roodso._typing import Array, IntArray
from roodso.exceptions import SolverError
from roodso.losses.base import Problem
from roodso.solver.intersection.balls import Inner, Prices, Pricing
from roodso.transport import ground_distances

__all__ = ["Master", "MasterPoint"]

_INF = highspy.kHighsInf
#: Multipliers below this are the solver's rounding; those of cuts add up to one.
_IDLE = 1e-11
#: Rounds that a row may be without multiplier before it may be dropped.
_PATIENCE = 3
#: Rows are dropped only where many are idle: dropping costs a factorisation.
_MANY = 1000
#: Largest lambda_i eps_i, in units of the costs' range. Where P_0 is inside by a share of the
#: radii, optima stay below some multiple of that share's inverse. Where it is on the boundary, the
#: solver might call the programme unbounded for rounding.
_STEEPEST = 1e5
#: The row of cuts that belong to P_0 rather than to a point.
_INNER = -1


@dataclass(frozen=True)
class MasterPoint:
    """Where the master put everything.

    Attributes
    ----------
    prices : Prices
    constant : float
        beta.
    value : float
    weights : ndarray of shape (L,)
        The worst case.
    minorant : tuple of float and ndarray
        The multipliers' combination of cuts: below the worst case's mean cost for every z.
    """

    prices: Prices
    constant: float
    value: float
    weights: Array
    minorant: tuple[float, Array]


class _Block:
    """Rows of one kind: where they are in the programme, and since when they have been idle."""

    def __init__(self, **columns: Array) -> None:
        self.columns: dict[str, Any] = {"row": np.empty(0, int), "idle": np.empty(0, int)}
        self.columns |= columns

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def append(self, rows: IntArray, **columns: Any) -> None:
        """Note new rows."""
        new = {"row": rows, "idle": np.zeros(len(rows), int)} | columns
        for name, entries in new.items():
            self.columns[name] = np.concatenate([self.columns[name], entries])

    def count_idle(self, duals: Array) -> None:
        """Note which rows had no multiplier this time."""
        self.columns["idle"] = np.where(duals[self["row"]] > _IDLE, 0, self["idle"] + 1)

    def stale(self) -> IntArray:
        """Rows of the programme that have been idle for long."""
        return np.asarray(self["row"][self["idle"] >= _PATIENCE])

    def renumber(self, keep: Any, position: IntArray) -> None:
        """Follow the deletion of rows from the programme."""
        kept = keep[self["row"]]
        self.columns = {name: entries[kept] for name, entries in self.columns.items()}
        self.columns["row"] = position[self["row"]]


class _RowSink:
    """Takes a region's rows for the solver."""

    def __init__(self, master: Master) -> None:
        self.master = master

    def add_rows(self, kind: str, parts: dict[str, Any], right: Array) -> slice:
        """Rows ``sum of parts[name] @ x[name] + s = right`` with s zero or non-negative."""
        matrix = np.asarray(parts["z"], dtype=float)
        rows, columns = np.nonzero(matrix)
        lower = right if kind == "zero" else np.full(len(right), -_INF)
        first = self.master._add_rows(
            rows, columns, matrix[rows, columns], lower=lower, upper=np.asarray(right)
        )
        return slice(int(first), int(first) + len(right))


class Master:
    """The linear programme, grown row by row and solved from where it was.

    Parameters
    ----------
    problem : Problem
    pricing : Pricing
    inner : Inner
        P_0.
    shift, unit : float
        Costs are measured from ``shift`` in units of ``unit``.
    factor : bool
        Minimise a common factor of the radii rather than the worst case.
    """

    def __init__(
        self,
        problem: Problem,
        pricing: Pricing,
        inner: Inner,
        *,
        shift: float,
        unit: float,
        factor: bool = False,
    ) -> None:
        self.problem, self.pricing, self.inner = problem, pricing, inner
        self.shift, self.unit, self.factor = shift, unit, factor
        balls = pricing.balls
        self.n, self.n_points = problem.region.dimension, len(balls.support)
        self.active: list[int] = []
        self.lambdas: dict[int, int] = {}  # the column of each active ball's multiplier
        self.first: dict[int, int] = {}  # and of its first potential
        self.hubs: dict[int, IntArray] = {}
        self.reach = np.full((balls.sources.n_sources, self.n_points), -1)  # columns of u
        self.points: IntArray = np.empty(0, dtype=np.intp)  # those that have columns
        self.known: dict[int, Any] = {}
        self.arcs = _Block(ball=np.empty(0, int), point=np.empty(0, int), sample=np.empty(0, int))
        self.cuts = _Block(
            point=np.empty(0, int), constant=np.empty(0), slope=np.empty((0, self.n))
        )
        self._begin()

    def _begin(self) -> None:
        self.highs = highspy.Highs()
        for name, setting in {
            "output_flag": False,
            "threads": 1,
            "solver": "simplex",
            "primal_feasibility_tolerance": 1e-9,
            "dual_feasibility_tolerance": 1e-9,
        }.items():
            self.highs.setOptionValue(name, setting)
        self.n_columns = self.n_rows = 0
        self._add_columns(np.zeros(self.n), lower=0.0, upper=1.0)  # u = (z - lower) / side
        self.beta = self._add_columns(np.ones(1))
        if self.factor:
            none = np.empty(0, int)
            self._add_rows(none, none, none, lower=np.full(1, -_INF), upper=np.ones(1))
        self.problem.region.add_rows(_RowSink(self), "z")

    # --- Growing ------------------------------------------------------------------------------

    def add_ball(self, i: int) -> None:
        """Add the multiplier and potentials of a source, its hubs, and its part in all rows."""
        balls = self.pricing.balls
        size, length = len(balls.rows[i]), balls.length
        radius = balls.radii[i] / length
        inner_rows = self.cuts["row"][self.cuts["point"] == _INNER]
        entries = [(inner_rows, np.full(len(inner_rows), self.inner.distances[i] / length))]
        if self.factor:
            entries.append((np.zeros(1, int), np.full(1, radius)))
        rows, values = (np.concatenate(part) for part in zip(*entries, strict=True))
        cost = np.zeros(1) if self.factor else np.full(1, radius)
        steepest = _INF if self.factor else _STEEPEST / radius
        self.lambdas[i] = self._add_columns(
            cost, lower=0.0, upper=steepest, rows=[rows], values=[values]
        )
        share = 1.0 / size
        self.first[i] = self._add_columns(
            np.full(size, share),
            rows=[inner_rows] * size,
            values=[np.full(len(inner_rows), share)] * size,
        )
        self.active.append(i)
        self.known[i] = np.zeros((self.n_points, size), dtype=bool)
        self._add_tree(i)
        self._add_reach(i, self.points)

    def _add_tree(self, i: int) -> None:
        """Tie hubs to the first of them, and every other sample to the nearest hub."""
        balls = self.pricing.balls
        samples = balls.samples(i)
        center = np.median(samples, axis=0, keepdims=True)
        hubs = [int(ground_distances(center, samples, balls.norm)[0].argmin())]
        near = ground_distances(samples, samples[hubs], balls.norm)
        while len(hubs) ** 2 < len(samples):  # the sample farthest from all hubs is the next
            hubs.append(int(near.min(axis=1).argmax()))
            near = np.hstack([near, ground_distances(samples, samples[hubs[-1:]], balls.norm)])
        parent = np.asarray(hubs)[near.argmin(axis=1)]
        parent[hubs] = hubs[0]
        child = np.setdiff1d(np.arange(len(samples)), hubs[:1])
        parent = parent[child]
        size = np.linalg.norm(samples[child] - samples[parent], ord=balls.norm, axis=1)
        size /= balls.length
        columns = np.column_stack(
            [np.full(len(child), self.lambdas[i]), self.first[i] + parent, self.first[i] + child]
        )
        for sign in (1.0, -1.0):
            values = np.column_stack([size, np.full((len(child), 2), [sign, -sign])])
            self._add_dense(columns, values, np.zeros(len(child)))
        self.hubs[i] = np.asarray(hubs)

    def add_points(self, chosen: IntArray) -> int:
        """Give support points their columns in every ball; returns how many are new."""
        fresh = np.setdiff1d(chosen, self.points)
        self.points = np.concatenate([self.points, fresh])
        for i in self.active:
            self._add_reach(i, fresh)
        return len(fresh)

    def _add_reach(self, i: int, points: IntArray) -> None:
        """Columns u_il, their part in the points' cuts, and arcs to nearest hub and sample."""
        if len(points) == 0:
            return
        order = np.argsort(self.cuts["point"], kind="stable")
        owner = self.cuts["point"][order]
        bounds = zip(
            np.searchsorted(owner, points, "left"),
            np.searchsorted(owner, points, "right"),
            strict=True,
        )
        rows = [self.cuts["row"][order[a:b]] for a, b in bounds]
        values = [np.ones(len(part)) for part in rows]
        first = self._add_columns(np.zeros(len(points)), rows=rows, values=values)
        self.reach[i, points] = first + np.arange(len(points))
        distances = self.pricing.distances(i)[points]
        hubs = self.hubs[i]
        self.add_arcs(i, points, hubs[distances[:, hubs].argmin(axis=1)])
        self.add_arcs(i, points, distances.argmin(axis=1))

    def add_arcs(self, i: int, points: IntArray, samples: IntArray) -> int:
        """Let points send mass to samples; returns how many of these ways are new."""
        new = ~self.known[i][points, samples]
        points, samples = points[new], samples[new]
        if len(points) == 0:
            return 0
        self.known[i][points, samples] = True
        size = self.pricing.distances(i)[points, samples] / self.pricing.balls.length
        columns = np.column_stack(
            [np.full(len(points), self.lambdas[i]), self.first[i] + samples, self.reach[i, points]]
        )
        values = np.column_stack([size, np.full((len(points), 2), [1.0, -1.0])])
        rows = self._add_dense(columns, values, np.zeros(len(points)))
        ball = np.full(len(points), i)
        self.arcs.append(rows, ball=ball, point=points, sample=samples)
        return len(points)

    def add_cheaper_arcs(self, points: IntArray, prices: Prices, count: int) -> int:
        """Let points send mass wherever that is cheaper than all ways at hand, ``count`` at most.

        The price of a way is s_ij + lambda_i |v_l - xi_ij|; the cheapest ones are added.
        """
        added = 0
        for i in self.active:
            reach = prices.multipliers[i] * self.pricing.distances(i)[points]
            reach += prices.potentials[self.pricing.balls.rows[i]]
            known = self.known[i][points]
            at_hand = np.where(known, reach, np.inf).min(axis=1, initial=np.inf)
            cheaper = ~known & (reach < at_hand[:, None] - 1e-9 * self.unit)
            reach[~cheaper] = np.inf
            best = np.argsort(reach, axis=1, kind="stable")[:, :count]
            rows, ranks = np.nonzero(np.isfinite(np.take_along_axis(reach, best, axis=1)))
            added += self.add_arcs(i, points[rows], best[rows, ranks])
        return added

    def add_cuts(self, points: IntArray, z: Array) -> int:
        """Linearise the costs of points at z where that tells anything new."""
        points = points[np.isin(points, self.points)]
        if len(points) == 0:
            return 0
        support = self.pricing.balls.support[points]
        values = self.problem.values(z, support)
        slopes = self.problem.slopes(z, support)
        new = values > self._model(z, points) + 1e-10 * self.unit
        points, values, slopes = points[new], values[new], slopes[new]
        columns = np.array([self.reach[i, points] for i in self.active], dtype=int)
        columns = columns.reshape(len(self.active), len(points)).T
        self._add_cuts(points, values - slopes @ z, slopes, columns, np.ones(columns.shape))
        return len(points)

    def add_inner_cut(self, z: Array) -> None:
        """Linearise the mean cost under P_0 at z."""
        used = np.flatnonzero(self.inner.weights)
        xi, shares = self.pricing.balls.support[used], self.inner.weights[used]
        slope = self.problem.mean_slope(z, xi, shares)
        value = float(shares @ self.problem.values(z, xi))
        owner = np.array([_INNER])
        if value <= self._model(z, owner)[0] + 1e-10 * self.unit:
            return
        balls = self.pricing.balls
        columns: list[Any] = [np.empty(0, int)]
        values: list[Any] = [np.empty(0)]
        for i in self.active:
            size = len(balls.rows[i])
            columns += [[self.lambdas[i]], self.first[i] + np.arange(size)]
            values += [[self.inner.distances[i] / balls.length], np.full(size, 1.0 / size)]
        self._add_cuts(
            owner,
            np.array([value - slope @ z]),
            slope[None],
            np.concatenate(columns)[None],
            np.concatenate(values)[None],
        )

    def _model(self, z: Array, points: IntArray) -> Array:
        """The largest cut of each point at z; -inf where there is none."""
        best = np.full(self.n_points + 1, -np.inf)  # P_0 takes the last place
        np.maximum.at(best, self.cuts["point"], self.cuts["constant"] + self.cuts["slope"] @ z)
        return best[points]

    def _add_cuts(
        self, points: IntArray, constants: Array, slopes: Array, columns: IntArray, values: Array
    ) -> None:
        """Rows beta + sum of ``values`` times ``columns`` >= constant + slope'z."""
        region, many = self.problem.region, len(points)
        in_z = np.tile(np.arange(self.n), (many, 1))
        columns = np.hstack([in_z, np.full((many, 1), self.beta), columns])
        values = np.hstack([-slopes * region.side / self.unit, np.ones((many, 1)), values])
        lower = (constants + slopes @ region.lower - self.shift) / self.unit
        rows = self._add_dense(columns.astype(int), values, lower)
        self.cuts.append(rows, point=points, constant=constants, slope=slopes)

    # --- Solving ------------------------------------------------------------------------------

    def solve(self, time_limit: float = np.inf) -> MasterPoint:
        """Solve, and translate back into the user's units."""
        run_time = self.highs.getRunTime()
        self.highs.setOptionValue("time_limit", min(run_time + max(time_limit, 0.01), _INF))
        self.highs.run()
        if self.highs.getModelStatus() == highspy.HighsModelStatus.kUnknown:
            self.highs.clearSolver()  # from scratch, with presolve
            self.highs.run()
        status = self.highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            word = self.highs.modelStatusToString(status)
            raise SolverError("a linear programme over transport plans failed", word)
        solution = self.highs.getSolution()
        x, duals = np.asarray(solution.col_value), np.asarray(solution.row_dual)
        for block in (self.arcs, self.cuts):
            block.count_idle(duals)
        region, balls = self.problem.region, self.pricing.balls
        multipliers = np.zeros(balls.sources.n_sources)
        potentials = np.zeros(balls.sources.n_samples)
        for i in self.active:
            multipliers[i] = max(x[self.lambdas[i]], 0.0) * self.unit / balls.length
            rows = balls.rows[i]
            potentials[rows] = x[self.first[i] : self.first[i] + len(rows)] * self.unit
        z = region.project(region.lower + region.side * x[: self.n])
        weights, minorant = self._worst_case(duals)
        return MasterPoint(
            Prices(z, multipliers, potentials),
            x[self.beta] * self.unit + self.shift,
            self.highs.getInfo().objective_function_value * self.unit + self.shift,
            weights,
            minorant,
        )

    def _worst_case(self, duals: Array) -> tuple[Array, tuple[float, Array]]:
        """The distribution that the multipliers of cuts are, and these cuts' combination."""
        shares = np.maximum(duals[self.cuts["row"]], 0.0)
        shares = np.where(shares > _IDLE, shares, 0.0)
        shares /= shares.sum()
        by_point = np.bincount(self.cuts["point"] + 1, shares, self.n_points + 1)
        weights = by_point[1:] + by_point[0] * self.inner.weights
        return weights, (float(shares @ self.cuts["constant"]), shares @ self.cuts["slope"])

    def drop_idle(self) -> None:
        """Drop rows that have long been without multiplier, where there are many."""
        stale = np.concatenate([self.arcs.stale(), self.cuts.stale()])
        if len(stale) < max(_MANY, 0.3 * self.n_rows):
            return
        keep = np.ones(self.n_rows, dtype=bool)
        keep[stale] = False
        gone = ~keep[self.arcs["row"]]
        for i in self.active:
            of_ball = gone & (self.arcs["ball"] == i)
            self.known[i][self.arcs["point"][of_ball], self.arcs["sample"][of_ball]] = False
        self.highs.deleteRows(len(stale), np.sort(stale).astype(np.int32))
        position = np.cumsum(keep) - 1
        for block in (self.arcs, self.cuts):
            block.renumber(keep, position)
        self.n_rows = int(keep.sum())

    # --- The solver's own interface -----------------------------------------------------------

    def _add_columns(
        self,
        costs: Array,
        *,
        lower: float = -_INF,
        upper: float = _INF,
        rows: Sequence[IntArray] = (),
        values: Sequence[Array] = (),
    ) -> int:
        """Add columns, each with its entries in rows that are there; returns the first one."""
        first, many = self.n_columns, len(costs)
        if many == 0:
            return first
        counts = np.array([len(part) for part in rows] or np.zeros(many), dtype=int)
        starts = np.concatenate([[0], np.cumsum(counts)])
        indices = np.concatenate([*rows, np.empty(0, int)]).astype(np.int32)
        entries = np.concatenate([*values, np.empty(0)])
        bounds = np.full(many, lower), np.full(many, upper)
        self.highs.addCols(
            many, costs, *bounds, len(indices), starts[:-1].astype(np.int32), indices, entries
        )
        self.n_columns += many
        return first

    def _add_dense(self, columns: IntArray, values: Array, lower: Array) -> IntArray:
        """Add rows with equally many entries each, at least ``lower``."""
        many, width = columns.shape
        rows = np.repeat(np.arange(many), width)
        upper = np.full(many, _INF)
        first = self._add_rows(rows, columns.ravel(), values.ravel(), lower=lower, upper=upper)
        return np.arange(first, first + many)

    def _add_rows(
        self, rows: IntArray, columns: IntArray, values: Array, *, lower: Array, upper: Array
    ) -> int:
        """Add rows given by entries in order of rows; returns the first one."""
        first, many = self.n_rows, len(lower)
        if many == 0:
            return first
        starts = np.searchsorted(rows, np.arange(many))
        self.highs.addRows(
            many,
            np.asarray(lower, dtype=float),
            np.asarray(upper, dtype=float),
            len(columns),
            starts.astype(np.int32),
            np.asarray(columns).astype(np.int32),
            np.asarray(values, dtype=float),
        )
        self.n_rows += many
        return first
