r"""The mean-CVaR portfolio (paper, eq:portfolio) in z = (x, tau).

.. math:: f((x, \tau), \xi) = -x^\top \xi
          + \delta_1 \Big[ \tau + \tfrac1{\delta_2} (-x^\top \xi - \tau)^+ \Big],
          \qquad x \ge 0, \; 1^\top x = 1.

For any distribution the best tau is the (1 - delta_2)-quantile of the portfolio's loss, so it lies
between the smallest and the largest loss a portfolio can make.

As a function of xi it is the larger of two affine ones, with slopes -x and
:math:`-(1 + \delta_1/\delta_2) x`, so its Lipschitz constant is that of the second,
:math:`(1 + \delta_1/\delta_2) |x|_*` with the dual of the norm of xi.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from roodso._typing import Array
from roodso._validation import as_vector, check_real
from roodso.losses.base import (
    ColumnPieces,
    ConicRows,
    Loss,
    Problem,
    dual_norm,
    weighted_quantile,
)
from roodso.losses.region import Region, check_constraints

__all__ = ["CVaRPortfolio"]


class CVaRPortfolio(Loss):
    """Choose portfolio weights by mean return and conditional value at risk.

    Parameters
    ----------
    risk_aversion : float, default=10.0
        The paper's delta_1.
    tail : float in (0, 1], default=0.2
        The paper's delta_2: the share of worst outcomes averaged.
    lower, upper : float or sequence, default 0 and 1
        Bounds on the weights, within [0, 1].
    A_ub, b_ub : array_like, optional
        Side constraints ``A_ub @ x <= b_ub``.

    Examples
    --------
    >>> import numpy as np
    >>> loss = CVaRPortfolio(risk_aversion=1.0, tail=0.5)
    >>> problem = loss.bind(np.array([-0.1, 0.0]), np.array([0.2, 0.1]))
    >>> returns = np.array([[0.2, 0.1], [-0.1, 0.0]])
    >>> problem.values(np.array([1.0, 0.0, 0.0]), returns).round(3).tolist()
    [-0.2, 0.3]
    """

    def __init__(
        self,
        risk_aversion: float = 10.0,
        tail: float = 0.2,
        *,
        lower: Any = 0.0,
        upper: Any = 1.0,
        A_ub: Any = None,
        b_ub: Any = None,
    ) -> None:
        self.risk_aversion = risk_aversion
        self.tail = tail
        self.lower = lower
        self.upper = upper
        self.A_ub = A_ub
        self.b_ub = b_ub

    def bind(self, lower: Array, upper: Array) -> CVaRProblem:
        """Check the parameters and make the problem; see `Loss.bind`."""
        width = len(lower)
        aversion = check_real(self.risk_aversion, "risk_aversion", low=0.0)
        tail = check_real(self.tail, "tail", low=0.0, high=1.0, low_open=True)
        low = as_vector(self.lower, "lower", width)
        high = as_vector(self.upper, "upper", width)
        if (low < 0).any() or (high > 1).any() or (low > high).any():
            raise ValueError(
                "CVaRPortfolio: bounds must satisfy 0 <= lower <= upper <= 1, got "
                f"lower={low.tolist()}, upper={high.tolist()}"
            )
        A_ub, b_ub = check_constraints(self.A_ub, self.b_ub, "ub", width)
        weights = Region.box(low, high).with_equality(np.ones((1, width)), np.ones(1))
        weights = weights.with_inequality(A_ub, b_ub)
        region = weights.extended(-float(upper.max()), -float(lower.min()))
        return CVaRProblem(aversion, tail, region)


class CVaRProblem(Problem):
    """The mean-CVaR cost bound to data."""

    convex_in_xi = True
    parallel = True

    def __init__(self, aversion: float, tail: float, region: Region) -> None:
        self.aversion = aversion
        self.tail = tail
        self.region = region
        self.n_decisions = region.dimension - 1

    def values(self, z: Array, xi: Array) -> Array:
        loss = -(xi @ z[:-1])
        excess = np.maximum(loss - z[-1], 0.0)
        return loss + self.aversion * (z[-1] + excess / self.tail)

    def slopes(self, z: Array, xi: Array) -> Array:
        beyond = -(xi @ z[:-1]) > z[-1]
        factor = self.aversion / self.tail * beyond
        return np.column_stack([-xi * (1.0 + factor)[:, None], self.aversion - factor])

    def slopes_in_xi(self, z: Array, xi: Array) -> Array:
        beyond = -(xi @ z[:-1]) > z[-1]
        return np.multiply.outer(-(1.0 + self.aversion / self.tail * beyond), z[:-1])

    def complete(self, x: Array, xi: Array, weights: Array) -> Array:
        tau = weighted_quantile(-(xi @ x), weights, 1.0 - self.tail)
        return np.append(x, tau)

    def lipschitz(self, z: Array, norm: float) -> tuple[float, Array]:
        steep = 1.0 + self.aversion / self.tail
        value, slope = dual_norm(z[:-1], norm)
        return steep * value, np.append(steep * slope, 0.0)

    def lipschitz_bound(self, norm: float) -> float:
        return 1.0 + self.aversion / self.tail  # no dual norm exceeds the sum, which is one

    def column_pieces(self, z: Array) -> ColumnPieces:
        a, steep = self.aversion, self.aversion / self.tail
        constant = np.array([a, a - steep]) * z[-1]
        slope = np.stack([-z[:-1], -(1.0 + steep) * z[:-1]])[:, None, :]
        return ColumnPieces(constant, np.zeros_like(slope), slope)

    def at(self, x: Array) -> Problem:
        if (x < 0).any() or abs(x.sum() - 1.0) > 1e-6:
            raise ValueError(f"x must be non-negative and add up to one, got {x.tolist()}")
        return super().at(x)

    def conic_rows(self, xi: Array) -> ConicRows:
        # -xi'x + a tau - t <= 0;  -(1 + a/tail) xi'x + (a - a/tail) tau - t <= 0.
        a, steep = self.aversion, self.aversion / self.tail
        n = len(xi)
        one = np.ones((n, 1))
        A_z = np.vstack(
            [np.hstack([-xi, a * one]), np.hstack([-(1 + steep) * xi, (a - steep) * one])]
        )
        A_t = sparse.vstack([-sparse.eye(n), -sparse.eye(n)])
        A_o = sparse.csc_matrix((2 * n, 0))
        cones = [("nonnegative", 2 * n)]
        return ConicRows(sparse.csc_matrix(A_z), A_t.tocsc(), A_o, np.zeros(2 * n), cones)
