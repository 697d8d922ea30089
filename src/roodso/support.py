"""Support points beyond the samples: where else the worst case may put mass (eq:set_upsilon)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import qmc

from roodso._typing import Array
from roodso._validation import as_vector, check_integer, check_levels
from roodso.sources import column_quantiles

__all__ = ["check_box", "data_box", "latin_hypercube"]


def data_box(samples: Array) -> tuple[Array, Array]:
    """Smallest and largest value of each column: the paper's box, Algorithm 1 step 3."""
    return samples.min(axis=0), samples.max(axis=0)


def check_box(support_box: Any, samples: Array) -> tuple[Array, Array]:
    """Check a pair (lower, upper).

    None means the samples' own box; a share q, the box from the quantile at q of each column to
    that at 1 - q.
    """
    if support_box is None:
        return data_box(samples)
    if isinstance(support_box, numbers.Real):
        levels = check_levels(support_box, "support_box")
        assert levels is not None
        return column_quantiles(samples, levels)
    if not isinstance(support_box, Sequence) or len(support_box) != 2:
        raise TypeError(
            "support_box must be a pair (lower, upper), a share below 0.5 or None, "
            f"got {support_box!r}"
        )
    lower = as_vector(support_box[0], "support_box[0]", samples.shape[1])
    upper = as_vector(support_box[1], "support_box[1]", samples.shape[1])
    if (lower > upper).any():
        raise ValueError(f"support_box must have lower <= upper, got {support_box!r}")
    return lower, upper


def latin_hypercube(
    lower: Array, upper: Array, n_points: int, random_state: np.random.Generator
) -> Array:
    """Draw ``n_points`` Latin hypercube points in a box, which may be flat in some columns.

    Parameters
    ----------
    lower, upper : ndarray of shape (d,)
    n_points : int
        J.
    random_state : numpy Generator

    Returns
    -------
    ndarray of shape (J, d)

    Examples
    --------
    >>> import numpy as np
    >>> points = latin_hypercube(np.zeros(2), np.array([1.0, 0.0]), 4, np.random.default_rng(0))
    >>> np.sort(np.floor(4 * points[:, 0])).tolist(), points[:, 1].tolist()
    ([0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0])
    """
    check_integer(n_points, "n_points")
    if (lower > upper).any():
        raise ValueError(f"lower must not exceed upper, got {lower} and {upper}")
    if n_points == 0:
        return np.empty((0, len(lower)))
    unit = qmc.LatinHypercube(len(lower), rng=random_state).random(n_points)
    return np.clip(lower + unit * (upper - lower), lower, upper)
