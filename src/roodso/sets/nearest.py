r"""The mixture of sources that is nearest to a distribution: what it is like, in sources known.

.. math:: \min_{a \ge 0, \; \sum_i a_i = 1} \; \Big| \mu_P - \sum_i a_i \hat\mu_i \Big|^2
          = a^\top D a, \qquad
          D_{ij} = \langle \hat\mu_i - \mu_P, \, \hat\mu_j - \mu_P \rangle .

P is given by weighted points, not by samples of equal weight as in `UncertaintySet.distance`, and
all mixtures of the sources count, not only those that the set allows.
"""

from __future__ import annotations

import numpy as np

from roodso._typing import Array
from roodso.expansion import KernelExpansion
from roodso.sets.quadratic import best_mixture
from roodso.sets.uncertainty import UncertaintySet

__all__ = ["nearest_mixture", "products_with_sources"]


def nearest_mixture(
    uncertainty_set: UncertaintySet, points: Array, weights: Array
) -> tuple[Array, float]:
    """The mixture of the set's sources nearest to a distribution, and how far that is.

    Parameters
    ----------
    uncertainty_set : UncertaintySet
        What a fitted model has as ``uncertainty_set_``.
    points : ndarray of shape (m, d)
        In the user's units.
    weights : ndarray of shape (m,)
        The distribution: non-negative, adding up to one.

    Returns
    -------
    mixture : ndarray of shape (M,)
        In the order of ``uncertainty_set.labels``.
    distance : float
        In the RKHS, as the set's radius is.

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.sets import SupportMeasureBall, nearest_mixture
    >>> shops = {"low": [[0.0], [1.0]], "high": [[8.0], [9.0]], "top": [[20.0], [21.0]]}
    >>> learned = SupportMeasureBall(bandwidth=2.0).fit(shops).uncertainty_set_
    >>> demand, shares = np.array([[0.0], [1.0], [8.0], [9.0]]), np.array([0.3, 0.3, 0.2, 0.2])
    >>> mixture, distance = nearest_mixture(learned, demand, shares)
    >>> mixture.round(4).tolist(), distance < 1e-6
    ([0.6, 0.4, 0.0], True)
    """
    products, own = products_with_sources(uncertainty_set, points, weights)
    differences = uncertainty_set.gram - products - products[:, None] + own
    mixture = best_mixture(differences, np.zeros(len(differences)))
    squared = float(mixture @ differences @ mixture)
    return mixture, float(np.sqrt(max(squared, 0.0)))


def products_with_sources(
    uncertainty_set: UncertaintySet, points: Array, weights: Array
) -> tuple[Array, float]:
    """Inner products of a distribution's embedding with the sources' (M,), and with itself."""
    used = np.flatnonzero(weights)
    sources, space = uncertainty_set.sources, uncertainty_set.space
    embedded = KernelExpansion(space, points[used], weights[used])
    if uncertainty_set.landmarks is not None:  # the samples are elsewhere
        means = uncertainty_set.landmarks.means_at(space, space.coordinates(points[used]))
        return weights[used] @ means, embedded.norm**2
    values = embedded(sources.samples)
    products: Array = np.bincount(sources.codes, values, sources.n_sources) / sources.sizes
    return products, embedded.norm**2
