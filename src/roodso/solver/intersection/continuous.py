r"""Two balls, and a worst case anywhere in a box: the reformulation that is exponential in M.

For a cost :math:`f(z, \xi) = \max_p a_p(z)^\top \xi + b_p(z)` with a_p, b_p affine in z, the dual
of the worst case over distributions on the box :math:`\Xi = [l, h]` is

.. math::
   \min_{z, \lambda \ge 0, s} \; & \lambda_1 \epsilon_1 + \lambda_2 \epsilon_2
       + \tfrac1{n_1} \textstyle\sum_j s_{1j} + \tfrac1{n_2} \sum_k s_{2k} \\
   \text{s.t.} \; & \max_{\xi \in \Xi} \; a_p(z)^\top \xi + b_p(z) - \lambda_1 |\xi - \xi_{1j}|
       - \lambda_2 |\xi - \xi_{2k}| \le s_{1j} + s_{2k} \quad \text{for all } j, k, p.

Each maximum is concave and equals, by conic duality, a minimum over :math:`|y_1| \le \lambda_1`,
:math:`|y_2| \le \lambda_2`:

.. math:: b_p + y_1^\top \xi_{1j} + y_2^\top \xi_{2k} + h^\top r + (h - l)^\top r^-, \qquad
          r = a_p - y_1 - y_2 .

All :math:`n_1 n_2` pairs and all pieces have their own y: that is what support points avoid.

**Upper bound.** y is scaled to the norms asked for, so every minimum is met or exceeded, and the
largest excess is added. **Lower bound.** The multiplier w of a row and g of
:math:`r + r^- \ge 0` say where the row's mass lies: at :math:`\xi = h - g / w`. That distribution
is checked and mixed as on support points.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import product

import numpy as np
from scipy import sparse

from roodso._typing import Array
from roodso.losses.base import Problem
from roodso.losses.newsvendor import NewsvendorProblem
from roodso.losses.portfolio import CVaRProblem
from roodso.solver.conic import ConicProgramme
from roodso.solver.intersection.balls import Balls, Inner, Prices
from roodso.solver.intersection.factor import center_of_empty_ball
from roodso.solver.intersection.loop import GenerationOptions
from roodso.solver.intersection.solution import IntersectionSolution
from roodso.solver.intersection.solve import (
    average_bound,
    pull_inside,
    put_together,
    solve_at_radius_zero,
)
from roodso.support import data_box

__all__ = ["LinearPieces", "check_continuous", "linear_pieces", "solve_continuous"]

#: Rows (pairs of samples times pieces) times columns that a conic solver is asked to handle.
_LARGEST = 400_000
#: Mass that the conic solver's rounding leaves on rows without any.
_MASS = 1e-9


@dataclass(frozen=True)
class LinearPieces:
    r"""f(z, xi) = max_p (slope_p + slope_in_z_p z)'xi + constant_p + constant_in_z_p'z.

    Attributes
    ----------
    slope : ndarray of shape (P, d)
    slope_in_z : ndarray of shape (P, d, n)
    constant : ndarray of shape (P,)
    constant_in_z : ndarray of shape (P, n)
    """

    slope: Array
    slope_in_z: Array
    constant: Array
    constant_in_z: Array

    def slopes(self, z: Array) -> Array:
        """a_p(z): (P, d)."""
        return np.asarray(self.slope + self.slope_in_z @ z)

    def constants(self, z: Array) -> Array:
        """b_p(z): (P,)."""
        return np.asarray(self.constant + self.constant_in_z @ z)


@singledispatch
def linear_pieces(problem: Problem) -> LinearPieces | None:
    """The pieces of a cost that is a maximum of functions affine in z and in xi; else None."""
    del problem  # nothing is known of a loss in general
    return None


@linear_pieces.register
def _(problem: NewsvendorProblem) -> LinearPieces:
    t, n = problem.terms, problem.n_decisions
    over = np.array(list(product([0.0, 1.0], repeat=n)))  # which items are ordered in excess
    return LinearPieces(
        t.b - over * t.kink,
        np.zeros((len(over), n, n)),
        np.zeros(len(over)),
        t.slope + over * t.kink,
    )


@linear_pieces.register
def _(problem: CVaRProblem) -> LinearPieces:
    n, d = problem.region.dimension, problem.n_decisions
    steep = problem.aversion / problem.tail * np.array([0.0, 1.0])
    in_z = np.zeros((2, d, n))
    in_z[:, np.arange(d), np.arange(d)] = -(1.0 + steep)[:, None]
    constant = np.zeros((2, n))
    constant[:, -1] = problem.aversion - steep
    return LinearPieces(np.zeros((2, d)), in_z, np.zeros(2), constant)


def check_continuous(problem: Problem, balls: Balls) -> LinearPieces:
    """Refuse what the reformulation cannot do, and say why."""
    if balls.sources.n_sources != 2:
        raise ValueError(
            "support='continuous' is for two sources, got "
            f"{balls.sources.n_sources}: its size is exponential in their number; use 'discrete'"
        )
    pieces = None if _too_many_items(problem) else linear_pieces(problem)
    if pieces is None:
        raise ValueError(
            "support='continuous' needs a cost that is a maximum of few functions linear in the "
            "data: Newsvendor (of up to 10 items) or CVaRPortfolio; use 'discrete'"
        )
    n_1, n_2 = (int(size) for size in balls.sources.sizes)
    size = n_1 * n_2 * pieces.slope.size
    if size > _LARGEST:
        raise ValueError(
            f"support='continuous' would need {n_1} x {n_2} pairs of samples x "
            f"{len(pieces.slope)} pieces x {pieces.slope.shape[1]} columns = {size:,} variables "
            f"per ball, more than {_LARGEST:,}; use 'discrete'"
        )
    return pieces


def _too_many_items(problem: Problem) -> bool:
    return isinstance(problem, NewsvendorProblem) and problem.n_decisions > 10


@dataclass(frozen=True)
class _Rows:
    """The rows (j, k, p), in that order, with distances in units of the box."""

    first: Array  # xi_1j of each row, (R, d)
    second: Array
    piece: Array  # p of each row
    lower: Array
    upper: Array
    center: Array
    length: float

    @classmethod
    def build(cls, balls: Balls, n_pieces: int) -> _Rows:
        lower, upper = data_box(balls.sources.samples)
        center, length = 0.5 * (lower + upper), balls.length
        one, two = ((balls.samples(i) - center) / length for i in (0, 1))
        j, k, p = (
            index.ravel() for index in np.indices((len(one), len(two), n_pieces), dtype=np.intp)
        )
        box = (lower - center) / length, (upper - center) / length
        return cls(one[j], two[k], p, *box, center, length)


def solve_continuous(
    problem: Problem, balls: Balls, inner: Inner, options: GenerationOptions, start: Array
) -> IntersectionSolution:
    """Solve the programme over distributions on the samples' box; see `solve_intersection`."""
    pieces = check_continuous(problem, balls)
    if center_of_empty_ball(balls) is not None:
        solution = solve_at_radius_zero(problem, balls, inner, options, start)
        z = np.concatenate([solution.decision, solution.internal])
        multipliers = solution.multipliers.copy()
        # Off the support points, too, the cost rises from a sample by no more than this.
        steep = np.linalg.norm(pieces.slopes(z), axis=1).max()
        multipliers[balls.radii.argmin()] = steep
        return replace(solution, multipliers=multipliers)
    started = time.perf_counter()
    rows = _Rows.build(balls, len(pieces.slope))
    costs = problem.values(start, balls.support)
    shift, unit = float(costs.mean()), float(np.ptp(costs)) or 1.0
    programme, mass, inside = _programme(problem, balls, pieces, rows, shift, unit)
    programme.solve(1e-9, options.time_limit)
    solved = time.perf_counter()
    prices, constant, upper = _upper(problem, balls, pieces, rows, programme, unit)
    points, shares = _atoms(rows, programme.multipliers(mass), programme.multipliers(inside))
    n_known = len(balls.support)
    extended = replace(balls, support=np.vstack([balls.support, points]))
    padded = Inner(np.append(inner.weights, np.zeros(len(points))), inner.distances)
    weights, _ = pull_inside(extended, np.append(np.zeros(n_known), shares), padded)
    lower = average_bound(problem, extended.support, weights, prices.z, upper, options.tol)
    return put_together(
        problem,
        extended,
        prices,
        constant,
        (lower, upper),
        weights,
        tol=options.tol,
        status="inaccurate",
        iterations=1,
        timings={"conic": solved - started, "certificate": time.perf_counter() - solved},
    )


def _programme(
    problem: Problem, balls: Balls, pieces: LinearPieces, rows: _Rows, shift: float, unit: float
) -> tuple[ConicProgramme, slice, slice]:
    """The conic programme; its rows (j, k, p), and those that ask r + r^- >= 0."""
    region = problem.region
    (n_rows, d), sizes = rows.first.shape, balls.sources.sizes
    programme = ConicProgramme()
    programme.add_columns("u", np.zeros(region.dimension))
    programme.add_columns("lambda", balls.radii / rows.length)
    for i, name in enumerate(("s1", "s2")):
        programme.add_columns(name, np.full(sizes[i], 1.0 / sizes[i]))
    for name in ("y1", "y2", "minus"):
        programme.add_columns(name, np.zeros(n_rows * d))
    region.add_rows(programme, "u")
    programme.add_rows("nonnegative", {"lambda": -np.eye(2)}, np.zeros(2))
    # a_p(z) and b_p(z) with xi = center + length xi', in units of cost, and z = lower + side u.
    low, side, p = region.lower, region.side, rows.piece
    slope = pieces.slopes(low)[p] * rows.length / unit
    slope_in_u = (pieces.slope_in_z * side)[p] * rows.length / unit
    at_center = pieces.constants(low) + pieces.slopes(low) @ rows.center - shift
    constant = at_center[p] / unit
    in_u = pieces.constant_in_z * side + np.einsum(
        "pdn,d->pn", pieces.slope_in_z * side, rows.center
    )
    constant_in_u = in_u[p] / unit
    n_1, n_2, n_pieces = int(sizes[0]), int(sizes[1]), len(pieces.slope)
    spread = _by_row(np.ones((n_rows, d)))
    mass = programme.add_rows(
        "nonnegative",
        {
            "u": constant_in_u + np.einsum("rdn,d->rn", slope_in_u, rows.upper),
            "s1": -sparse.kron(sparse.eye(n_1), np.ones((n_2 * n_pieces, 1))),
            "s2": -sparse.kron(
                np.ones((n_1, 1)), sparse.kron(sparse.eye(n_2), np.ones((n_pieces, 1)))
            ),
            "y1": _by_row(rows.first - rows.upper),
            "y2": _by_row(rows.second - rows.upper),
            "minus": spread @ sparse.diags(np.tile(rows.upper - rows.lower, n_rows)),
        },
        -constant - slope @ rows.upper,
    )
    eye = sparse.eye(n_rows * d)
    inside = programme.add_rows(
        "nonnegative",
        {"u": -slope_in_u.reshape(n_rows * d, -1), "y1": eye, "y2": eye, "minus": -eye},
        slope.ravel(),
    )
    programme.add_rows("nonnegative", {"minus": -eye}, np.zeros(n_rows * d))
    # Rows (lambda_i, y_i) of each cone, one cone after the other.
    head = sparse.kron(np.ones((n_rows, 1)), sparse.csr_matrix(np.eye(d + 1)[:, :1]))
    tail = sparse.kron(sparse.eye(n_rows), sparse.csr_matrix(np.eye(d + 1)[:, 1:]))
    cones = [("second_order", d + 1)] * n_rows
    for i, name in enumerate(("y1", "y2")):
        which = sparse.csr_matrix(np.eye(2)[i : i + 1])
        parts = {"lambda": -sparse.kron(head, which), name: -tail}
        programme.add_block(parts, np.zeros(n_rows * (d + 1)), cones)
    return programme, mass, inside


def _by_row(entries: Array) -> sparse.csr_matrix:
    """A matrix whose row r holds ``entries[r]`` in the columns of block r."""
    n_rows, d = entries.shape
    starts = d * np.arange(n_rows + 1)
    return sparse.csr_matrix((entries.ravel(), np.arange(n_rows * d), starts))


def _upper(
    problem: Problem,
    balls: Balls,
    pieces: LinearPieces,
    rows: _Rows,
    programme: ConicProgramme,
    unit: float,
) -> tuple[Prices, float, float]:
    """Prices in the user's units, the largest excess over all rows, and the bound they prove."""
    region, n_rows = problem.region, len(rows.piece)
    z = region.project(region.lower + region.side * programme["u"])
    multipliers = np.maximum(programme["lambda"], 0.0) * unit / rows.length
    potentials = np.empty(balls.sources.n_samples)
    for i, name in enumerate(("s1", "s2")):
        potentials[balls.rows[i]] = programme[name] * unit
    y = []
    for i, name in enumerate(("y1", "y2")):
        vectors = programme[name].reshape(n_rows, -1) * unit / rows.length
        norms = np.linalg.norm(vectors, axis=1)
        scale = np.minimum(1.0, multipliers[i] / np.maximum(norms, np.finfo(float).tiny))
        y.append(vectors * (scale * (1.0 - 1e-15))[:, None])
    slopes = pieces.slopes(z)[rows.piece]
    r = slopes - y[0] - y[1]
    # Everything is measured from the box's center, where a_p' center + b_p is the cost.
    constants = pieces.constants(z) + pieces.slopes(z) @ rows.center
    most = constants[rows.piece] + rows.length * (
        np.maximum(r * rows.lower, r * rows.upper).sum(axis=1)
        + (y[0] * rows.first + y[1] * rows.second).sum(axis=1)
    )
    sizes = balls.sources.sizes
    pairs = most.reshape(sizes[0], sizes[1], -1).max(axis=2)
    one, two = (potentials[balls.rows[i]] for i in (0, 1))
    constant = float((pairs - one[:, None] - two).max())
    upper = float(multipliers @ balls.radii) + float(one.mean() + two.mean()) + constant
    return Prices(z, multipliers, potentials), constant, upper


def _atoms(rows: _Rows, mass: Array, inside: Array) -> tuple[Array, Array]:
    """Where the worst case lies, and how much of it, from the multipliers of the rows."""
    w = np.maximum(mass, 0.0)
    used = np.flatnonzero(w > _MASS * w.sum())
    g = np.maximum(inside, 0.0).reshape(len(w), -1)[used]
    points = np.clip(rows.upper - g / w[used][:, None], rows.lower, rows.upper)
    return rows.center + rows.length * points, w[used] / w[used].sum()
