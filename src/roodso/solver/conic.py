r"""Conic programmes: minimise c'x subject to A x + s = b, s in K.

Clarabel solves them; where it stops well short of its tolerance, once more with stronger
regularisation, and the better of the two is taken; where it fails, SCS. Nothing here is trusted:
callers recompute what they report (`roodso.solver.certificate`).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from roodso._typing import Array, IntArray
from roodso.exceptions import SolverError

__all__ = ["ConicProgramme", "ConicSolution", "cone_numbers", "solve_conic"]

logger = logging.getLogger(__name__)

_CLARABEL = {
    "zero": clarabel.ZeroConeT,
    "nonnegative": clarabel.NonnegativeConeT,
    "second_order": clarabel.SecondOrderConeT,
    "psd": clarabel.PSDTriangleConeT,
    "exponential": lambda _: clarabel.ExponentialConeT(),
    "power": clarabel.PowerConeT,
}
#: SCS wants its cones in this order, under these names.
_SCS = {"zero": "z", "nonnegative": "l", "second_order": "q", "exponential": "ep"}


@dataclass(frozen=True)
class ConicSolution:
    """Primal x, multipliers z of the rows, the solver's word and which solver it was.

    ``error`` is the largest of its relative residuals and gap.
    """

    x: Array
    z: Array
    status: str
    solver: str
    error: float = np.inf

    @property
    def usable(self) -> bool:
        """Whether there are numbers that may be near the solution."""
        near = self.status in ("Solved", "AlmostSolved", "InsufficientProgress", "solved")
        return near and bool(np.isfinite(self.x).all() and np.isfinite(self.z).all())


class ConicProgramme:
    """A conic programme put together from named blocks of columns and rows.

    Examples
    --------
    >>> import numpy as np
    >>> p = ConicProgramme()
    >>> p.add_columns("x", np.array([1.0, 2.0]))
    >>> total = p.add_rows("zero", {"x": np.ones((1, 2))}, np.array([1.0]))
    >>> sign = p.add_rows("nonnegative", {"x": -np.eye(2)}, np.zeros(2))
    >>> p.solve()
    >>> p["x"].round(6).tolist(), p.multipliers(total).round(6).tolist()
    ([1.0, 0.0], [-1.0])
    """

    def __init__(self) -> None:
        self._costs: list[Array] = []
        self._quadratic: dict[str, Array] = {}
        self._columns: dict[str, slice] = {}
        self._n_columns = 0
        self._n_rows = 0
        self._parts: list[tuple[int, str, Any]] = []
        self._rights: list[Array] = []
        self._cones: list[tuple[str, float]] = []
        self._solution: ConicSolution | None = None

    def add_columns(self, name: str, cost: Array, quadratic: Array | None = None) -> None:
        """Add a block of variables with its cost c'x (+ x'diag(quadratic)x / 2)."""
        self._columns[name] = slice(self._n_columns, self._n_columns + len(cost))
        self._n_columns += len(cost)
        self._costs.append(cost)
        if quadratic is not None:
            self._quadratic[name] = quadratic

    def add_rows(self, kind: str, parts: dict[str, Any], right: Array) -> slice:
        """Add rows ``sum of parts[name] @ x[name] + s = right`` with s in one cone."""
        return self.add_block(parts, right, [(kind, len(right))])

    def add_block(
        self, parts: dict[str, Any], right: Array, cones: list[tuple[str, float]]
    ) -> slice:
        """Add rows that run over several cones."""
        rows = slice(self._n_rows, self._n_rows + len(right))
        if len(right) == 0:
            return rows
        self._parts += [(rows.start, name, matrix) for name, matrix in parts.items()]
        self._rights.append(right)
        self._cones += cones
        self._n_rows = rows.stop
        return rows

    def solve(
        self, tol: float = 1e-9, time_limit: float = np.inf, enough: float | None = None
    ) -> None:
        """Solve; then read ``programme[name]``, ``multipliers(rows)`` and ``value``."""
        self._cost = np.concatenate(self._costs)
        P = None
        if self._quadratic:
            diagonal = np.zeros(self._n_columns)
            for name, entries in self._quadratic.items():
                diagonal[self._columns[name]] = entries
            P = sparse.diags(diagonal, format="csc")
        right = np.concatenate(self._rights)
        self._solution = solve_conic(
            self._cost, self._matrix(), right, self._cones, tol, P, time_limit, enough
        )

    def _matrix(self) -> sparse.csc_matrix:
        """All parts as one sparse matrix: their entries, moved to where they belong.

        Masters are small and many: going by way of SciPy's own conversions, with the checks of each
        part, took as long as solving them.
        """
        entries, rows, columns = [], [], []
        for first_row, name, matrix in self._parts:
            row, column, values = _entries(matrix)
            entries.append(values)
            rows.append(row + first_row)
            columns.append(column + self._columns[name].start)
        column = np.concatenate(columns)
        row = np.concatenate(rows)
        # No two parts meet in an entry, so sorting by column and row is all there is to it.
        order = np.argsort(column * self._n_rows + row)
        ends = np.cumsum(np.bincount(column, minlength=self._n_columns))
        stored = (np.concatenate(entries)[order], row[order], np.concatenate([[0], ends]))
        return sparse.csc_matrix(stored, shape=(self._n_rows, self._n_columns))

    @property
    def _solved(self) -> ConicSolution:
        assert self._solution is not None, "solve first"
        return self._solution

    def __getitem__(self, name: str) -> Array:
        return self._solved.x[self._columns[name]]

    def multipliers(self, rows: slice) -> Array:
        """Multipliers of the rows that `add_rows` returned."""
        return self._solved.z[rows]

    @property
    def error(self) -> float:
        """The largest of the solver's relative residuals and gap."""
        return self._solved.error

    @property
    def value(self) -> float:
        """The linear part of the objective."""
        return float(self._cost @ self._solved.x)


def _entries(matrix: Any) -> tuple[IntArray, IntArray, Array]:
    """Rows, columns and values of a matrix's nonzero entries, dense or sparse."""
    if sparse.issparse(matrix):
        part = matrix.tocoo()
        part.sum_duplicates()
        return part.row.astype(np.intp), part.col.astype(np.intp), part.data
    row, column = np.nonzero(matrix)
    return row, column, matrix[row, column]


def solve_conic(
    c: Array,
    A: sparse.csc_matrix,
    b: Array,
    cones: list[tuple[str, float]],
    tol: float = 1e-9,
    P: sparse.csc_matrix | None = None,
    time_limit: float = np.inf,
    enough: float | None = None,
) -> ConicSolution:
    """Solve, falling back as far as needed; `SolverError` when nothing gives usable numbers.

    A solution whose error is at most ``enough``, by default 100 times the tolerance, is taken
    without another attempt.
    """
    enough = 100.0 * tol if enough is None else enough
    statuses: list[str] = []
    best: ConicSolution | None = None
    started = time.monotonic()
    for attempt in (_clarabel, _clarabel_regularized, _scs):
        left = time_limit - (time.monotonic() - started)
        if left <= 0:
            statuses.append("time limit")
            break
        if attempt is _scs and best is not None:
            break
        solution = attempt(c, A, b, cones, tol, P, left)
        if solution is not None and solution.usable:
            if best is None or solution.error < best.error:
                best = solution
            if best.error <= enough:
                return best
        statuses.append("not applicable" if solution is None else solution.status)
        logger.info("conic solver %s: %s", attempt.__name__, statuses[-1])
    if best is not None:
        return best
    raise SolverError(
        f"no conic solver could solve a master programme with {A.shape[0]} rows and "
        f"{A.shape[1]} columns ({'; '.join(statuses)})",
        statuses[0],
    )


def _clarabel(
    c: Array,
    A: sparse.csc_matrix,
    b: Array,
    cones: list[tuple[str, float]],
    tol: float,
    P: sparse.csc_matrix | None,
    time_limit: float,
    **changes: Any,
) -> ConicSolution:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    settings.time_limit = time_limit
    # Masters are small and dense: the plain factorisation is two to seven times as fast as the
    # threaded one, and gives the same answer whatever the number of cores.
    settings.direct_solve_method = "qdldl"
    settings.max_threads = 1
    for name, value in changes.items():
        setattr(settings, name, value)
    if P is None:
        P = _nothing(len(c))
    named = [_CLARABEL[kind](int(size) if kind != "power" else size) for kind, size in cones]
    result = clarabel.DefaultSolver(P, c, A, b, named, settings).solve()
    scale = max(1.0, min(abs(result.obj_val), abs(result.obj_val_dual)))
    gap = abs(result.obj_val - result.obj_val_dual) / scale
    x, z = np.asarray(result.x), np.asarray(result.z)
    error = float(max(gap, result.r_prim, result.r_dual))
    return ConicSolution(x, z, str(result.status), "Clarabel", error)


@lru_cache(maxsize=1000)
def _nothing(size: int) -> sparse.csc_matrix:
    """The square matrix of zeros, which solvers only read."""
    return sparse.csc_matrix((size, size))


def _clarabel_regularized(
    c: Array,
    A: sparse.csc_matrix,
    b: Array,
    cones: list[tuple[str, float]],
    tol: float,
    P: sparse.csc_matrix | None,
    time_limit: float,
) -> ConicSolution:
    return _clarabel(
        c,
        A,
        b,
        cones,
        tol,
        P,
        time_limit,
        static_regularization_constant=1e-7,
        max_step_fraction=0.95,
        iterative_refinement_max_iter=50,
        max_iter=400,
    )


def _scs(
    c: Array,
    A: sparse.csc_matrix,
    b: Array,
    cones: list[tuple[str, float]],
    tol: float,
    P: sparse.csc_matrix | None,
    time_limit: float,
) -> ConicSolution | None:
    if any(kind not in _SCS for kind, _ in cones):
        return None
    import scs

    order = [row for kind in _SCS for row in _rows_of(cones, kind)]
    cone: dict[str, Any] = {
        "z": int(sum(size for kind, size in cones if kind == "zero")),
        "l": int(sum(size for kind, size in cones if kind == "nonnegative")),
        "q": [int(size) for kind, size in cones if kind == "second_order"],
        "ep": sum(kind == "exponential" for kind, _ in cones),
    }
    data = {"A": sparse.csc_matrix(A[order]), "b": b[order], "c": c}
    if P is not None:
        data["P"] = sparse.triu(P, format="csc")
    limits = {"max_iters": 200_000, "time_limit_secs": min(time_limit, 1e6)}
    accuracy = {"eps_abs": max(tol, 1e-8), "eps_rel": max(tol, 1e-8)}
    solver = scs.SCS(data, cone, verbose=False, **accuracy, **limits)
    result = solver.solve()
    z = np.empty(len(b))
    z[order] = result["y"]
    info = result["info"]
    error = float(max(info["res_pri"], info["res_dual"], info["gap"]))
    return ConicSolution(np.asarray(result["x"]), z, str(info["status"]), "SCS", error)


def cone_numbers(cones: list[tuple[str, float]]) -> IntArray:
    """The cone of each row, counted so that rows of a product of half-lines count singly.

    Examples
    --------
    >>> cone_numbers([("nonnegative", 2), ("second_order", 3), ("exponential", 3)]).tolist()
    [0, 1, 2, 2, 2, 3, 3, 3]
    """
    lengths: list[int] = []
    for kind, size in cones:
        length = _length(kind, size)
        lengths += [1] * length if kind in ("zero", "nonnegative") else [length]
    return np.repeat(np.arange(len(lengths)), lengths)


def _length(kind: str, size: float) -> int:
    """Number of rows of a cone; the power cone's ``size`` is its exponent."""
    if kind in ("exponential", "power"):
        return 3
    return int(size) * (int(size) + 1) // 2 if kind == "psd" else int(size)


def _rows_of(cones: list[tuple[str, float]], wanted: str) -> list[int]:
    """Row numbers that belong to cones of one kind."""
    rows: list[int] = []
    start = 0
    for kind, size in cones:
        length = _length(kind, size)
        if kind == wanted:
            rows += range(start, start + length)
        start += length
    return rows
