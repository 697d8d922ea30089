r"""Where a sample is worth most when it may be moved within a box at a price.

For each sample :math:`\hat\xi` and a price lambda per unit of distance, this finds

.. math:: \arg\max_{l \le \xi \le u} \; f(\xi) - \lambda |\xi - \hat\xi|, \qquad
          f(\xi) = \max_k \; c_k + \sum_j \max_p \, (o_{kpj} + s_{kpj} \xi_j)

exactly, for the 1-, 2- and inf-norm, in time linear in the number of columns up to a sorting. Each
k is taken alone. On a piece (p, j) the sample moves in the direction in which s grows, as far as
there is room r to the box's side.

- **1-norm.** Columns are independent, and a piece goes all the way if |s| > lambda, or stays.
- **inf-norm.** Let tau be the distance. A column may go as far as all others do, so the sum over
  columns of :math:`\max_p o + s \hat\xi_j + |s| \min(\tau, r)`, less lambda tau, is to be maximised
  over the one number tau. It is convex between the rooms r, so its maximum is at 0 or at one of
  them.
- **2-norm.** As :math:`\lambda |\delta| = \min_{\tau > 0} (|\delta|^2 / \tau + \lambda^2 \tau)/2`,
  columns become independent for given tau: a piece moves by :math:`\min(|s| \tau, r)` and gains
  :math:`s^2 \tau / 2` as long as that is below r, then :math:`|s| r - r^2 / (2 \tau)`. Their sum,
  less :math:`\lambda^2 \tau / 2`, is to be maximised over tau. With one piece a column it is
  concave, and its slope is piecewise linear and concave in :math:`\tau^{-2}`: Newton's method ends
  after few steps. With more, each piece is :math:`\alpha \tau + \beta - \gamma / \tau` with one
  change of coefficients, where it reaches the side. Between the points where a piece changes or
  another becomes a column's best, the sum has that form too, and its maximum is known: all
  intervals are tried.

A sample stays where even the chords of f's columns to the sides of the box, whose dual norm bounds
what a unit of distance can gain, are worth less than the price.
"""

from __future__ import annotations

import numpy as np

from roodso._typing import Array, IntArray
from roodso.losses.base import ColumnPieces

__all__ = ["best_points", "distances"]

#: Samples handled at once: their intermediate arrays stay in cache.
_CHUNK = 2048
_DUAL = {1: np.inf, 2: 2, np.inf: 1}


def distances(a: Array, b: Array, norm: float) -> Array:
    """Distance of each row of ``a`` from that of ``b``."""
    return np.asarray(np.linalg.norm(a - b, ord=norm, axis=1))


def best_points(
    pieces: ColumnPieces, xi: Array, lower: Array, upper: Array, price: float, norm: float
) -> Array:
    """Where each sample is worth most.

    Parameters
    ----------
    pieces : ColumnPieces
        The cost.
    xi : ndarray of shape (n, d)
        Samples in the box.
    lower, upper : ndarray of shape (d,)
        The box.
    price : float
        lambda >= 0.
    norm : {1, 2, inf}

    Returns
    -------
    ndarray of shape (n, d)

    Examples
    --------
    >>> import numpy as np
    >>> cost = ColumnPieces(np.zeros(1), np.zeros((1, 1, 2)), np.array([[[3.0, -1.0]]]))
    >>> low, high = np.zeros(2), np.ones(2)
    >>> best_points(cost, np.array([[0.5, 0.5]]), low, high, price=2.0, norm=1).tolist()
    [[1.0, 0.5]]
    """
    if price == 0.0:
        norm = 1  # to the best corner, whatever the way
    chunks = [xi[row : row + _CHUNK] for row in range(0, len(xi), _CHUNK)]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = [_best_of_all(pieces, chunk, lower, upper, price, norm) for chunk in chunks]
    return np.vstack(moved)


def _best_of_all(
    pieces: ColumnPieces, xi: Array, lower: Array, upper: Array, price: float, norm: float
) -> Array:
    """The best over k."""
    best, best_value = xi, np.full(len(xi), -np.inf)
    for constant, offset, slope in zip(
        pieces.constant, pieces.offset[:, :, None, :], pieces.slope[:, :, None, :], strict=True
    ):
        moved = _move(offset, slope, xi, lower, upper, price, norm)
        if len(pieces.constant) == 1:
            return moved
        worth = (offset + slope * moved).max(axis=0).sum(axis=1)
        value = constant + worth - price * distances(moved, xi, norm)
        best = np.where((value > best_value)[:, None], moved, best)
        best_value = np.maximum(value, best_value)
    return best


def _move(
    offset: Array, slope: Array, xi: Array, lower: Array, upper: Array, price: float, norm: float
) -> Array:
    """Where one sum over columns is largest; offset and slope are (P, 1, d)."""
    here = (offset + slope * xi).max(axis=0)
    chord = np.zeros_like(xi)
    for side in (lower, upper):
        rise = (offset + slope * side).max(axis=0) - here
        chord = np.fmax(chord, rise / np.abs(side - xi))  # no room gives NaN, which fmax drops
    chord = np.where(np.isfinite(chord), chord, 0.0)
    goes = np.linalg.norm(chord, ord=_DUAL[norm], axis=1) > price
    moved = xi.copy()
    if goes.any():
        moved[goes] = _go(offset, slope, xi[goes], lower, upper, price, norm)
    return moved


def _go(
    offset: Array, slope: Array, xi: Array, lower: Array, upper: Array, price: float, norm: float
) -> Array:
    """The same for samples that may gain; arrays over pieces, samples and columns (P, n, d)."""
    steep, base = np.abs(slope), offset + slope * xi
    room = np.where(slope > 0, upper - xi, xi - lower)
    room = np.where(slope == 0, 0.0, room)
    if norm == 1:
        step = np.where(steep > price, room, 0.0)
        gain = base + (steep - price) * step
    elif norm == 2:
        curves = _Curves(steep, base, room)
        tau = curves.peak(price**2 / 2)[:, None]
        step = np.minimum(steep * tau, room)
        gain = np.stack([curves.value(p, tau) for p in range(len(slope))])
    else:
        step = np.minimum(_best_distance(steep, base, room, price)[:, None], room)
        gain = base + steep * step
    chosen = np.argmax(gain, axis=0)[None]
    step = np.take_along_axis(step * np.sign(slope), chosen, axis=0)[0]
    return np.clip(xi + step, lower, upper)


def _best_distance(steep: Array, base: Array, room: Array, price: float) -> Array:
    """The tau of the inf-norm: 0 or one of the rooms, (n,)."""
    best, best_value = np.zeros(base.shape[1]), base.max(axis=0).sum(axis=1)
    for piece, column in np.ndindex(len(room), room.shape[2]):
        tau = room[piece, :, column]
        reached = base + steep * np.minimum(tau[:, None], room)
        value = reached.max(axis=0).sum(axis=1) - price * tau
        best = np.where(value > best_value, tau, best)
        best_value = np.maximum(value, best_value)
    return best


class _Curves:
    """What pieces are worth under the 2-norm as functions of tau.

    A piece is base + s^2 tau / 2 up to its turn, room / s, then base + s room - room^2 / (2 tau);
    a sample's value is the sum over columns of its best pieces.
    """

    def __init__(self, steep: Array, base: Array, room: Array) -> None:
        self.alpha = steep**2 / 2  # (P, 1, d)
        self.start = base  # this and the rest (P, n, d)
        self.end = base + steep * room
        self.gamma = room**2 / 2
        self.turn = np.nan_to_num(room / steep, nan=0.0)  # no room and no slope

    def value(self, piece: int, tau: Array) -> Array:
        """A piece's values at tau (n, 1): (n, d)."""
        before = self.alpha[piece] * tau + self.start[piece]
        later = self.end[piece] - _ratio(self.gamma[piece], tau)
        return np.where(tau < self.turn[piece], before, later)

    def peak(self, price: float) -> Array:
        """The tau >= 0 that maximises the sum less price * tau, for each sample: (n,)."""
        return self._peak_of_one(price) if len(self.alpha) == 1 else self._peak(price)

    def _peak_of_one(self, price: float) -> Array:
        """With one piece a column: the root of sum_j min(alpha_j, gamma_j u) - price, u = 1/tau^2.

        The sum is concave and increasing in u, so Newton's method comes to the root from below and
        is there once no column changes its part. Where all alphas together do not reach the price
        the sample stays.
        """
        alpha, gamma, turn = self.alpha[0], self.gamma[0], self.turn[0]
        tau = np.full(len(gamma), np.inf)
        for _ in range(gamma.shape[1] + 1):
            later = turn <= tau[:, None]
            short = price - np.where(later, 0.0, alpha).sum(axis=1)
            root = np.sqrt(np.where(later, gamma, 0.0).sum(axis=1) / short)
            root = np.where(short > 0, root, 0.0)
            if (root >= tau).all():
                break
            tau = np.minimum(root, tau)
        return tau

    def _peak(self, price: float) -> Array:
        """With more pieces a column: the best of all intervals between breaks."""
        breaks = self._breaks()
        n = len(breaks)
        parts = self._best_parts(breaks)
        # From one interval to the next one column's coefficients change, so those of the sum are
        # running totals of the changes in the order of the breaks of all columns.
        order = np.argsort(breaks.reshape(n, -1), axis=1)
        alpha, beta, gamma = (_running_total(part, order) for part in parts)
        breaks = np.take_along_axis(breaks.reshape(n, -1), order, axis=1)
        low = np.hstack([np.zeros((n, 1)), breaks])
        high = np.hstack([breaks, np.full((n, 1), np.inf)])
        falls = price - alpha
        falls[:, -1] = price  # beyond the last break alpha is 0, but for rounding
        inside = np.sqrt(np.maximum(gamma, 0.0) / np.maximum(falls, 0.0))
        tau = np.clip(np.where(falls > 0, inside, np.inf), low, high)
        value = beta - falls * tau - _ratio(gamma, tau)
        return np.take_along_axis(tau, np.argmax(value, axis=1)[:, None], axis=1)[:, 0]

    def _breaks(self) -> Array:
        """Where a column's best piece can change its coefficients: (n, d, B), sorted.

        The turns, and where two pieces meet: both before their turns, both after, or one of each.
        Meetings that are none of the curves proper are only superfluous breaks.
        """
        found = [*self.turn]
        for p in range(len(self.alpha)):
            for q in range(p):
                rise = self.alpha[p] - self.alpha[q]
                found.append((self.start[q] - self.start[p]) / rise)
                found.append((self.gamma[p] - self.gamma[q]) / (self.end[p] - self.end[q]))
                for one, other in ((p, q), (q, p)):
                    gain = self.start[one] - self.end[other]
                    found += _roots(self.alpha[one], gain, self.gamma[other])
        breaks = np.stack(found, axis=2)
        breaks[~((breaks > 0) & (breaks < np.inf))] = 0.0
        breaks.sort(axis=2)
        return breaks

    def _best_parts(self, breaks: Array) -> tuple[Array, Array, Array]:
        """Coefficients of each column's best piece between its breaks: each (n, d, B + 1)."""
        last = breaks[:, :, -1:]
        ends = np.concatenate([np.zeros_like(last), breaks, 2 * last + 1], axis=2)
        middle = 0.5 * (ends[:, :, 1:] + ends[:, :, :-1])
        best = np.full(middle.shape, -np.inf)
        alpha, beta, gamma = (np.zeros(middle.shape) for _ in range(3))
        for p in range(len(self.alpha)):
            later = middle >= self.turn[p][:, :, None]
            own = (
                np.where(later, 0.0, self.alpha[p][:, :, None]),
                np.where(later, self.end[p][:, :, None], self.start[p][:, :, None]),
                np.where(later, self.gamma[p][:, :, None], 0.0),
            )
            value = own[0] * middle + own[1] - _ratio(own[2], middle)
            better = value > best
            best = np.where(better, value, best)
            for part, new in zip((alpha, beta, gamma), own, strict=True):
                np.copyto(part, new, where=better)
        return alpha, beta, gamma


def _running_total(part: Array, order: IntArray) -> Array:
    """Sum over columns of (n, d, B + 1) in each interval between all breaks: (n, d B + 1)."""
    changes = np.take_along_axis(np.diff(part, axis=2).reshape(len(part), -1), order, axis=1)
    first = part[:, :, 0].sum(axis=1, keepdims=True)
    return np.asarray(np.cumsum(np.hstack([first, changes]), axis=1))


def _ratio(gamma: Array, tau: Array) -> Array:
    """Gamma / tau, and 0 where gamma is 0."""
    return np.where(gamma > 0, gamma / tau, 0.0)


def _roots(alpha: Array, beta: Array, gamma: Array) -> tuple[Array, Array]:
    """Roots of alpha tau + beta + gamma / tau, by the form that does not cancel: each (n, d)."""
    root = np.sqrt(beta**2 - 4 * alpha * gamma)
    half = -0.5 * (beta + np.where(beta < 0, -root, root))
    return half / alpha, gamma / half
