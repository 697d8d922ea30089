r"""Kernel herding: few samples whose mean embedding is close to that of all (eq:herding_step).

.. math:: y_t = \arg\max_{y \in D} \; \hat\mu(y) - \frac1{t-1} \sum_{l<t} k(y_l, y)

with the sum absent at t = 1. A sample may be chosen again, as the formula has it. The distance
between the embeddings of the first T choices and of the whole falls like 1/T on the whole, though
not at every step (Chen, Welling and Smola, 2010).
"""

from __future__ import annotations

import numpy as np

from roodso._typing import Array, IntArray
from roodso._validation import check_integer
from roodso.embedding import Embedding, source_means
from roodso.kernels import Kernel

__all__ = ["herd", "herd_sources"]


def herd(kernel: Kernel, samples: Array, n_steps: int, mean: Array | None = None) -> IntArray:
    """Choose ``n_steps`` of the samples by kernel herding.

    Parameters
    ----------
    kernel : Kernel
    samples : ndarray of shape (n, d)
        In the kernel's coordinates.
    n_steps : int
        T. Where it is at least n, all samples are returned, once each.
    mean : ndarray of shape (n,), optional
        Values of the samples' mean embedding at the samples, if known already.

    Returns
    -------
    ndarray of shape (min(n_steps, n),)
        Row numbers in the order chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.kernels import RBF
    >>> herd(RBF(1.0), np.array([[0.0], [0.1], [5.0], [0.05]]), 2).tolist()
    [3, 2]
    """
    check_integer(n_steps, "n_steps", low=1)
    if n_steps >= len(samples):
        return np.arange(len(samples))
    if mean is None:
        mean = source_means(kernel, samples, np.zeros(len(samples), dtype=np.intp), 1)[:, 0]
    chosen = np.empty(n_steps, dtype=np.intp)
    repulsion = np.zeros(len(samples))
    for t in range(n_steps):
        chosen[t] = np.argmax(mean - repulsion / max(t, 1))
        repulsion += kernel(samples, samples[chosen[t]][None])[:, 0]
    return chosen


def herd_sources(embedding: Embedding, n_steps: int) -> list[IntArray]:
    """Herd every source by itself; row numbers count in the stacked samples."""
    sources = embedding.sources
    result = []
    for i in range(sources.n_sources):
        rows = np.flatnonzero(sources.codes == i)
        mean = embedding.means[rows, i]
        result.append(rows[herd(embedding.space.kernel, embedding.points[rows], n_steps, mean)])
    return result
