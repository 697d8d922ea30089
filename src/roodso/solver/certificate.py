r"""Bounds recomputed from scratch: what is certified, whatever the loop believed.

**Upper.** For any decision z in X and any witness g,

.. math:: \max_{P \in \mathcal U} \mathrm{E}_P f(z, \cdot)
          \le \max_a \textstyle\sum_k a_k \langle g, \mu_k \rangle + R |g|
              + \max_l \big( f(z, v_l) - g(v_l) \big),

and the worst case at z is at least the optimum. z is projected onto X, g's kernel values are
computed anew; its inner products with the sources are its means over their samples.

**Lower.** For any distribution P in the set, :math:`\min_{z \in X} \mathrm{E}_P f(z, \cdot)` is at
most the optimum. The master's multipliers give a P_w that lies on the boundary up to the solver's
accuracy. It is pulled towards the allowed mixture of anchors that is nearest to it, P_a (a small
QP, for the multipliers of a degenerate master may name another), which lies inside:
:math:`P' = (1 - \lambda) P_w + \lambda P_a` is at distance :math:`(1 - \lambda) |\mu_w - \mu_a|`.
Below E_P' f lies an affine function of z (the multipliers' combination of cuts, which are valid for
every z), and its minimum over X, stated by a dual-feasible value, is the bound. Where that leaves a
gap, E_P' f itself is minimised over X (`roodso.solver.average`).

**Where the embeddings are known by functions** :math:`m_i` **up to errors** :math:`e_i`
(`roodso.lowrank`; otherwise m is mu and e is 0). The loop works with m. Here the sources themselves
count, for all combinations t of which

.. math:: t^\top G t \le \Big| \sum_i t_i \hat\mu_i \Big|^2
          \le t^\top G t + \Big( \sum_i |t_i| e_i \Big)^2 .

The radius of a learned ball is a distance of this kind, so it is known to lie between
``least_radius`` and ``radius``, and both bounds hold for every value there: the upper one with the
largest, while P' is to be within the smallest. A given radius is known.

The distance of :math:`P_w = \sum_p w_p \delta_p + \sum_i s_i \hat P_i` from a mixture of anchors is
that of :math:`\sum_p w_p k(v_p, \cdot) + \sum_i t_i \hat\mu_i` from 0. Its first term and the
product of both need exact means at the few points p only, which are computed; so

.. math:: |\mu_w - \mu_a|^2 \le \Big| \sum_p w_p k(v_p, \cdot) + \sum_i t_i m_i \Big|^2
          + 2 \sum_p \sum_i w_p t_i (\hat\mu_i - m_i)(v_p) + \Big( \sum_i |t_i| e_i \Big)^2 ,

the square of an error and not the error itself, which is what keeps the bounds close.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from roodso._typing import Array
from roodso.embedding import Embedding
from roodso.exceptions import SolverError
from roodso.sets.mixtures import into_capped_simplex
from roodso.solver.average import minimize_over_mixtures
from roodso.solver.rows import LoopResult, Programme
from roodso.solver.witness import RKHSFunction, best_multiple

logger = logging.getLogger(__name__)

__all__ = ["Certificate", "Pulled", "certify", "certify_upper", "pull", "pull_inside"]

#: A distribution counts as inside where |mu_P - mu_a|, rounded up, is below R by this share:
#: whoever recomputes it finds it inside as well.
_MARGIN = 1e-10


@dataclass(frozen=True)
class Certificate:
    """Two true bounds on the discretised programme, and what proves them.

    Attributes
    ----------
    z : ndarray
        The decision with internal variables, in X.
    upper, lower : float
    g : RKHSFunction
        The witness; with ``beta`` it majorises the loss at every support point.
    beta : float
    weights : ndarray of shape (L,)
        A distribution on the support points, inside the set, whose best decision costs ``lower``
        or more.
    mixture : ndarray of shape (K,)
        The anchors' mixture that the distribution is within R of.
    """

    z: Array
    upper: float
    lower: float
    g: RKHSFunction
    beta: float
    weights: Array
    mixture: Array

    @property
    def gap(self) -> float:
        """(upper - lower) / max(1, |upper|)."""
        return (self.upper - self.lower) / max(1.0, abs(self.upper))


def certify(
    programme: Programme, result: LoopResult, tol: float, time_limit: float = np.inf
) -> Certificate:
    """Recompute both bounds from the loop's decision, witness and multipliers."""
    z, upper, g, beta = certify_upper(programme, result.z, result.g)
    weights, mixture, minorant = pull_inside(programme, result, z)
    region = programme.problem.region
    lower = minorant[0] + region.minimize_linear(minorant[1])
    if upper - lower > tol * max(1.0, abs(upper)):
        least = _minimum_average(programme, weights, z, minorant, upper, tol, time_limit)
        lower = max(lower, least)
    return Certificate(z, upper, lower, g, beta, weights, mixture)


def certify_upper(
    programme: Programme, z: Array, g: RKHSFunction
) -> tuple[Array, float, RKHSFunction, float]:
    """Project z, evaluate g anew, and state the bound: z, upper, g and beta."""
    z = programme.problem.region.project(z)
    embedding = programme.embedding
    g = RKHSFunction.build(embedding, g.index, g.coefficients, g.source_coefficients)
    g = replace(g, source_products=embedding.averages(g.values))
    costs = programme.problem.values(z, programme.support)
    factor, upper = best_multiple(programme.uncertainty, g, costs, 1.0)
    g = g.times(factor)
    return z, upper, g, float((costs - g.values).max())


def pull_inside(
    programme: Programme, result: LoopResult, z: Array
) -> tuple[Array, Array, tuple[float, Array]]:
    """Pull the loop's distribution into the set; returns it, its mixture and a minorant."""
    used = np.flatnonzero(result.shares.points)
    exact_means = np.zeros((len(result.points), programme.embedding.sources.n_sources))
    exact_means[used] = programme.embedding.exact_means(result.points[used])
    pulled = pull(programme, result, exact_means)
    anchor_weights = programme.anchor_weights()
    weights = np.zeros(len(programme.support))
    weights[: len(anchor_weights)] = anchor_weights @ pulled.anchors
    weights[result.points] += pulled.points
    samples = programme.embedding.sources.samples
    anchor = anchor_weights @ pulled.mixture
    slope = programme.problem.mean_slope(z, samples, anchor)
    constant = float(anchor @ programme.problem.values(z, samples) - slope @ z)
    return weights, pulled.mixture, pulled.minorant(result, constant, slope)


@dataclass(frozen=True)
class Pulled:
    """P', a distribution in the set: shares of points and of the anchors' own distributions.

    Attributes
    ----------
    points : ndarray of shape (P,)
        Of the points of the loop's result.
    anchors : ndarray of shape (K,)
    mixture : ndarray of shape (K,)
        The mixture of anchors that it is near to.
    keep : float
        1 - lambda, the share of P_w in it.
    """

    points: Array
    anchors: Array
    mixture: Array
    keep: float

    def minorant(self, result: LoopResult, constant: float, slope: Array) -> tuple[float, Array]:
        """Keep (combination of cuts) + (1 - keep) (linearization of E_a f) is below E_P' f.

        ``constant`` and ``slope`` are those of the mixture's linearization.
        """
        return (
            self.keep * result.minorant[0] + (1.0 - self.keep) * constant,
            self.keep * result.minorant[1] + (1.0 - self.keep) * slope,
        )


def pull(programme: Programme, result: LoopResult, exact_means: Array) -> Pulled:
    """Pull the loop's distribution into the set.

    ``exact_means`` (P, M) are the sources' embeddings at the result's points that have weight.
    """
    uncertainty, shares = programme.uncertainty, result.shares
    mixture, away = _nearest_mixture(programme, result)
    distance = _distance(programme.embedding, away, exact_means)
    safe = uncertainty.least_radius * (1 - _MARGIN)
    keep = min(1.0, safe / distance) if distance > 0 else 1.0
    anchors = keep * shares.anchors + (1.0 - keep) * mixture
    return Pulled(keep * shares.points, anchors, mixture, keep)


def _distance(embedding: Embedding, away: RKHSFunction, exact_means: Array) -> float:
    """An upper bound on the norm of a difference, of the sources' own embeddings; see above."""
    used = np.flatnonzero(away.coefficients)
    missing = exact_means[used] - embedding.means[away.index[used]]
    in_sources = away.source_coefficients
    squared = away.norm**2 + 2.0 * float(away.coefficients[used] @ missing @ in_sources)
    unknown = float(np.abs(in_sources) @ embedding.errors)
    return float(np.hypot(np.sqrt(max(squared, 0.0)), unknown))


def _nearest_mixture(programme: Programme, result: LoopResult) -> tuple[Array, RKHSFunction]:
    """The allowed mixture of anchors nearest to the loop's distribution, and mu_w - mu_a."""
    uncertainty, embedding, shares = programme.uncertainty, programme.embedding, result.shares
    columns = embedding.columns(result.points)

    def difference(mixture: Array) -> RKHSFunction:
        in_sources = (shares.anchors - mixture) @ uncertainty.mixtures
        return RKHSFunction.build(embedding, result.points, shares.points, in_sources, columns)

    mixture = into_capped_simplex(shares.mixture, uncertainty.cap)
    if uncertainty.n_anchors > 1:
        whole = difference(np.zeros(uncertainty.n_anchors))
        products = uncertainty.mixtures @ whole.source_products
        try:
            mixture = uncertainty.nearest_mixture(products, whole.norm**2)
        except SolverError as error:
            logger.warning("the mixture nearest to the worst case: %s", error)
    return mixture, difference(mixture)


def _minimum_average(
    programme: Programme,
    weights: Array,
    z: Array,
    minorant: tuple[float, Array],
    upper: float,
    tol: float,
    time_limit: float,
) -> float:
    """A lower bound on min_z E_P f, by minimising it; -inf where that fails."""
    used = np.flatnonzero(weights)
    xi, shares = programme.support[used], weights[used]
    try:
        return minimize_over_mixtures(
            programme.problem,
            xi,
            shares[:, None],
            cap=1.0,
            start=z,
            tol=0.1 * tol,
            first_cut=minorant,
            enough=upper - 0.5 * tol * max(1.0, abs(upper)),
            time_limit=time_limit,
        ).lower
    except SolverError as error:
        logger.warning("the worst case's own best cost: %s", error)
        return -np.inf
