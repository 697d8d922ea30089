r"""The map of a hull of sources, thickened: its shadow on the plane that shows most of the sources.

With :math:`\bar\mu` the mean of the sources and B the Gram matrix of the differences
:math:`\hat\mu_i - \bar\mu`, source i is drawn at its projection on the two main axes,
:math:`y_i = (\sqrt{\lambda_1} v_{1i}, \sqrt{\lambda_2} v_{2i})`. The shadow of the mixtures that
are allowed, :math:`\alpha_i \le \text{cap}`, has in direction u the corner

.. math:: \textstyle\sum_i \alpha_i y_i, \quad \alpha \text{ the cap on the sources farthest along }
          u, \text{ until the weights add up to } 1,

and the shadow of all distributions within r of one of them reaches r farther in each direction.
A projection shortens distances: what lies outside the shadow lies outside the set, but not the
other way round.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from roodso._typing import Array
from roodso.sets.nearest import products_with_sources
from roodso.sets.uncertainty import UncertaintySet, membership_slack

__all__ = ["hull_map", "outline", "place_words"]

_DIRECTIONS = 180


def outline(corners: Array, cap: float = 1.0) -> tuple[Array, Array]:
    """The corners of the capped hull of points in a plane, by direction.

    Parameters
    ----------
    corners : ndarray of shape (K, 2)
    cap : float, default=1.0
        Largest weight of one of them.

    Returns
    -------
    boundary : ndarray of shape (m, 2)
        For each direction the farthest mixture.
    directions : ndarray of shape (m, 2)
        Of length one.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> boundary, _ = outline(square, cap=0.5)
    >>> boundary.min(axis=0).tolist(), boundary.max(axis=0).tolist()
    ([0.0, 0.0], [1.0, 1.0])
    >>> np.unique(outline(square)[0], axis=0).tolist() == sorted(square.tolist())
    True
    """
    angles = np.linspace(0.0, 2.0 * np.pi, _DIRECTIONS, endpoint=False)
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    order = np.argsort(-(directions @ corners.T), axis=1, kind="stable")
    filled = cap * np.arange(len(corners) + 1)
    weights = np.diff(np.minimum(filled, 1.0))
    boundary: Array = np.einsum("k,mkj->mj", weights, corners[order])
    return boundary, directions


def hull_map(
    known: UncertaintySet,
    mixture: Array | None,
    distributions: Mapping[str, tuple[Array, Array]],
) -> tuple[pd.DataFrame, pd.DataFrame, float, Array]:
    """Places of sources and distributions, the share of distances shown, and the corners.

    Parameters
    ----------
    known : UncertaintySet
        With several anchors.
    mixture : ndarray of shape (K,) or None
        Weights of the anchors in the worst case.
    distributions : mapping of name to points and weights

    Returns
    -------
    table, others : DataFrame
        As those of `SourceMap`.
    shown : float
    corners : ndarray of shape (K, 2)
        The anchors in the plane.
    """
    n_sources = len(known.gram)
    means = known.gram.mean(axis=0)
    centered = known.gram - means - means[:, None] + means.mean()
    roots, vectors = np.linalg.eigh(0.5 * (centered + centered.T))
    axes = np.arange(len(roots))[::-1][:2]
    kept, total = np.maximum(roots[axes], 0.0), np.maximum(roots, 0.0).sum()
    flat = np.pad(vectors[:, axes] * np.sqrt(kept), ((0, 0), (0, 2 - len(axes))))
    table = pd.DataFrame(
        flat, index=pd.Index(list(known.labels), dtype=object, name="source"), columns=["x", "y"]
    )
    squared = np.array([_squared(known, known.gram[i], known.gram[i, i]) for i in range(n_sources)])
    table["distance"], table["place"] = np.sqrt(squared), place_words(squared, known)
    table["weight"] = np.nan if mixture is None else mixture @ known.mixtures
    table["rows"] = known.sources.sizes
    rows = []
    for points, weights in distributions.values():
        products, own = products_with_sources(known, points, weights)
        inner = products - products.mean() - means + means.mean()
        x, y = flat.T @ inner / np.where(_at_least_two(kept) > 1e-12, _at_least_two(kept), np.inf)
        distance = np.array([_squared(known, products, own)])
        rows.append((x, y, float(np.sqrt(distance[0])), place_words(distance, known)[0]))
    others = pd.DataFrame(
        rows, index=pd.Index(list(distributions), dtype=object), columns=list(table)[:4]
    )
    return table, others, float(kept.sum() / total) if total > 0 else 1.0, known.mixtures @ flat


def _at_least_two(kept: Array) -> Array:
    return np.pad(kept, (0, 2 - len(kept)))


def _squared(known: UncertaintySet, products: Array, own: float) -> float:
    """Squared distance to the nearest mixture, from inner products with the sources."""
    among = known.mixtures @ products
    nearest = known.nearest_mixture(among, own)
    return max(float(nearest @ known.anchor_gram @ nearest - 2 * nearest @ among + own), 0.0)


def place_words(squared: Array, known: UncertaintySet) -> list[str]:
    """Inside, boundary or outside, by squared distance to the centre or the nearest mixture."""
    slack = membership_slack(known.radius**2, known.kernel.bound)
    near = squared >= known.radius**2 - slack
    words = np.where(known.admits(squared), np.where(near, "boundary", "inside"), "outside")
    return [str(word) for word in words]
