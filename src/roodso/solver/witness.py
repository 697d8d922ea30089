r"""Functions in the RKHS as the solver meets them, and the upper bound they prove.

A witness is :math:`g = \sum_p c_p k(v_p, \cdot) + \sum_i s_i \hat\mu_i`: few support points and the
sources' means. Its values at all support points, its inner products with the sources and its norm
are exact, from kernel values that are there already.

At a master's optimum :math:`g = (|g| / R) (\mu_w - \mu_a)` with the multipliers w and a, so the
coefficients are probabilities times one number: nothing is lost to an ill-conditioned Gram matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roodso._typing import Array, IntArray
from roodso.embedding import Embedding
from roodso.expansion import KernelExpansion
from roodso.sets.mixtures import largest_mixture
from roodso.sets.uncertainty import UncertaintySet

__all__ = ["RKHSFunction", "best_multiple", "support_function"]


@dataclass(frozen=True)
class RKHSFunction:
    """A function by its coefficients, with what the bounds need of it.

    Attributes
    ----------
    index : ndarray of shape (P,)
        Numbers of support points.
    coefficients : ndarray of shape (P,)
    source_coefficients : ndarray of shape (M,)
    values : ndarray of shape (L,)
        At all support points.
    source_products : ndarray of shape (M,)
        Inner products with the sources' embeddings.
    norm : float
        Rounded up: at least the norm, whatever the rounding in kernel values and their sum.
    rounding : float
        By how much it may exceed the norm for that.
    """

    index: IntArray
    coefficients: Array
    source_coefficients: Array
    values: Array
    source_products: Array
    norm: float
    rounding: float

    @classmethod
    def build(
        cls,
        embedding: Embedding,
        index: IntArray,
        coefficients: Array,
        source_coefficients: Array,
        columns: Array | None = None,
    ) -> RKHSFunction:
        """Evaluate the function everywhere; ``columns`` are kernel columns (L, P) if known."""
        used = np.flatnonzero(coefficients)
        if columns is None:
            columns = embedding.columns(index[used])
            values = columns @ coefficients[used]
        else:
            values = columns @ coefficients
        values += embedding.means @ source_coefficients
        gram = embedding.gram
        products = coefficients @ embedding.means[index] + gram @ source_coefficients
        squared = coefficients @ values[index] + source_coefficients @ products
        plain = float(np.sqrt(max(float(squared), 0.0)))
        mass = np.abs(coefficients).sum() + embedding.mean_mass(source_coefficients)
        norm = float(np.sqrt(plain**2 + embedding.rounding * mass**2))
        return cls(index, coefficients, source_coefficients, values, products, norm, norm - plain)

    def times(self, factor: float) -> RKHSFunction:
        """The function times a number."""
        return RKHSFunction(
            self.index,
            factor * self.coefficients,
            factor * self.source_coefficients,
            factor * self.values,
            factor * self.source_products,
            abs(factor) * self.norm,
            abs(factor) * self.rounding,
        )

    def expanded(self, embedding: Embedding) -> KernelExpansion:
        """The same function by its kernel expansion in the user's units, alone and portable."""
        points, coefficients = embedding.expansion(
            self.index, self.coefficients, self.source_coefficients
        )
        return KernelExpansion(embedding.space, points, coefficients, self.norm)


def support_function(uncertainty: UncertaintySet, g: RKHSFunction) -> float:
    """max_a sum_k a_k <g, mu_k> + R |g|: the largest E_P g over the set."""
    products = uncertainty.mixtures @ g.source_products
    return largest_mixture(products, uncertainty.cap)[0] + uncertainty.radius * g.norm


def best_multiple(
    uncertainty: UncertaintySet, h: RKHSFunction, costs: Array, start: float
) -> tuple[float, float]:
    r"""The t >= 0 for which the witness t h proves the smallest upper bound, and that bound.

    .. math:: U(t) = t \, S(h) + \max_l (f_l - t \, h_l), \qquad S(h) \text{ the support function},

    is convex and piecewise linear. It is minimised by cutting planes on the line, a handful of
    passes over the points; ``start`` is tried first, so the result is never worse.
    """
    slope_h = support_function(uncertainty, h)

    def evaluate(t: float) -> tuple[float, float]:
        excess = costs - t * h.values
        worst = int(np.argmax(excess))
        return t * slope_h + float(excess[worst]), slope_h - float(h.values[worst])

    value, slope = evaluate(start)
    best_t, best = start, value
    value0, slope0 = evaluate(0.0)
    if value0 <= best:
        best_t, best = 0.0, value0
    # Bracket: left end with negative slope, right end with positive slope. Where start is next to
    # nothing, the search begins near the quotient of the costs' range by that of h.
    left, right = (0.0, value0, slope0), (start, value, slope)
    least = 1e-3 * float(np.ptp(costs)) / (float(np.ptp(h.values)) or 1.0)
    for _ in range(60):
        if right[2] >= 0:
            break
        left = right
        t = max(2.0 * right[0], least) or 1.0
        right = (t, *evaluate(t))
        if right[1] < best:
            best_t, best = t, right[1]
    for _ in range(40):
        if left[2] >= 0 or right[2] <= 0:
            break
        t = (left[1] - right[1] + right[2] * right[0] - left[2] * left[0]) / (right[2] - left[2])
        value, slope = evaluate(t)
        if value < best:
            best_t, best = t, value
        meeting = left[1] + left[2] * (t - left[0])
        if value - meeting <= 1e-14 * (1.0 + abs(value)):
            break
        left, right = ((t, value, slope), right) if slope < 0 else (left, (t, value, slope))
    return best_t, best
