"""Any convex loss: by vectorised callables, or by a function that builds a cvxpy expression.

Callables reach the solver as linear cuts. An expression reaches it as its own conic rows for the
few active points, and is evaluated in one call at all points; smooth losses converge faster so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from roodso._typing import Array
from roodso._validation import as_vector, check_integer, check_real
from roodso.exceptions import SolverError
from roodso.losses.base import ConicRows, Loss, Problem
from roodso.losses.region import Region, check_constraints

__all__ = ["ConvexLoss"]


class ConvexLoss(Loss):
    """A loss of the user's own, convex in the decision.

    Parameters
    ----------
    value : callable, optional
        ``value(x, xi)`` with x (k,) and xi (n, d) returns the n costs.
    subgradient : callable, optional
        ``subgradient(x, xi)`` returns the n subgradients in x, (n, k).
    expression : callable, optional
        Instead of the two above: ``expression(x, xi)`` returns a convex cvxpy expression of shape
        (n,) for a cvxpy variable x (k,) and an array xi (n, d).
    lower, upper : float or sequence of length k
        Finite bounds on the decision. They are needed: without them neither the master programme
        nor the certificate need have a finite value.
    dimension : int, optional
        k; by default the number of columns of the data.
    A_ub, b_ub, A_eq, b_eq : array_like, optional
        Side constraints ``A_ub @ x <= b_ub`` and ``A_eq @ x = b_eq``.
    convex_in_xi : bool, default=False
        Promise that the cost is convex in xi as well. Only then can the worst case over the
        continuous support be proved.
    lipschitz : float or callable, optional
        A Lipschitz constant of the cost in xi, on the whole space and with respect to the ground
        norm it is used with, for `WassersteinDRO`: a number that holds for every decision, or
        ``lipschitz(x)`` returning the constant at x, convex in x, and a subgradient of it (k,).
        With it the worst case is bounded from above, and met where the cost is convex in xi and the
        constant the smallest one.

    Examples
    --------
    >>> import numpy as np
    >>> loss = ConvexLoss(
    ...     value=lambda x, xi: ((xi - x) ** 2).sum(axis=1),
    ...     subgradient=lambda x, xi: 2 * (x - xi),
    ...     lower=-10, upper=10,
    ... )
    >>> loss.bind(np.zeros(1), np.ones(1)).values(np.array([2.0]), np.array([[0.5]])).tolist()
    [2.25]
    """

    def __init__(
        self,
        value: Callable[[Array, Array], Any] | None = None,
        subgradient: Callable[[Array, Array], Any] | None = None,
        *,
        expression: Callable[[Any, Array], Any] | None = None,
        lower: Any = None,
        upper: Any = None,
        dimension: int | None = None,
        A_ub: Any = None,
        b_ub: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        convex_in_xi: bool = False,
        lipschitz: Any = None,
    ) -> None:
        self.value = value
        self.subgradient = subgradient
        self.expression = expression
        self.lower = lower
        self.upper = upper
        self.dimension = dimension
        self.A_ub = A_ub
        self.b_ub = b_ub
        self.A_eq = A_eq
        self.b_eq = b_eq
        self.convex_in_xi = convex_in_xi
        self.lipschitz = lipschitz

    def bind(self, lower: Array, upper: Array) -> Problem:
        """Check the parameters and make the problem; see `Loss.bind`."""
        if self.dimension is None:
            k = len(lower)
        else:
            k = check_integer(self.dimension, "dimension", low=1)
        if self.lower is None or self.upper is None:
            raise ValueError(
                "ConvexLoss needs finite bounds on the decision: lower and upper, got "
                f"lower={self.lower!r}, upper={self.upper!r}"
            )
        region = Region.box(as_vector(self.lower, "lower", k), as_vector(self.upper, "upper", k))
        region = region.with_inequality(*check_constraints(self.A_ub, self.b_ub, "ub", k))
        region = region.with_equality(*check_constraints(self.A_eq, self.b_eq, "eq", k))
        start, points = region.some_point(), np.stack([lower, upper])
        if self.lipschitz is not None and not callable(self.lipschitz):
            check_real(self.lipschitz, "lipschitz", low=0.0)
        problem: _BoundedProblem
        if self.expression is not None:
            if self.value is not None or self.subgradient is not None:
                raise ValueError("give ConvexLoss either expression, or value and subgradient")
            problem = ExpressionProblem(self.expression, region, self.convex_in_xi)
        else:
            if self.value is None or self.subgradient is None:
                raise ValueError("ConvexLoss needs both value and subgradient, or expression")
            problem = CallableProblem(self.value, self.subgradient, region, self.convex_in_xi)
        problem.constant = self.lipschitz
        together = problem.values(start, points)
        alone = np.concatenate([problem.values(start, point[None]) for point in points])
        if not np.allclose(together, alone, rtol=1e-6, atol=1e-12 * np.abs(alone).max()):
            raise ValueError(
                "ConvexLoss: the cost of a point must not depend on the other points it is "
                f"evaluated with, got {together.tolist()} together and {alone.tolist()} alone"
            )
        problem.slopes(start, points)
        return problem

    def to_dict(self) -> dict[str, Any]:
        """Refuse: Python functions have no portable form."""
        raise TypeError(
            "a ConvexLoss holds Python functions and cannot be written to a portable file; save "
            "the model with include_loss=False and pass loss= on loading"
        )


class _BoundedProblem(Problem):
    """A loss that promises a meaning within its bounds only.

    ``constant`` is its Lipschitz constant in xi, a number or a callable.
    """

    constant: Any = None

    def lipschitz(self, z: Array, norm: float) -> tuple[float, Array]:
        if self.constant is None:
            raise ValueError(
                "the Lipschitz constant of this ConvexLoss in xi is not known: give "
                "ConvexLoss(..., lipschitz=...), a number or a function of the decision"
            )
        if not callable(self.constant):
            return float(self.constant), np.zeros(len(z))
        found = self.constant(z)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ValueError(
                f"ConvexLoss: lipschitz must return a constant and a subgradient, got {found!r}"
            )
        value = _checked(found[0], (), "lipschitz")
        return float(value), _checked(found[1], (len(z),), "the subgradient of lipschitz")

    def at(self, x: Array) -> Problem:
        if (x < self.region.lower).any() or (x > self.region.upper).any():
            raise ValueError(f"x must be within the bounds of ConvexLoss, got {x.tolist()}")
        return super().at(x)


class CallableProblem(_BoundedProblem):
    """A convex loss given by two vectorised callables."""

    def __init__(self, value: Any, subgradient: Any, region: Region, convex_in_xi: bool) -> None:
        self._value = value
        self._subgradient = subgradient
        self.region = region
        self.n_decisions = region.dimension
        self.convex_in_xi = convex_in_xi

    def values(self, z: Array, xi: Array) -> Array:
        return _checked(self._value(z, xi), (len(xi),), "value")

    def slopes(self, z: Array, xi: Array) -> Array:
        return _checked(self._subgradient(z, xi), (len(xi), len(z)), "subgradient")


class ExpressionProblem(_BoundedProblem):
    """A convex loss given by a function that builds a cvxpy expression."""

    prefers_conic_rows = True

    def __init__(self, expression: Any, region: Region, convex_in_xi: bool) -> None:
        self._expression = expression
        self.region = region
        self.n_decisions = region.dimension
        self.convex_in_xi = convex_in_xi

    def _build(self, x: Any, xi: Array) -> Any:
        built = self._expression(x, xi)
        if tuple(built.shape) not in ((len(xi),), (len(xi), 1)):
            raise ValueError(
                f"ConvexLoss: expression must have shape ({len(xi)},), got {tuple(built.shape)}"
            )
        if not built.is_convex():
            raise ValueError("ConvexLoss: cvxpy does not recognise the expression as convex in x")
        return built

    def values(self, z: Array, xi: Array) -> Array:
        variable = _variable(z)
        with np.errstate(all="ignore"):
            value = self._build(variable, xi).value
        return _checked(np.ravel(value), (len(xi),), "expression")

    def slopes(self, z: Array, xi: Array) -> Array:
        """By cvxpy's derivatives, and by duality for the points where it has none.

        It gives up on all points for one with a derivative it does not know, |x - xi|^1.5 at 0 say:
        halving finds that one.
        """
        variable = _variable(z)
        with np.errstate(all="ignore"):
            jacobian = self._build(variable, xi).grad[variable]
        if jacobian is not None:
            dense = jacobian.toarray() if sparse.issparse(jacobian) else np.asarray(jacobian)
            shape = (len(xi), len(z))
            return _checked(dense.reshape(len(z), len(xi)).T, shape, "expression gradient")
        if len(xi) == 1:
            return self._slope_by_duality(z, xi)
        half = len(xi) // 2
        return np.vstack([self.slopes(z, xi[:half]), self.slopes(z, xi[half:])])

    def _slope_by_duality(self, z: Array, xi: Array) -> Array:
        """The price of moving z in min {t : f(x, xi) <= t, x = z}."""
        import cvxpy as cp

        x, t = cp.Variable(len(z)), cp.Variable()
        fixed = x == z
        problem = cp.Problem(cp.Minimize(t), [cp.sum(self._build(x, xi)) <= t, fixed])
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.error.SolverError as error:
            raise SolverError(f"no subgradient of the loss at {z.tolist()}: {error}") from None
        if fixed.dual_value is None:
            raise SolverError(f"no subgradient of the loss at {z.tolist()}", problem.status)
        return _checked(-np.atleast_2d(fixed.dual_value), (1, len(z)), "expression gradient")

    def conic_rows(self, xi: Array) -> ConicRows:
        """Let cvxpy reduce f(x, xi_l) <= t_l to Clarabel's cones and split the columns."""
        import cvxpy as cp

        x, t = cp.Variable(self.n_decisions), cp.Variable(len(xi))
        built = cp.reshape(self._build(x, xi), (len(xi),), order="F")
        problem = cp.Problem(cp.Minimize(cp.sum(t)), [built <= t])
        data, _, _ = problem.get_problem_data(cp.CLARABEL)
        first = data["param_prob"].var_id_to_col
        A = sparse.csc_matrix(data["A"])
        in_z = np.arange(first[x.id], first[x.id] + self.n_decisions)
        in_t = np.arange(first[t.id], first[t.id] + len(xi))
        rest = np.setdiff1d(np.arange(A.shape[1]), np.concatenate([in_z, in_t]))
        cones = _cones(data["dims"])
        return ConicRows(A[:, in_z], A[:, in_t], A[:, rest], np.asarray(data["b"]), cones)


def _variable(z: Array) -> Any:
    import cvxpy as cp

    variable = cp.Variable(len(z))
    variable.value = z
    return variable


def _cones(dims: Any) -> list[Any]:
    """Cones in the order in which cvxpy stacks their rows."""
    cones: list[Any] = []
    if dims.zero:
        cones.append(("zero", dims.zero))
    if dims.nonneg:
        cones.append(("nonnegative", dims.nonneg))
    cones += [("second_order", size) for size in dims.soc]
    cones += [("psd", size) for size in dims.psd]
    cones += [("exponential", 3)] * dims.exp
    cones += [("power", float(power)) for power in dims.p3d]
    if getattr(dims, "pnd", None):
        raise SolverError("losses that need an n-dimensional power cone are not supported")
    return cones


def _checked(result: Any, shape: tuple[int, ...], name: str) -> Array:
    array = np.asarray(result, dtype=float)
    if array.shape != shape:
        raise ValueError(f"ConvexLoss: {name} must return shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"ConvexLoss: {name} returned a value that is not finite")
    return array
