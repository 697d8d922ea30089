r"""Orders in whole packs: the certified worst case decides between neighbours.

With pack sizes :math:`q_j` an order is :math:`x_j = q_j k_j`, k whole. The worst case
:math:`W(x) = \max_{P \in \mathcal U} E_P f(x, \xi)` is convex, so its best whole argument usually
lies near its minimiser x*. Looked at are

- up to `CORNERS` items: all :math:`2^d` roundings of :math:`x^*_j / q_j`, down or up; beyond (and
  where no rounding is feasible): the feasible whole order nearest to x*;
- from the best of these, one pack of one item more or less at a time (and of two items in
  exchange, where constraints allow no single step) until nothing improves.

Neither is a proof that no other whole order is better. But W(x*)'s certified lower bound holds for
whole orders too, so what is lost by whole numbers is known: at most W(order) less that bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from roodso._typing import Array
from roodso.exceptions import SolverError
from roodso.planner.constraints import Constraints
from roodso.planner.errors import ProblemError
from roodso.solver.solution import Solution

__all__ = ["CORNERS", "WholeOrder", "whole_order"]

#: Up to so many items all roundings are evaluated.
CORNERS = 8
_SWEEPS = 20


class _Evaluator(Protocol):
    def __call__(self, x: Array) -> Solution:
        """Certified worst case of an order."""


@dataclass(frozen=True)
class WholeOrder:
    """An order in whole packs and what it can cost.

    Attributes
    ----------
    order : ndarray of shape (d,)
        In units, a whole number of packs each.
    solution : Solution
        Its certified worst case.
    evaluated : int
        Number of orders compared.
    all_neighbors : bool
        Whether all roundings of the continuous order were among them.
    """

    order: Array
    solution: Solution
    evaluated: int
    all_neighbors: bool


def whole_order(
    x: Array,
    worst_case: _Evaluator,
    *,
    pack: Array,
    lower: Array,
    upper: Array,
    constraints: Constraints,
) -> WholeOrder:
    """The best whole order near ``x``.

    Parameters
    ----------
    x : ndarray of shape (d,)
        The best order in any amounts.
    worst_case : callable
        Certified worst case of an order, as ``model.worst_case_cost``.
    pack : ndarray of shape (d,)
        Units in a pack, > 0.
    lower, upper : ndarray of shape (d,)
        Bounds in units; ``upper`` may be infinite.
    constraints : Constraints

    Returns
    -------
    WholeOrder

    Raises
    ------
    ProblemError
        Where no whole order meets bounds and constraints.
    """
    low, high = np.ceil(lower / pack - 1e-9), np.floor(upper / pack + 1e-9)

    def allowed(packs: Array) -> bool:
        inside = (packs >= low).all() and (packs <= high).all()
        return bool(inside) and not constraints.violated(packs * pack)

    search = _Search(worst_case, pack, allowed)
    all_neighbors = len(x) <= CORNERS
    if all_neighbors:
        for packs in _roundings(x / pack):
            search.consider(packs)
    if search.best is None:
        search.consider(_nearest_whole(x / pack, pack, low, high, constraints))
    if search.best is None:
        raise SolverError("a whole-number order could not be made feasible to 1e-6")
    search.improve()
    packs, solution = search.best
    return WholeOrder(packs * pack, solution, len(search.seen), all_neighbors)


class _Search:
    """The best order so far; no order is evaluated twice."""

    def __init__(
        self, worst_case: _Evaluator, pack: Array, allowed: Callable[[Array], bool]
    ) -> None:
        self.worst_case = worst_case
        self.pack = pack
        self.allowed = allowed
        self.seen: set[bytes] = set()
        self.best: tuple[Array, Solution] | None = None

    def consider(self, packs: Array) -> bool:
        """Evaluate an order; whether it is the best so far."""
        packs = packs + 0.0  # no negative zeros
        if packs.tobytes() in self.seen or not self.allowed(packs):
            return False
        self.seen.add(packs.tobytes())
        solution = self.worst_case(packs * self.pack)
        if self.best is not None and solution.upper_bound >= self.best[1].upper_bound:
            return False
        self.best = (packs, solution)
        return True

    def improve(self) -> None:
        """Take the first step that improves, until none does."""
        for _ in range(_SWEEPS):
            assert self.best is not None
            if not any(self.consider(packs) for packs in self._steps(self.best[0])):
                return

    def _steps(self, packs: Array) -> Iterator[Array]:
        """One pack of one item more or less; where that is never allowed, exchanges."""
        eye = np.eye(len(packs))
        single = [packs + sign * row for row in eye for sign in (1.0, -1.0)]
        yield from single
        if not any(self.allowed(step) for step in single):
            for more, fewer in itertools.permutations(eye, 2):
                yield packs + more - fewer


def _roundings(x: Array) -> Iterator[Array]:
    """All ways to round down or up; a whole number has one."""
    near = np.round(x)
    whole = np.abs(x - near) <= 1e-9 * (1.0 + np.abs(x))
    down, up = np.where(whole, near, np.floor(x)), np.where(whole, near, np.ceil(x))
    choices = [sorted({float(a), float(b)}) for a, b in zip(down, up, strict=True)]
    for packs in itertools.product(*choices):
        yield np.array(packs)


def _nearest_whole(
    x: Array, pack: Array, low: Array, high: Array, constraints: Constraints
) -> Array:
    """The feasible whole order nearest to x in packs: min sum |k - x|, by branch and bound."""
    width = len(x)
    A, b = constraints.inequalities(width)
    zero, eye = np.zeros((len(b), width)), np.eye(width)
    # k - t <= x and -k - t <= -x with t = |k - x|.
    rows = np.vstack([np.hstack([A * pack, zero]), np.hstack([eye, -eye]), np.hstack([-eye, -eye])])
    right = np.concatenate([b, x, -x])
    result = milp(
        np.concatenate([np.zeros(width), np.ones(width)]),
        constraints=LinearConstraint(rows, -np.inf, right),
        integrality=np.concatenate([np.ones(width), np.zeros(width)]),
        bounds=Bounds(np.concatenate([low, np.zeros(width)]), np.append(high, [np.inf] * width)),
    )
    if result.x is None:
        raise ProblemError(
            "no whole-number order meets all bounds and constraints",
            cause="the constraints leave room for fractions of a pack only",
            remedy="loosen a constraint or use smaller packs",
        )
    return np.asarray(np.round(result.x[:width]))
