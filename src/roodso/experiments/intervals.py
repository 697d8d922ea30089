"""Intervals for shares that were counted in clusters."""

from __future__ import annotations

import numpy as np
from scipy import stats

from roodso._typing import IntArray

__all__ = ["interval"]


def interval(counts: IntArray, trials: int, level: float = 0.95) -> tuple[float, float, float]:
    """Share of successes in clusters of equal size, with Korn and Graubard's interval.

    It is Clopper and Pearson's with the number of independent trials that have the variance
    observed between clusters; where none is observed, each cluster counts as one trial.

    Parameters
    ----------
    counts : ndarray of shape (repetitions,)
        Successes in each cluster.
    trials : int
        Size of a cluster.
    level : float, default=0.95

    Returns
    -------
    share, low, high : float

    Examples
    --------
    >>> share, low, high = interval(np.array([9, 10, 8, 9]), trials=10)
    >>> round(share, 2), round(low, 2), round(high, 2)
    (0.9, 0.7, 0.99)
    """
    clusters, total = len(counts), len(counts) * trials
    share = float(counts.sum() / total)
    effective = float(clusters)
    if clusters > 1:
        variance = np.var(counts / trials, ddof=1) / clusters
        if variance > 0:
            # Few clusters tell little of the variance: their t quantile against that of all.
            tail = (1 + level) / 2
            quantiles = stats.t.ppf(tail, [total - 1, clusters - 1])
            effective = share * (1 - share) / variance * (quantiles[0] / quantiles[1]) ** 2
            effective = min(effective, float(total))
    hits, misses = share * effective, (1 - share) * effective
    tail = (1 - level) / 2
    low = stats.beta.ppf(tail, hits, misses + 1) if hits > 0 else 0.0
    high = stats.beta.ppf(1 - tail, hits + 1, misses) if misses > 0 else 1.0
    return share, float(low), float(high)
