r"""Generated sources (paper, section 4.1.1).

Each source is a Gaussian that is random itself: its mean is uniform on [1, 3]^2; its covariance is
the nominal one turned by an angle uniform on [0, pi) and scaled by a factor uniform on [0.5, 2].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import check_integer, check_seed

__all__ = ["make_newsvendor_sources"]

_NOMINAL = np.array([[0.01, 0.008], [0.008, 0.01]])


def make_newsvendor_sources(
    n_sources: int = 20, n_samples: Any = (200, 500), *, random_state: Any = None
) -> list[Array]:
    """Draw sources of two-item demand as the paper does.

    Parameters
    ----------
    n_sources : int, default=20
        M.
    n_samples : int or (low, high), default=(200, 500)
        n_i, or the range (both ends included) that each n_i is drawn from.
    random_state : int, Generator or None

    Returns
    -------
    list of ndarray of shape (n_i, 2)

    Examples
    --------
    >>> sources = make_newsvendor_sources(3, (30, 100), random_state=0)
    >>> [len(source) >= 30 for source in sources]
    [True, True, True]
    """
    check_integer(n_sources, "n_sources", low=1)
    low, high = _range(n_samples)
    check_seed(random_state)
    rng = np.random.default_rng(random_state)
    sources = []
    for _ in range(n_sources):
        mean = rng.uniform(1.0, 3.0, size=2)
        angle, factor = rng.uniform(0.0, np.pi), rng.uniform(0.5, 2.0)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        covariance = factor * turn @ _NOMINAL @ turn.T
        size = int(rng.integers(low, high, endpoint=True))
        sources.append(rng.multivariate_normal(mean, covariance, size=size))
    return sources


def _range(n_samples: Any) -> tuple[int, int]:
    """The smallest and the largest n_i."""
    if not isinstance(n_samples, Sequence | np.ndarray) or isinstance(n_samples, str):
        size = check_integer(n_samples, "n_samples", low=1)
        return size, size
    if len(n_samples) != 2:
        raise ValueError(f"n_samples must be a number or a pair (low, high), got {n_samples!r}")
    low = check_integer(n_samples[0], "n_samples[0]", low=1)
    return low, check_integer(n_samples[1], "n_samples[1]", low=low)
