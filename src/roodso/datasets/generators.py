r"""Generated sources of two-item demand.

Each source is a distribution that is random itself, and its samples are independent draws from it.

- The paper's (section 4.1.1): a Gaussian whose mean is uniform on [1, 3]^2; its covariance is the
  nominal one turned by an angle uniform on [0, pi) and scaled by a factor uniform on [0.5, 2].
- Heavy-tailed: Student's t with the same means and shapes in place of the Gaussian; where that is
  negative, demand is 0.
- Multimodal: a mixture of such Gaussians with weights uniform on the simplex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import check_integer, check_real, check_seed

__all__ = ["make_heavy_tailed_sources", "make_multimodal_sources", "make_newsvendor_sources"]

_NOMINAL = np.array([[0.01, 0.008], [0.008, 0.01]])

#: Draws a number of samples from one distribution.
_Sampler = Callable[[int], Array]


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

    def draw(rng: np.random.Generator) -> _Sampler:
        mean, covariance = _gaussian(rng)
        return lambda size: rng.multivariate_normal(mean, covariance, size=size)

    return _sources(draw, n_sources, n_samples, random_state)


def make_heavy_tailed_sources(
    n_sources: int = 20,
    n_samples: Any = (200, 500),
    *,
    degrees: float = 2.5,
    random_state: Any = None,
) -> list[Array]:
    """Draw sources of two-item demand with spikes: the paper's, but for the tails.

    Parameters
    ----------
    n_sources : int, default=20
        M.
    n_samples : int or (low, high), default=(200, 500)
        n_i, or the range (both ends included) that each n_i is drawn from.
    degrees : float > 0, default=2.5
        Degrees of freedom of Student's t. Moments of that order and above are infinite.
    random_state : int, Generator or None

    Returns
    -------
    list of ndarray of shape (n_i, 2)

    Examples
    --------
    >>> calm = make_newsvendor_sources(20, 200, random_state=0)
    >>> wild = make_heavy_tailed_sources(20, 200, random_state=0)
    >>> bool(max(map(np.max, wild)) > max(map(np.max, calm)) + 1)
    True
    """
    check_real(degrees, "degrees", low=0.0, low_open=True)

    def draw(rng: np.random.Generator) -> _Sampler:
        mean, shape = _gaussian(rng)

        def sample(size: int) -> Array:
            shrink = np.sqrt(rng.chisquare(degrees, (size, 1)) / degrees)
            noise = rng.multivariate_normal(np.zeros(2), shape, size=size) / shrink
            return np.maximum(mean + noise, 0.0)

        return sample

    return _sources(draw, n_sources, n_samples, random_state)


def make_multimodal_sources(
    n_sources: int = 20,
    n_samples: Any = (200, 500),
    *,
    n_modes: int = 3,
    random_state: Any = None,
) -> list[Array]:
    """Draw sources of two-item demand that keep changing between a few levels.

    Parameters
    ----------
    n_sources : int, default=20
        M.
    n_samples : int or (low, high), default=(200, 500)
        n_i, or the range (both ends included) that each n_i is drawn from.
    n_modes : int, default=3
        Gaussians in each source's mixture, each drawn like a source of the paper.
    random_state : int, Generator or None

    Returns
    -------
    list of ndarray of shape (n_i, 2)

    Examples
    --------
    >>> source = make_multimodal_sources(1, 500, n_modes=2, random_state=2)[0]
    >>> np.histogram(source[:, 0], bins=5)[0].tolist()
    [38, 169, 30, 0, 263]
    """
    check_integer(n_modes, "n_modes", low=1)

    def draw(rng: np.random.Generator) -> _Sampler:
        modes = [_gaussian(rng) for _ in range(n_modes)]
        weights = rng.dirichlet(np.ones(n_modes))

        def sample(size: int) -> Array:
            choice = rng.choice(n_modes, size=size, p=weights)
            parts = [rng.multivariate_normal(*mode, size=size) for mode in modes]
            drawn: Array = np.stack(parts)[choice, np.arange(size)]
            return drawn

        return sample

    return _sources(draw, n_sources, n_samples, random_state)


def _sources(
    draw: Callable[[np.random.Generator], _Sampler],
    n_sources: int,
    n_samples: Any,
    random_state: Any,
) -> list[Array]:
    """Draw a distribution, a size and samples for each source, in this order."""
    check_integer(n_sources, "n_sources", low=1)
    low, high = _range(n_samples)
    check_seed(random_state)
    rng = np.random.default_rng(random_state)
    sources = []
    for _ in range(n_sources):
        sample = draw(rng)
        sources.append(sample(int(rng.integers(low, high, endpoint=True))))
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


def _gaussian(rng: np.random.Generator) -> tuple[Array, Array]:
    """Mean and covariance of one of the paper's distributions."""
    mean = rng.uniform(1.0, 3.0, size=2)
    angle, factor = rng.uniform(0.0, np.pi), rng.uniform(0.5, 2.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    covariance: Array = factor * turn @ _NOMINAL @ turn.T
    return mean, covariance
