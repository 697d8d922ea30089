r"""Whether the balls intersect, by which factor of the radii they would, and a distribution inside.

.. math:: t^* = \min_{P \text{ on } v_1, \dots, v_L} \max_i W_1(P, \hat P_i) / \epsilon_i ,

a linear programme of the same make as the worst case: its dual has no costs, and multipliers with
:math:`\sum_i \lambda_i \epsilon_i = 1`. The intersection is empty exactly where t*
exceeds 1.

A ball of radius 0 holds one distribution, its source's own; all else is then settled by distances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import numpy as np
from scipy.optimize import linprog

from roodso._typing import Array
from roodso.exceptions import SolverError
from roodso.losses.base import Problem
from roodso.losses.region import Region
from roodso.solver.intersection.balls import Balls, Inner, Pricing
from roodso.solver.intersection.loop import GenerationOptions, generate
from roodso.transport import ground_distances, pairwise_wasserstein

__all__ = ["center_of_empty_ball", "find_inner", "smallest_factor"]

#: Support points that are tried as distributions of their own.
_TRIED = 500
#: A known distribution is good enough where the radii could be smaller by this share.
_MARGIN = 1e-3
#: Radii below this share of the support's diameter are not told from 0.
_ZERO = 1e-11
#: Relative accuracy of the factor: to decide whether there is a distribution, and to state by how
#: much radii are too small.
_DECIDED, _STATED = 1e-9, 1e-4


class _NoCost(Problem):
    """Nothing to decide (one number, fixed at 0) and no cost."""

    def __init__(self) -> None:
        self.region = Region.box([0.0], [0.0])
        self.n_decisions = 1

    def values(self, z: Array, xi: Array) -> Array:
        return np.zeros(len(xi))

    def slopes(self, z: Array, xi: Array) -> Array:
        return np.zeros((len(xi), 1))


def center_of_empty_ball(balls: Balls) -> Inner | None:
    """The only candidate where a radius is 0, with its distances; None where none is."""
    i = int(balls.radii.argmin())
    if balls.radii[i] > _ZERO * balls.length:
        return None
    weights = np.zeros(len(balls.support))
    weights[balls.rows[i]] = 1.0 / len(balls.rows[i])
    return Inner(weights, balls.distances(weights))


def smallest_factor(
    balls: Balls, options: GenerationOptions, pairwise: Array | None = None
) -> tuple[float, float]:
    """Bounds (lower, upper) on the smallest factor of the radii; infinite where none helps."""
    center = center_of_empty_ball(balls)
    if center is not None:
        factor = _factor_beside_zero(balls, center)
        return factor, factor
    if pairwise is None:
        pairwise = pairwise_wasserstein(balls.sources, balls.norm)
    # Where two balls alone decide, this bound is attained, and proving it by rows would take long.
    least = _least_by_pairs(balls, pairwise)
    lower, best = _minimize(balls, _known(balls, pairwise), options, least=least)
    return lower, best.factor(balls.radii)


def find_inner(balls: Balls, options: GenerationOptions, pairwise: Array | None = None) -> Inner:
    """A distribution in all balls.

    Parameters
    ----------
    balls : Balls
    options : GenerationOptions
    pairwise : ndarray of shape (M, M), optional
        W1 between the sources, where it is known already.

    Returns
    -------
    Inner

    Raises
    ------
    ValueError
        Where there is none, with the smallest factor of the radii that would leave one.
    """
    center = center_of_empty_ball(balls)
    if center is not None:
        if (balls.outside(center.distances) > 0).any():
            factor = _factor_beside_zero(balls, center)
            _raise_empty(balls, factor, factor)
        return center
    best = _known(balls, pairwise)
    factor = best.factor(balls.radii)
    inside = (balls.outside(best.distances) == 0).all()
    if factor <= 1.0 - _MARGIN:
        return best
    if inside and factor <= _least_by_pairs(balls, pairwise) * (1.0 + 1e-9):
        return best  # nothing lies deeper
    lower, best = _minimize(balls, best, replace(options, tol=_DECIDED), enough_inside=True)
    if (balls.outside(best.distances) == 0).all():
        return best
    if lower > 1.0:
        lower, best = _minimize(balls, best, replace(options, tol=_STATED))
        _raise_empty(balls, lower, best.factor(balls.radii))
    raise SolverError(
        "no distribution was found in the intersection of the balls, and it is not shown to be "
        f"empty: the smallest factor of the radii that leaves one is between {lower:.9g} and "
        f"{best.factor(balls.radii):.9g}; allow more time or larger radii"
    )


def _raise_empty(balls: Balls, lower: float, upper: float) -> NoReturn:
    where = f"{upper:.6g}" if np.isfinite(upper) else "none: several balls have radius 0"
    if upper > lower * (1.0 + _STATED):
        where = f"between {lower:.4g} and {upper:.4g}"
    radii = np.unique(balls.radii)
    stated = f"{radii[0]:.6g}" if len(radii) == 1 else f"{radii[0]:.6g} to {radii[-1]:.6g}"
    raise ValueError(
        f"radius leaves no distribution: the balls of radius {stated} round the "
        f"{balls.sources.n_sources} sources do not intersect on the support points. The smallest "
        f"common factor by which the radii must be multiplied: {where}"
    )


def _factor_beside_zero(balls: Balls, center: Inner) -> float:
    """With a radius 0 there is one candidate; scaling must bring it into all other balls."""
    apart = center.distances > _ZERO * balls.length
    if not apart.any():
        return 0.0
    with np.errstate(divide="ignore"):
        zero = balls.radii <= _ZERO * balls.length
        ratios = np.where(zero, np.inf, center.distances / np.where(zero, 1.0, balls.radii))
    return float(ratios[apart].max())


def _least_by_pairs(balls: Balls, pairwise: Array | None) -> float:
    """A lower bound on the factor: W1(P_i, P_k) <= t (eps_i + eps_k)."""
    if pairwise is None:
        return 0.0
    return float((pairwise / np.add.outer(balls.radii, balls.radii)).max())


def _known(balls: Balls, pairwise: Array | None) -> Inner:
    """The best of what costs little: one support point, or a mixture of the sources."""
    best = _best_point(balls)
    if pairwise is not None:
        mixture = _best_mixture(balls, pairwise)
        best = min(best, mixture, key=lambda inner: inner.factor(balls.radii))
    return best


def _best_point(balls: Balls) -> Inner:
    """All mass on one support point: its distance to a source is the mean to its samples."""
    n_points = len(balls.support)
    tried = np.unique(np.linspace(0, n_points - 1, min(n_points, _TRIED)).astype(np.intp))
    means = np.column_stack(
        [
            ground_distances(balls.support[tried], balls.samples(i), balls.norm).mean(axis=1)
            for i in range(balls.sources.n_sources)
        ]
    )
    best = int((means / balls.radii).max(axis=1).argmin())
    weights = np.zeros(n_points)
    weights[tried[best]] = 1.0
    return Inner(weights, means[best])


def _best_mixture(balls: Balls, pairwise: Array) -> Inner:
    """A mixture of the sources: W1 is at most the mixture of the distances."""
    n_sources = balls.sources.n_sources
    result = linprog(
        np.append(np.zeros(n_sources), 1.0),
        A_ub=np.column_stack([pairwise, -balls.radii]),
        b_ub=np.zeros(n_sources),
        A_eq=np.append(np.ones(n_sources), 0.0)[None],
        b_eq=np.ones(1),
    )
    shares = np.maximum(result.x[:-1], 0.0)
    shares /= shares.sum()
    weights = np.zeros(len(balls.support))
    for rows, share in zip(balls.rows, shares, strict=True):
        weights[rows] = share / len(rows)
    return Inner(weights, pairwise @ shares)


def _minimize(
    balls: Balls,
    start: Inner,
    options: GenerationOptions,
    *,
    enough_inside: bool = False,
    least: float = 0.0,
) -> tuple[float, Inner]:
    """A lower bound on the factor, and the best distribution found.

    With ``enough_inside`` it ends once a distribution is at least half as deep inside as any.
    ``least`` is a lower bound that is known already.
    """
    best, factor = start, start.factor(balls.radii)
    if factor <= least * (1.0 + options.tol):
        return least, best

    def enough(weights: Array, distances: Array, upper: float) -> bool:
        nonlocal best, factor
        inner = Inner(weights, distances)
        reached, lower = inner.factor(balls.radii), max(-upper, least)
        if reached < factor:
            best, factor = inner, reached
        if not enough_inside:
            return factor <= lower * (1.0 + options.tol)
        return lower > 1.0 + 1e-6 or (factor < 1.0 and 1.0 - factor >= 0.5 * (1.0 - lower))

    result = generate(
        _NoCost(),
        Pricing(balls, options.n_jobs),
        start,
        options,
        np.zeros(1),
        factor=True,
        enough=enough,
    )
    return max(-result.upper, least), best
