r"""The loss protocol: what modelling hands to the solver.

A user writes a `Loss`: parameters only, checked and bound to data by `Loss.bind`. What comes back
is a `Problem`: a cost :math:`f(z, \xi)`, convex in the decision z, given by values and subgradients
at all points in one vectorised call, and the region z lies in. z is the user's decision x followed
by whatever internal variables the loss needs (tau of the CVaR).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from roodso._typing import Array
from roodso.losses.region import Region

__all__ = ["ColumnPieces", "ConicRows", "Loss", "Origin", "Problem", "dual_norm"]


class Loss(BaseEstimator, ABC):
    """Base of all losses: a scikit-learn style container of parameters."""

    @abstractmethod
    def bind(self, lower: Array, upper: Array) -> Problem:
        """Check the parameters against the data and make the problem.

        Parameters
        ----------
        lower, upper : ndarray of shape (d,)
            A box that holds every support point.
        """

    def to_dict(self) -> dict[str, Any]:
        """Parameters for a portable file; losses made of Python functions refuse."""
        parameters = self.get_params(deep=False)
        return {"kind": type(self).__name__, "parameters": parameters}


@dataclass(frozen=True)
class ConicRows:
    r"""f(z, xi_l) <= t_l for some points, as a conic programme.

    :math:`A_z z + A_t t + A_o o + s = b, \; s \in K`, with auxiliary variables o; cones as Clarabel
    names them, in order.
    """

    A_z: sparse.csc_matrix
    A_t: sparse.csc_matrix
    A_o: sparse.csc_matrix
    b: Array
    cones: list[Any]


@dataclass(frozen=True)
class ColumnPieces:
    r"""A cost as a function of xi alone: the largest of K sums over columns.

    .. math:: f(\xi) = \max_k \; c_k + \sum_j \max_p \, (o_{kpj} + s_{kpj} \, \xi_j)

    Attributes
    ----------
    constant : ndarray of shape (K,)
    offset, slope : ndarray of shape (K, P, d)
    """

    constant: Array
    offset: Array
    slope: Array


@dataclass(frozen=True)
class Origin:
    """What a problem was made of: a saved model makes it again from this when it is loaded.

    Attributes
    ----------
    loss : Loss
        As it was when the problem was made.
    lower, upper : ndarray of shape (d,)
        What it was bound to.
    """

    loss: Loss
    lower: Array
    upper: Array


class Problem(ABC):
    """A loss bound to data: cost, region, and what is known of both.

    Attributes
    ----------
    region : Region
        Holds z = (x, internal variables); a finite box that cuts off no optimum.
    n_decisions : int
        Length of x, the first part of z.
    convex_in_xi : bool
        Whether f(z, .) is convex too, which lets the continuous worst case be proved.
    origin : Origin or None
        Noted by the method that bound the loss.
    parallel : bool
        Whether threads may evaluate it at the same time: not where it calls functions of the
        user's, or cvxpy.
    """

    region: Region
    n_decisions: int
    convex_in_xi: bool = False
    parallel: bool = False
    origin: Origin | None = None

    @abstractmethod
    def values(self, z: Array, xi: Array) -> Array:
        """f(z, xi) for each row of ``xi`` (n, d): (n,)."""

    @abstractmethod
    def slopes(self, z: Array, xi: Array) -> Array:
        """A subgradient in z for each row of ``xi``: (n, len(z))."""

    def slopes_in_xi(self, z: Array, xi: Array) -> Array | None:
        """A gradient in xi, wherever f has one, for each row: (n, d). None where it is not known.

        At a kink any slope between those of both sides will do.
        """
        return None

    def mean_slope(self, z: Array, xi: Array, weights: Array) -> Array:
        """sum_l weights_l slopes(z, xi_l), for (n,) or (n, K) weights: (len(z),) or (K, len(z))."""
        return weights.T @ self.slopes(z, xi)

    def minimize_average(self, xi: Array, weights: Array) -> Array | None:
        """The z that minimises sum_l weights_l f(z, xi_l), where there is a closed form."""
        return None

    def complete(self, x: Array, xi: Array, weights: Array) -> Array:
        """Z = (x, the internal variables that are best for the weighted points)."""
        return x

    def conic_rows(self, xi: Array) -> ConicRows | None:
        """The rows f(z, xi_l) <= t_l in conic form, where the loss has one."""
        return None

    def lipschitz(self, z: Array, norm: float) -> tuple[float, Array]:
        """The Lipschitz constant of f(z, .) on the whole space, and a subgradient of it in z.

        With respect to the 1-, 2- or inf-norm of xi. Convex in z, as f is. Where f is convex in xi
        and the constant the smallest one, f rises at that rate in some direction far out.
        """
        raise ValueError(f"no Lipschitz constant in xi is known for this loss ({self!r})")

    def lipschitz_bound(self, norm: float) -> float:
        """A number that the Lipschitz constant exceeds at no decision."""
        raise ValueError(f"no Lipschitz constant in xi is known for this loss ({self!r})")

    def column_pieces(self, z: Array) -> ColumnPieces | None:
        """f(z, .) by columns of xi, where it has that form."""
        return None

    def at(self, x: Array) -> Problem:
        """The problem with the decision fixed at x, for asking what x costs at worst.

        Bounds and side constraints on x are dropped; a loss that means nothing elsewhere refuses.
        """
        fixed = copy(self)
        fixed.region = self.region.fixed(x)
        return fixed

    @property
    def prefers_conic_rows(self) -> bool:
        """Whether the solver should use conic rows rather than linear cuts."""
        return False


def dual_norm(vector: Array, norm: float) -> tuple[float, Array]:
    """The dual of the 1-, 2- or inf-norm, and a subgradient of it.

    Examples
    --------
    >>> import numpy as np
    >>> value, slope = dual_norm(np.array([3.0, -4.0]), 1)
    >>> value, slope.tolist()
    (4.0, [0.0, -1.0])
    """
    if norm == 1:
        largest = int(np.argmax(np.abs(vector)))
        slope = np.zeros(len(vector))
        slope[largest] = np.sign(vector[largest])
        return float(abs(vector[largest])), slope
    if norm == 2:
        length = float(np.linalg.norm(vector))
        return length, vector / length if length > 0 else np.zeros(len(vector))
    return float(np.abs(vector).sum()), np.sign(vector)


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """Smallest value at which the cumulative weight reaches ``level`` of the total.

    Examples
    --------
    >>> import numpy as np
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.ones(3), 0.5)
    2.0
    """
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    position = np.searchsorted(cumulative, level * cumulative[-1] * (1 - 1e-14))
    return float(values[order[min(int(position), len(values) - 1)]])
