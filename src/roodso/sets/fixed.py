r"""A ball of given radius around given shares of the sources: the plain MMD ball.

.. math:: \mathcal{U} = \Big\{ P : \big| \mu_P - \textstyle\sum_i w_i \hat\mu_i \big| \le R \Big\}

with R and w the user's. With ``weights="pooled"``, w_i = n_i / N, the centre is the empirical
distribution of all samples together: the set of kernel distributionally robust optimisation as it
is usually stated (Staib and Jegelka, 2019; Zhu et al., 2021), for which one table of samples is
enough. Nothing is learned but the kernel's bandwidth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import as_vector, check_choice, check_real
from roodso.embedding import Embedding, KernelSpace
from roodso.kernels import as_kernel
from roodso.sets.ball import squared_distances_to_center
from roodso.sets.base import BallLearner
from roodso.sets.uncertainty import UncertaintySet
from roodso.sources import Sources

__all__ = ["FixedBall"]

#: Given weights may miss a sum of one by this much, and are then divided by it.
_SUM_TOLERANCE = 1e-8


class FixedBall(BallLearner):
    """A ball in the RKHS whose radius and centre are given.

    Parameters
    ----------
    radius : float, default=0.1
        R, in units of the kernel: no two distributions are further apart than ``sqrt(2 C)``.
    weights : {"pooled", "equal"} or sequence of M numbers, default="pooled"
        The sources' shares in the centre: every sample the same ("pooled"), every source the same
        ("equal"), or shares in the order of the sources' first appearance that add up to one.
    kernel : {"rbf", "laplace", "matern32", "matern52"} or Kernel, default="rbf"
    bandwidth : float, "median" or a multiple such as "3*median", default="median"
        "median": the median of all pairwise distances of samples, of a random subsample where
        there are more than 2,000.
    scale : {False, True, "robust"}, default=False
        As for `SupportMeasureBall`.
    clip : float in (0, 0.5) or pair (low, high) of levels, optional
        As for `SupportMeasureBall`.
    random_state : int, Generator or None, default=None
        Draws the subsample for the median.
    n_jobs : int or None, default=None
        Threads for the pass over kernel values; None means all cores. It changes no result.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        By source in order of first appearance.
    radius_ : float
    distances_ : ndarray of shape (M,)
        Distance of each source to the centre.
    labels_ : tuple of length M
        Names of the sources.
    uncertainty_set_ : UncertaintySet
    offset_ : float
        ``-radius_``, so that ``decision_function = score_samples - offset_``.

    Examples
    --------
    One table, and the decision that is best against whatever is within 0.1 of it:

    >>> import numpy as np
    >>> from roodso import RooDSO
    >>> from roodso.losses import Newsvendor
    >>> demand = np.random.default_rng(0).normal(2.0, 0.3, (200, 1))
    >>> loss = Newsvendor(price=50, cost=20, holding=5, backorder=10)
    >>> near = RooDSO(loss, uncertainty_set=FixedBall(0.1), random_state=0).fit([demand])
    >>> further = RooDSO(loss, uncertainty_set=FixedBall(0.2), random_state=0).fit([demand])
    >>> near.uncertainty_set_.radius, near.objective_ < further.objective_
    (0.1, True)
    """

    def __init__(
        self,
        radius: float = 0.1,
        *,
        weights: Any = "pooled",
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        scale: bool | str = False,
        clip: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.radius = radius
        self.weights = weights
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.scale = scale
        self.clip = clip
        self.random_state = random_state
        self.n_jobs = n_jobs

    def validate(self) -> None:
        """Check the parameters; `fit` calls this before any work."""
        check_real(self.radius, "radius", low=0.0)
        if isinstance(self.weights, str):
            check_choice(self.weights, "weights", ("pooled", "equal"))
        super().validate()

    def default_grid(self, n_sources: int) -> dict[str, list[Any]]:
        """Radii from 0, the sample average, to where a ball is large; in units of sqrt(C)."""
        unit = float(np.sqrt(as_kernel(self.kernel).bound))
        return {"radius": [unit * share for share in (0.0, 0.05, 0.1, 0.2, 0.3)]}

    def kernel_space(self, sources: Sources, random_state: np.random.Generator) -> KernelSpace:
        """See `BallLearner.kernel_space`; says before any work whether the weights fit."""
        self._shares(sources)
        return super().kernel_space(sources, random_state)

    def learn(self, embedding: Embedding, gram: Array | None = None) -> UncertaintySet:
        """Put the ball together; see `BallLearner.learn`. ``gram`` changes nothing about it."""
        self.validate()
        sources = embedding.sources
        weights = self._shares(sources)
        learned = UncertaintySet.ball(
            weights,
            float(self.radius) ** 2,
            0.0,
            embedding.space,
            sources,
            embedding.gram,
        )
        squared = squared_distances_to_center(embedding.gram, weights, embedding.errors)
        return self._keep_ball(learned, np.sqrt(squared))

    def _shares(self, sources: Sources) -> Array:
        if isinstance(self.weights, str):
            share = sources.sizes if self.weights == "pooled" else np.ones(sources.n_sources)
            return share / share.sum()
        size = sources.n_sources
        if np.ndim(self.weights) != 1 or len(self.weights) != size:
            raise ValueError(
                f"weights must be 'pooled', 'equal' or {size} numbers, one per source, got "
                f"{self.weights!r}"
            )
        weights = as_vector(self.weights, "weights", size)
        total = float(weights.sum())
        if weights.min() < 0.0 or abs(total - 1.0) > _SUM_TOLERANCE:
            raise ValueError(
                f"weights must be at least 0 and add up to 1, got {self.weights!r} with sum "
                f"{total:.10g}"
            )
        return weights / total
