r"""Branch and bound: how far a cost convex in xi can rise above the witness, over a whole box.

A cell has centre a and half sides r. With the witness's minorant on it (`roodso.solver.minorant`),
h = f - g - beta is at most

.. math:: f(a + \delta) - g(a) - s^\top \delta - \tfrac12 \mu |\delta|^2 + E - \beta .

f is convex, so it lies below every affine function A plus the largest e = f - A at the 2^d
vertices. With A fitted to them (e = 0 where f is affine) and t the slope of A less s, coordinates
separate:

.. math:: h \le A(a) + e - g(a) - \beta + E
             + \sum_j \max_{|\delta_j| \le r_j} \big( t_j \delta_j - \tfrac12 \mu \delta_j^2 \big).

That is sharp where f is affine, as it mostly is where h touches 0. Elsewhere the vertices serve
themselves, since :math:`f - s^\top \delta` is convex too,

.. math:: h \le \max_v \big( f(v) - s^\top (v - a) \big) - g(a) - \beta + E + \tfrac12 \mu^- |r|^2 ,

and so does the largest f less a constant that g exceeds. The least of the three counts. Cells are
halved across their longest side, those of the largest bounds first, many at once.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np

from roodso._typing import Array, BoolArray, IntArray, Progress
from roodso.solver.excess import Excess
from roodso.solver.minorant import Minorants, WitnessMinorant

__all__ = ["ExcessBound", "bound_excess"]

_EPS = float(np.finfo(np.float64).eps)
#: Cells halved at once.
_BATCH = 1024
#: Cells whose sides have shrunk to this share of the coordinates' extent are not halved again.
_SMALLEST = 1e-9


@dataclass(frozen=True)
class ExcessBound:
    """What branch and bound found of h over the box.

    Attributes
    ----------
    upper : float
        h exceeds this nowhere in the box.
    lower : float
        The largest h met.
    points : ndarray of shape (m, d)
        Where h was met above ``halt``, in the last round of halving.
    cells : int
        Cells examined.
    """

    upper: float
    lower: float
    points: Array
    cells: int


def bound_excess(
    excess: Excess,
    *,
    tol: float,
    budget: int,
    halt: float = np.inf,
    deadline: float = np.inf,
    progress: Progress | None = None,
) -> ExcessBound:
    """Bound h over its box; f must be convex in xi.

    Parameters
    ----------
    excess : Excess
    tol : float
        Stop where the bound is at most this, or at most a tenth of it above the largest h met.
    budget : int
        Cells to examine.
    halt : float, optional
        Stop as soon as h exceeds this somewhere.
    deadline : float
        Stop when `time.monotonic` passes it.
    progress : callable, optional

    Returns
    -------
    ExcessBound

    Examples
    --------
    A cost xi on [0, 1] with no witness but the constant 1/4:

    >>> import numpy as np
    >>> from roodso.embedding import Coordinates, KernelSpace
    >>> from roodso.expansion import KernelExpansion
    >>> from roodso.kernels import RBF
    >>> from roodso.losses import ConvexLoss
    >>> from roodso.solver import Witness
    >>> def cost(x, xi):
    ...     return xi[:, 0]
    >>> loss = ConvexLoss(cost, lambda x, xi: np.zeros_like(xi), lower=0, upper=1)
    >>> problem = loss.bind(np.zeros(1), np.ones(1))
    >>> space = KernelSpace(RBF(1.0), Coordinates(np.zeros(1), np.ones(1)))
    >>> nothing = KernelExpansion(space, np.empty((0, 1)), np.empty(0))
    >>> excess = Excess(problem, np.zeros(1), Witness(nothing, 0.25), np.zeros(1), np.ones(1))
    >>> found = bound_excess(excess, tol=1e-6, budget=100)
    >>> round(found.upper, 6)
    0.75
    """
    examiner = _Examiner(excess)
    fresh = examiner.examine(excess.lower[None], excess.upper[None])
    undecided, decided = fresh, -np.inf
    examined, lower = 1, -np.inf
    while True:
        lower = max(lower, float(fresh.center.max()))
        done = (undecided.bound <= max(tol, lower + 0.1 * tol)) | examiner.too_small(undecided)
        decided = float(undecided.bound[done].max(initial=decided))
        undecided = undecided.take(~done)
        upper = float(undecided.bound.max(initial=decided))
        if progress is not None:
            progress("box", min(1.0, examined / budget), {"cells": examined, "bound": upper})
        stopped = examined >= budget or time.monotonic() > deadline or lower > halt
        if stopped or len(undecided.bound) == 0:
            break
        count = min(_BATCH, len(undecided.bound), (budget - examined + 1) // 2)
        order = np.argpartition(-undecided.bound, count - 1)
        fresh = examiner.halve(undecided.take(order[:count]))
        undecided = undecided.take(order[count:]).joined(fresh)
        examined += len(fresh.bound)
    met = fresh.center > halt
    return ExcessBound(upper, lower, 0.5 * (fresh.lower + fresh.upper)[met], examined)


@dataclass(frozen=True)
class _Cells:
    """Cells by their corners in the user's units, with the bound on h and h at the centre."""

    lower: Array
    upper: Array
    bound: Array
    center: Array

    def take(self, index: IntArray | BoolArray) -> _Cells:
        return _Cells(self.lower[index], self.upper[index], self.bound[index], self.center[index])

    def joined(self, other: _Cells) -> _Cells:
        return _Cells(
            np.vstack([self.lower, other.lower]),
            np.vstack([self.upper, other.upper]),
            np.concatenate([self.bound, other.bound]),
            np.concatenate([self.center, other.center]),
        )


class _Examiner:
    """Bounds h on cells."""

    def __init__(self, excess: Excess) -> None:
        self.excess = excess
        self.scale = excess.witness.g.space.coordinates.scale
        self.minorant = WitnessMinorant(excess.witness.g, excess.lower, excess.upper)
        corners = self._coordinates(np.stack([excess.lower, excess.upper]))
        self.rounding = 4 * _EPS * float(np.abs(corners).max())
        self.smallest = max(_SMALLEST * float(np.ptp(corners, axis=0).max()), 8 * self.rounding)
        signs = itertools.product((-1.0, 1.0), repeat=len(self.scale))
        self.signs = np.array(list(signs))  # of the vertices: (2^d, d)

    def _coordinates(self, points: Array) -> Array:
        return self.excess.witness.g.space.coordinates(points)

    def halve(self, cells: _Cells) -> _Cells:
        """Both halves of each cell; what bounds the cell bounds them too."""
        rows = np.arange(len(cells.bound))
        sides = (cells.upper - cells.lower) / self.scale
        longest = sides.argmax(axis=1)
        middle = 0.5 * (cells.lower + cells.upper)[rows, longest]
        left_upper, right_lower = cells.upper.copy(), cells.lower.copy()
        left_upper[rows, longest] = right_lower[rows, longest] = middle
        halves = self.examine(
            np.vstack([cells.lower, right_lower]), np.vstack([left_upper, cells.upper])
        )
        bound = np.minimum(halves.bound, np.tile(cells.bound, 2))
        return _Cells(halves.lower, halves.upper, bound, halves.center)

    def too_small(self, cells: _Cells) -> BoolArray:
        """Cells that halving would improve by rounding errors only."""
        sides = (cells.upper - cells.lower) / self.scale
        small: BoolArray = sides.max(axis=1) <= self.smallest
        return small

    def examine(self, lower: Array, upper: Array) -> _Cells:
        """Bound h on the cells between these corners."""
        m, d = lower.shape
        center = np.clip(0.5 * (lower + upper), lower, upper)
        at = self._coordinates(center)
        half = np.maximum(upper - center, center - lower) / self.scale + self.rounding
        below = self.minorant(at, half)
        vertices = np.where(self.signs[:, None, :] > 0, upper, lower)
        problem, z, beta = self.excess.problem, self.excess.z, self.excess.witness.beta
        costs = problem.values(z, np.vstack([center, vertices.reshape(-1, d)]))
        at_vertices = costs[m:].reshape(-1, m).T
        bound = _bound(at_vertices, self.signs, half, below) - beta
        bound += self._cost_rounding(at_vertices, center, upper - lower)
        return _Cells(lower, upper, bound + below.slack, costs[:m] - below.value - beta)

    def _cost_rounding(self, at_vertices: Array, center: Array, side: Array) -> Array:
        """Rounding of f, and of f's changes where the cell is small and far from the origin."""
        change = np.ptp(at_vertices, axis=1)
        widest = side.max(axis=1)
        far = np.abs(center).max(axis=1) / np.where(widest > 0, widest, 1.0)
        slack: Array = 64 * _EPS * (np.abs(at_vertices).max(axis=1) + change * far)
        return slack


def _bound(at_vertices: Array, signs: Array, half: Array, below: Minorants) -> Array:
    """The least of the three bounds on f - g; see the module's formulas."""
    mean = at_vertices.mean(axis=1)
    change = at_vertices @ signs / len(signs)  # of the affine fit across half a cell: (m, d)
    departure = (at_vertices - mean[:, None] - change @ signs.T).max(axis=1)
    slope = below.slope * half
    tilt = np.abs(change - slope)
    bend = below.curvature[:, None] * half**2
    inside = bend > tilt  # a maximum within the cell's sides
    rise = np.where(inside, tilt**2 / (2.0 * np.where(inside, bend, 1.0)), tilt - 0.5 * bend)
    affine = mean + departure - below.value + rise.sum(axis=1)
    convex = (at_vertices - slope @ signs.T).max(axis=1) - below.value
    convex += 0.5 * np.maximum(-bend, 0.0).sum(axis=1)
    constant = at_vertices.max(axis=1) - below.constant
    least: Array = np.minimum(np.minimum(affine, convex) + below.shortfall, constant)
    return least
