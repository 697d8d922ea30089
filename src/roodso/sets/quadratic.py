r"""Concave quadratic programmes over capped mixtures, solved to the last digits.

.. math:: \max_a \; q^\top a - a^\top G a
          \quad \text{s.t.} \quad 0 \le a_k \le \text{cap}, \; \sum_k a_k = 1,

with G a Gram matrix, possibly singular. With q = diag(G) and cap = 1/(M nu) it is the ball's dual
(eq:dual_SMC_quadratic); with q = 0 and G the Gram matrix of differences to a point, its solution is
the mixture nearest to that point.

**Optimality.** The worth of entry k is the gradient, :math:`q_k - 2 (G a)_k`. A mixture is optimal
exactly when nothing can be moved to a place where it is worth more:
:math:`\max \{ w_k : a_k < \text{cap} \} \le \min \{ w_k : a_k > 0 \}`.

An interior-point solver, or among many entries an exchange of pairs, says roughly which entries are
at a bound. From there an active-set method goes on until the condition holds to rounding, so that
an entry at a bound is there exactly. It alternates Newton steps on the free entries, up to the
first bound, with the exact optimum for the pair that violates the condition most; both only ever
raise the objective. Where the solver fails, it starts from equal weights.

**Digits.** Adding up to one, the entries see only how the points of G differ, not where they lie:
G is centred, and what is left scaled to one. Sources that are nearly alike keep their digits.
"""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse

from roodso._typing import Array, BoolArray
from roodso.exceptions import SolverError

__all__ = ["best_mixture"]

#: Worth that may be left unequal, where G and q have entries up to one.
_TOLERANCE = 1e-13
#: More than this is no solution.
_ACCEPTABLE = 1e-9
#: The interior-point solver's entries within this share of a bound start there.
_SNAP = 1e-6
#: From so many entries on, exchanging pairs is faster than an interior-point method,
_MANY = 50
#: which takes over where so many exchanges for each entry have not been enough.
_STEPS = 20
_EPS = float(np.finfo(np.float64).eps)


def best_mixture(gram: Array, linear: Array, cap: float = 1.0) -> Array:
    """Maximise q'a - a'Ga over the mixtures a with no entry above ``cap``.

    Parameters
    ----------
    gram : ndarray of shape (K, K)
        G, positive semidefinite up to rounding.
    linear : ndarray of shape (K,)
        q.
    cap : float, default=1.0
        At least 1/K.

    Returns
    -------
    ndarray of shape (K,)

    Raises
    ------
    SolverError
        Where the optimality condition is missed by more than 1e-9 of the size of G and q.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([0.0, 1.0, 3.0])
    >>> gram = np.outer(points, points)
    >>> best_mixture(gram, np.diag(gram)).round(6).tolist()  # smallest ball: centre 1.5
    [0.5, 0.0, 0.5]
    """
    size = len(gram)
    equal = np.full(size, 1.0 / size)
    cap = min(cap, 1.0)
    means = gram.mean(axis=0)
    G = gram - means - means[:, None] + means.mean()
    q = linear - 2 * means
    q = q - q.mean()
    scale = max(float(np.abs(np.diag(G)).max()), float(np.abs(q).max()))
    noise = 16 * _EPS * max(float(np.abs(gram).max()), float(np.abs(linear).max()))
    if cap * size <= 1.0 + 1e-12 or scale <= noise:
        return equal
    G, q, noise = G / scale, q / scale, noise / scale
    start = _by_pairs(G, q, cap) if size > _MANY else None
    if start is None:
        start = _interior_point(G, q, cap)
    a = equal if start is None else _snapped(start, q - 2 * G @ start, cap)
    return _active_set(G, q, cap, a, noise)


def _by_pairs(G: Array, q: Array, cap: float) -> Array | None:
    """A solution to some six digits by exchanging pairs (Platt, 1998), or None if that crawls.

    Of the entries that may grow the worthiest does, at the expense of the one for which their pair
    gains most; the rest of a step is to keep all worths up to date. It begins with the weight on
    the entries that are worth most at equal weights.
    """
    size = len(q)
    order = np.argsort(2 * G.mean(axis=1) - q, kind="stable")
    a = np.zeros(size)
    a[order] = np.clip(1.0 - cap * np.arange(size), 0.0, cap)
    worth, diagonal = q - 2 * G @ a, np.diag(G)
    for _ in range(_STEPS * size):
        up = int(np.argmax(np.where(a < cap, worth, -np.inf)))
        gains = np.where(a > 0, worth[up] - worth, 0.0)
        if gains.max() <= _SNAP:
            return a
        curvature = np.maximum(2 * (diagonal[up] - 2 * G[up] + diagonal), _EPS)
        down = int(np.argmax(np.where(gains > 0, gains**2 / curvature, -1.0)))
        moved = min(cap - a[up], a[down], float(gains[down] / curvature[down]))
        a[up] = cap if moved == cap - a[up] else a[up] + moved
        a[down] -= moved
        worth -= (2 * moved) * (G[up] - G[down])
    return None


def _interior_point(G: Array, q: Array, cap: float) -> Array | None:
    """A solution to some six digits, or None."""
    size = len(q)
    eye = sparse.eye(size, format="csc")
    constraints = sparse.vstack([np.ones((1, size)), -eye, eye], format="csc")
    right = np.concatenate([[1.0], np.zeros(size), np.full(size, cap)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * size)]
    P = sparse.triu(2 * G, format="csc")
    result = clarabel.DefaultSolver(P, -q, constraints, right, cones, settings).solve()
    a = np.asarray(result.x)
    return a if np.isfinite(a).all() and abs(a.sum() - 1.0) < 1e-3 else None


def _snapped(a: Array, worth: Array, cap: float) -> Array:
    """The mixture with entries near a bound put there; what that misses goes where it is best."""
    a = np.where(a < _SNAP * cap, 0.0, np.where(a > (1 - _SNAP) * cap, cap, a))
    missing = 1.0 - a.sum()
    for k in np.argsort(-worth if missing > 0 else worth, kind="stable"):
        moved = min(missing, cap - a[k]) if missing > 0 else max(missing, -a[k])
        a[k] += moved
        missing -= moved
        if missing == 0.0:
            break
    return a


def _active_set(G: Array, q: Array, cap: float, a: Array, noise: float) -> Array:
    """Raise the objective from a feasible mixture until the optimality condition holds."""
    tol = max(_TOLERANCE, noise)
    for _ in range(1000 + 50 * len(q)):
        worth = q - 2 * G @ a
        step = _newton_step(G, worth, (a > 0) & (a < cap), tol)
        if step is not None:
            a = _moved(a, step, cap)
            continue
        up, down = _worst_pair(worth, a, cap)
        if worth[up] - worth[down] <= 4 * tol:
            break
        a = _exchanged(G, worth, a, up, down, cap)
    worth = q - 2 * G @ a
    up, down = _worst_pair(worth, a, cap)
    left = max(worth[up] - worth[down], abs(a.sum() - 1.0))
    if not left <= max(_ACCEPTABLE, 4 * noise):
        raise SolverError(
            f"a quadratic programme over mixtures was left {left:.1g} from its optimum",
            "iteration limit",
        )
    # Adding up to one leaves rounding next to a bound.
    return np.where(a < 4 * _EPS, 0.0, np.where(a > cap * (1 - 4 * _EPS), cap, a))


def _newton_step(G: Array, worth: Array, free: BoolArray, tol: float) -> Array | None:
    """The step to where all free entries are worth the same, or None if they are already.

    It leaves out directions in which the objective has no curvature to speak of (among points that
    are affinely dependent): pairs are exchanged there.
    """
    f = np.flatnonzero(free)
    if len(f) < 2:
        return None
    centering = np.eye(len(f)) - 1.0 / len(f)
    curvature, axes = np.linalg.eigh(centering @ G[np.ix_(f, f)] @ centering)
    curved = curvature > max(len(f) * _EPS, tol)
    curvature, axes = curvature[curved], axes[:, curved]
    slopes = axes.T @ worth[f]
    if np.abs(axes @ slopes).max(initial=0.0) <= tol:
        return None
    along = axes @ (slopes / (2 * curvature))
    step = np.zeros(len(worth))
    step[f] = along - along.mean()
    return step


def _moved(a: Array, step: Array, cap: float) -> Array:
    """Take a step, at most to the first bound, and lie on it exactly."""
    room = np.full(len(a), np.inf)
    up, down = step > 0, step < 0
    room[up] = (cap - a[up]) / step[up]
    room[down] = a[down] / -step[down]
    length = min(1.0, float(room.min()))
    moved = np.clip(a + length * step, 0.0, cap)
    hit = room <= length
    moved[hit & up], moved[hit & down] = cap, 0.0
    return moved


def _worst_pair(worth: Array, a: Array, cap: float) -> tuple[int, int]:
    """Where more would be worth most, and where what is there is worth least."""
    up = int(np.argmax(np.where(a < cap, worth, -np.inf)))
    down = int(np.argmin(np.where(a > 0, worth, np.inf)))
    return up, down


def _exchanged(G: Array, worth: Array, a: Array, up: int, down: int, cap: float) -> Array:
    """Move the best amount from ``down`` to ``up``."""
    curvature = 2 * (G[up, up] - 2 * G[up, down] + G[down, down])
    gain = worth[up] - worth[down]
    room_up, room_down = cap - a[up], a[down]
    moved = a.copy()
    step = min(room_up, room_down, gain / curvature if curvature > 0 else np.inf)
    moved[up] = cap if step == room_up else a[up] + step
    moved[down] = 0.0 if step == room_down else a[down] - step
    return moved
