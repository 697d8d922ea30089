r"""Distances between distributions by optimal transport: the 1-Wasserstein distance.

.. math:: W_1(P, Q) = \min_{\pi \ge 0} \textstyle\sum_{lj} \pi_{lj} |v_l - \xi_j|
          \quad \text{s.t.} \quad \sum_j \pi_{lj} = P_l, \; \sum_l \pi_{lj} = Q_j,

exactly, by POT's network simplex. The norm is that of the user's units: Euclidean, or with p = 1 or
infinity.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from roodso._typing import Array
from roodso.exceptions import SolverError
from roodso.sources import Sources

__all__ = ["ground_distances", "pairwise_wasserstein", "wasserstein"]

_METRICS = {1.0: "cityblock", 2.0: "euclidean", np.inf: "chebyshev"}
#: Pivots of the network simplex; its own default stops on a few thousand points.
_PIVOTS = 100_000_000


def ground_distances(a: Array, b: Array, norm: float = 2.0) -> Array:
    """Distance of each row of ``a`` (n, d) to each row of ``b`` (m, d): (n, m).

    Examples
    --------
    >>> import numpy as np
    >>> ground_distances(np.array([[3.0, 4.0]]), np.zeros((1, 2)), norm=1).tolist()
    [[7.0]]
    """
    return np.asarray(cdist(a, b, _METRICS[norm]))


def wasserstein(distances: Array, p: Array, q: Array) -> float:
    """W1 of two distributions, given the distances between their points.

    Parameters
    ----------
    distances : ndarray of shape (n, m)
    p, q : ndarray of shape (n,) and (m,)
        Weights; each adds up to one.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[0.0], [1.0], [3.0]])
    >>> between = ground_distances(points, points)
    >>> wasserstein(between, np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.5, 0.5]))
    2.0
    """
    from ot import emd2  # imports much that no other method needs

    rows, columns = np.flatnonzero(p), np.flatnonzero(q)
    if len(rows) == 1 or len(columns) == 1:  # the product is the only coupling
        return float(p @ distances @ q)
    cost = np.ascontiguousarray(distances[np.ix_(rows, columns)])
    value, details = emd2(p[rows] / p.sum(), q[columns] / q.sum(), cost, _PIVOTS, log=True)
    if details["warning"] is not None:
        raise SolverError("a Wasserstein distance could not be computed", str(details["warning"]))
    return float(value)


def pairwise_wasserstein(sources: Sources, norm: float = 2.0) -> Array:
    """W1 between the empirical distributions of all pairs of sources: (M, M).

    Examples
    --------
    >>> sources = Sources.from_data([[[0.0], [2.0]], [[1.0], [3.0]], [[4.0]]])
    >>> pairwise_wasserstein(sources).tolist()
    [[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]]
    """
    tables = [sources.table(i) for i in range(sources.n_sources)]
    result = np.zeros((len(tables), len(tables)))
    for i, a in enumerate(tables):
        for k, b in enumerate(tables[:i]):
            shares = np.full(len(a), 1.0 / len(a)), np.full(len(b), 1.0 / len(b))
            result[i, k] = result[k, i] = wasserstein(ground_distances(a, b, norm), *shares)
    return result
