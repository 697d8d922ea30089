"""Mixture weights: the simplex with a cap on each weight."""

from __future__ import annotations

import numpy as np

from roodso._typing import Array

__all__ = ["into_capped_simplex", "largest_mixture"]


def largest_mixture(values: Array, cap: float) -> tuple[float, Array]:
    """Max of sum_k a_k values_k over the simplex with a_k <= cap, and the a.

    Examples
    --------
    >>> import numpy as np
    >>> value, mixture = largest_mixture(np.array([1.0, 3.0, 2.0]), cap=0.5)
    >>> value, mixture.tolist()
    (2.5, [0.0, 0.5, 0.5])
    """
    mixture = np.zeros(len(values))
    left = 1.0
    for k in np.argsort(-values, kind="stable"):
        mixture[k] = min(cap, left)
        left -= mixture[k]
        if left <= 0:
            break
    return float(mixture @ values), mixture


def into_capped_simplex(mixture: Array, cap: float) -> Array:
    """The mixture with rounding errors removed: non-negative, at most cap, adding up to one.

    Examples
    --------
    >>> import numpy as np
    >>> into_capped_simplex(np.array([0.5 + 1e-9, 0.5, -1e-12]), cap=0.5).tolist()
    [0.5, 0.5, 0.0]
    """
    clipped = np.clip(mixture, 0.0, cap)
    missing = 1.0 - clipped.sum()
    if missing < 0:
        return clipped / clipped.sum()
    room = cap - clipped
    return clipped + missing * room / room.sum() if room.sum() > 0 else clipped
