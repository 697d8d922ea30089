r"""The multi-item newsvendor (paper, eq:multi_newsvendor).

.. math:: f(x, \xi) = -p^\top \min(x, \xi) + c^\top x + h^\top (x - \xi)^+ + b^\top (\xi - x)^+
                    = (c - p - b)^\top x + b^\top \xi + (p + b + h)^\top (x - \xi)^+ .

The second form shows all: convex in x exactly if p + b + h >= 0; slope c - p - b below the demand
and c + h above it; convex in the demand too.

In the demand of an item the slope is b above the order and -(p + h) below it. All combinations of
the items' slopes occur, whatever x is, so on the whole space f(x, .) has the Lipschitz constant
:math:`| \max(|b|, |p + h|) |_*` with the dual of the norm of xi. The larger of b and p + h is never
negative, since they add up to p + b + h >= 0, and it is the larger one in absolute value too:
moving the demand far enough in the direction it belongs to costs as much as the constant says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from roodso._typing import Array, BoolArray
from roodso._validation import as_vector
from roodso.losses.base import (
    ColumnPieces,
    ConicRows,
    Loss,
    Problem,
    dual_norm,
    weighted_quantile,
)
from roodso.losses.region import Region, check_constraints

__all__ = ["Newsvendor"]


class Newsvendor(Loss):
    """Order quantities before demand is known.

    Parameters
    ----------
    price, cost, holding, backorder : float or sequence of length d
        Per unit and item: selling price, ordering cost, cost of a unit left over, cost of a unit of
        demand not met. A number stands for all items.
    lower, upper : float or sequence, default 0 and None
        Bounds on the orders; ``lower >= 0``.
    A_ub, b_ub : array_like, optional
        Side constraints ``A_ub @ x <= b_ub``: shelf space, budget.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Newsvendor(price=50, cost=20, holding=5, backorder=10)
    >>> problem = loss.bind(np.array([0.0]), np.array([9.0]))
    >>> problem.values(np.array([3.0]), np.array([[1.0], [4.0]])).tolist()
    [20.0, -80.0]
    """

    def __init__(
        self,
        price: Any,
        cost: Any,
        holding: Any = 0.0,
        backorder: Any = 0.0,
        *,
        lower: Any = 0.0,
        upper: Any = None,
        A_ub: Any = None,
        b_ub: Any = None,
    ) -> None:
        self.price = price
        self.cost = cost
        self.holding = holding
        self.backorder = backorder
        self.lower = lower
        self.upper = upper
        self.A_ub = A_ub
        self.b_ub = b_ub

    def bind(self, lower: Array, upper: Array) -> NewsvendorProblem:
        """Check the parameters and make the problem; see `Loss.bind`."""
        width = len(lower)
        p = as_vector(self.price, "price", width)
        c = as_vector(self.cost, "cost", width)
        h = as_vector(self.holding, "holding", width)
        b = as_vector(self.backorder, "backorder", width)
        low = as_vector(self.lower, "lower", width)
        high = as_vector(
            np.inf if self.upper is None else self.upper, "upper", width, allow_infinite=True
        )
        A_ub, b_ub = check_constraints(self.A_ub, self.b_ub, "ub", width)
        _require(p + b + h >= 0, "price + backorder + holding must be >= 0", p + b + h)
        _require(low >= 0, "lower must be >= 0", low)
        _require(high >= low, "upper must be >= lower", high)
        finite = np.isfinite(high)
        _require((c + h >= 0) | finite, "cost + holding must be >= 0 without upper", c + h)
        terms = _Terms(p, c, h, b)
        bound = _valid_upper(terms, low, high, A_ub, b_ub, lower, upper)
        region = Region.box(low, bound).with_inequality(A_ub, b_ub)
        return NewsvendorProblem(terms, region)


def _require(holds: BoolArray, rule: str, values: Array) -> None:
    if not np.all(holds):
        item = int(np.flatnonzero(~np.asarray(holds))[0])
        raise ValueError(f"Newsvendor: {rule}, got {values[item]:g} for item {item}")


class _Terms:
    """f as slope' x + b' xi + kink' (x - xi)^+."""

    def __init__(self, p: Array, c: Array, h: Array, b: Array) -> None:
        self.slope = c - p - b
        self.kink = p + b + h
        self.b = b
        self.over = c + h

    def item_values(self, x: Array, xi: Array) -> Array:
        """Cost of each item, for broadcastable x and xi."""
        return self.slope * x + self.b * xi + self.kink * np.maximum(x - xi, 0.0)


def _valid_upper(
    terms: _Terms, low: Array, high: Array, A_ub: Array, b_ub: Array, xi_low: Array, xi_high: Array
) -> Array:
    """A finite upper bound on the orders that cuts off no optimum.

    Beyond the largest demand an order only costs more (slope c + h >= 0), so it can be reduced to
    it, unless a side constraint has a negative coefficient there. Then the constraints themselves
    may bound it; and no optimum costs more than a feasible order does at worst, which bounds it
    where c + h > 0.
    """
    largest = np.maximum(low, xi_high)
    reducible = (A_ub >= 0).all(axis=0) & (terms.over >= 0)
    result = np.where(reducible, np.minimum(high, largest), high)
    if reducible.all():
        return result
    feasible = _extreme_order(np.ones(len(low)), largest, low, result, A_ub, b_ub)
    if feasible is None:
        raise ValueError("Newsvendor: the side constraints leave no feasible order")
    result = np.minimum(result, _by_cost(terms, feasible, low, result, xi_low, xi_high))
    for item in np.flatnonzero(np.isinf(result)):
        direction = np.zeros(len(low))
        direction[item] = -1.0
        order = _extreme_order(direction, largest, low, result, A_ub, b_ub)
        if order is None:
            raise ValueError(
                f"Newsvendor: with these side constraints and cost + holding = 0, orders of item "
                f"{item} have no finite bound; give a finite upper"
            )
        result[item] = order[item] * (1 + 1e-6)  # the linear programme's tolerance
    return result


def _extreme_order(
    direction: Array, size: Array, low: Array, high: Array, A_ub: Array, b_ub: Array
) -> Array | None:
    """The feasible order of least direction'x; None where there is none, or no least one.

    Orders are counted in units of ``size`` and constraints in units of their largest coefficient,
    for a solver whose tolerances are absolute.
    """
    size = np.where(size > 0, size, 1.0)
    A = A_ub * size
    row = np.where(np.abs(A).max(axis=1, initial=0.0) > 0, np.abs(A).max(axis=1, initial=0.0), 1.0)
    bounds = np.column_stack([low / size, high / size])
    solved = linprog(direction, A_ub=A / row[:, None], b_ub=b_ub / row, bounds=bounds)
    return np.asarray(solved.x) * size if solved.status == 0 else None


def _by_cost(
    terms: _Terms, feasible: Array, low: Array, high: Array, xi_low: Array, xi_high: Array
) -> Array:
    """Orders above which an item alone makes an order costlier than the feasible one ever is.

    An optimum costs no more than the feasible order at its worst demand, and at x >= xi an item
    costs (c + h) x - (p + h) xi.
    """
    largest = np.maximum(low, xi_high)
    ends = np.stack([xi_low, xi_high])
    worst = terms.item_values(feasible, ends).max(axis=0).sum()
    # Each item's cost is linear on both sides of x = xi, so it is least at a corner of these.
    demands = np.stack([xi_low, xi_high, np.clip(low, xi_low, xi_high)])
    orders = np.stack([low, np.maximum(low, xi_low), largest, np.where(high < np.inf, high, low)])
    least = terms.item_values(orders[:, None, :], demands[None, :, :]).min(axis=(0, 1))
    shift = ((terms.kink - terms.b) * ends).max(axis=0)
    room = worst - (least.sum() - least) + shift
    bound = np.divide(room, terms.over, out=np.full(len(low), np.inf), where=terms.over > 0)
    return np.maximum(largest, bound)


class NewsvendorProblem(Problem):
    """The newsvendor cost bound to data."""

    convex_in_xi = True
    parallel = True

    def __init__(self, terms: _Terms, region: Region) -> None:
        self.terms = terms
        self.region = region
        self.n_decisions = region.dimension

    def values(self, z: Array, xi: Array) -> Array:
        t = self.terms
        return t.slope @ z + xi @ t.b + np.maximum(z - xi, 0.0) @ t.kink

    def slopes(self, z: Array, xi: Array) -> Array:
        return self.terms.slope + self.terms.kink * (z > xi)

    def slopes_in_xi(self, z: Array, xi: Array) -> Array:
        return self.terms.b - self.terms.kink * (z > xi)

    def mean_slope(self, z: Array, xi: Array, weights: Array) -> Array:
        over = weights.T @ (z > xi)  # (d,) or (K, d)
        total = weights.sum(axis=0)
        return np.multiply.outer(total, self.terms.slope) + over * self.terms.kink

    def minimize_average(self, xi: Array, weights: Array) -> Array | None:
        # Slope of the average in x_j: slope_j + kink_j * F_j(x_j), F_j the share of demand below.
        if not self.region.is_box:
            return None
        t = self.terms
        z = np.empty(self.n_decisions)
        for j in range(self.n_decisions):
            if t.slope[j] >= 0:
                z[j] = self.region.lower[j]
            elif t.kink[j] <= -t.slope[j]:  # c + h <= 0: never too many
                z[j] = self.region.upper[j]
            else:
                z[j] = weighted_quantile(xi[:, j], weights, -t.slope[j] / t.kink[j])
        return np.clip(z, self.region.lower, self.region.upper)

    def lipschitz(self, z: Array, norm: float) -> tuple[float, Array]:
        return self.lipschitz_bound(norm), np.zeros(len(z))

    def lipschitz_bound(self, norm: float) -> float:
        t = self.terms
        return dual_norm(np.maximum(np.abs(t.b), np.abs(t.kink - t.b)), norm)[0]

    def column_pieces(self, z: Array) -> ColumnPieces:
        t = self.terms
        offset = np.stack([t.slope * z, (t.slope + t.kink) * z])
        return ColumnPieces(np.zeros(1), offset[None], np.stack([t.b, t.b - t.kink])[None])

    def conic_rows(self, xi: Array) -> ConicRows:
        # o_lj >= x_j - xi_lj, o_lj >= 0;  slope'x + kink'o_l - t_l <= -b'xi_l.
        n, d = xi.shape
        t = self.terms
        eye_o = sparse.eye(n * d)
        A_z = sparse.vstack(
            [
                np.tile(t.slope, (n, 1)),
                sparse.kron(np.ones((n, 1)), sparse.eye(d)),
                sparse.csc_matrix((n * d, d)),
            ]
        )
        A_t = sparse.vstack([-sparse.eye(n), sparse.csc_matrix((2 * n * d, n))])
        A_o = sparse.vstack([sparse.kron(sparse.eye(n), t.kink[None, :]), -eye_o, -eye_o])
        b = np.concatenate([-xi @ t.b, xi.ravel(), np.zeros(n * d)])
        return ConicRows(A_z.tocsc(), A_t.tocsc(), A_o.tocsc(), b, [("nonnegative", len(b))])
