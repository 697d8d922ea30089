r"""Support measure clustering: the smallest ball that holds most sources (paper, section 2.2).

The dual QP (eq:dual_SMC_quadratic), with K the sources' Gram matrix, is

.. math:: \max_\alpha \; -\alpha^\top K \alpha + \alpha^\top \mathrm{diag}(K)
          \quad \text{s.t.} \quad 0 \le \alpha_i \le \tfrac1{M\nu}, \; \sum_i \alpha_i = 1.

Its solution gives the centre :math:`\mu_c = \sum_i \alpha_i \mu_i` and squared distances
:math:`D_i = K_{ii} - 2 (K\alpha)_i + \alpha^\top K \alpha`.

**Radius.** The paper reads R^2 off any boundary support measure (eq:R_square), but there may be
none (M nu whole, ties, nu <= 1/M). Any R^2 between the largest inner and the smallest outer D is
then optimal in eq:soft_minimum_ball. One rule covers all cases: R^2 is the ceil(M nu)-th largest
D. It takes the larger set, and at least a share 1 - nu of the sources lies inside.

Where the embeddings have errors (`roodso.lowrank`), K is what is known of the Gram matrix, alpha is
exact for it, and each D lies in an interval. Distances and radius are stated at its upper end, so
the promise stands; the radius at the lower ends is kept beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roodso._typing import Array, BoolArray
from roodso._validation import check_real
from roodso.embedding import Embedding
from roodso.sets.base import BallLearner
from roodso.sets.quadratic import best_mixture
from roodso.sets.uncertainty import UncertaintySet

__all__ = ["PAPER_NUS", "SupportMeasureBall", "solve_dual", "squared_distances_to_center"]

#: The grid of section 4.1.1.
PAPER_NUS = tuple(round(0.05 * step, 2) for step in range(1, 20))

#: alpha within this share of its bound min(1/(M nu), 1) of 0 or of the bound counts as there.
_ALPHA_TOLERANCE = 1e-7


class SupportMeasureBall(BallLearner):
    """The paper's uncertainty set, and a detector of anomalous groups.

    Parameters
    ----------
    nu : float in (0, 1], default=0.2
        At most this share of the sources lies outside. For ``nu <= 1/M`` none does (a hard
        minimum enclosing ball).
    kernel : {"rbf", "laplace", "matern32", "matern52"} or Kernel, default="rbf"
    bandwidth : float, "median" or a multiple such as "3*median", default="median"
        "median": the median of all pairwise distances of samples, of a random subsample where
        there are more than 2,000.
    gamma : float, default=0.0
        Added to the squared radius: the enlarged set of the paper's theorems
        (eq:SMC_ambiguity_set_gamma).
    scale : {False, True, "robust"}, default=False
        Whether the kernel sees columns divided by their standard deviations; "robust" takes those
        of Gaussians with the columns' interquartile ranges, which outliers hardly change.
    clip : float in (0, 0.5) or pair (low, high) of levels, optional
        For heavy tails: what lies beyond these quantiles of a column (of all rows together; a
        share q is short for (q, 1 - q)) counts as lying on them, also in new samples.
    random_state : int, Generator or None, default=None
        Draws the subsample for the median.
    n_jobs : int or None, default=None
        Threads for the pass over kernel values; None means all cores. It changes no result.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        alpha, by source in order of first appearance.
    radius_ : float
        With gamma; ``uncertainty_set_.radius_without_gamma`` is the plain one.
    distances_ : ndarray of shape (M,)
        Distance of each source to the centre.
    support_measures_, boundary_, exterior_ : ndarray of bool, shape (M,)
        The paper's SM, BSM and ESM.
    labels_ : tuple of length M
        Names of the sources.
    uncertainty_set_ : UncertaintySet
    offset_ : float
        ``-radius_``, so that ``decision_function = score_samples - offset_``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shops = {i: rng.normal(rng.uniform(-1, 1, 2), 1.0, (40, 2)) for i in range(19)}
    >>> shops["odd"] = rng.normal(5.0, 1.0, (40, 2))
    >>> ball = SupportMeasureBall(nu=0.2).fit(shops)
    >>> ball.labels_[ball.distances_.argmax()]
    'odd'
    >>> ball.predict([rng.normal(0.0, 1.0, (40, 2)), rng.normal(5.0, 1.0, (40, 2))]).tolist()
    [1, -1]
    """

    # What fitting sets besides: see `BallLearner`.
    support_measures_: BoolArray
    exterior_: BoolArray
    boundary_: BoolArray

    def __init__(
        self,
        nu: float = 0.2,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        gamma: float = 0.0,
        scale: bool | str = False,
        clip: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.gamma = gamma
        self.scale = scale
        self.clip = clip
        self.random_state = random_state
        self.n_jobs = n_jobs

    def validate(self) -> None:
        """Check the parameters; `fit` calls this before any work."""
        check_real(self.nu, "nu", low=0.0, high=1.0, low_open=True)
        check_real(self.gamma, "gamma", low=0.0)
        super().validate()

    def default_grid(self, n_sources: int) -> dict[str, list[Any]]:
        """The 19 values of nu that the paper searches (section 4.1.1)."""
        return {"nu": list(PAPER_NUS)}

    def learn(self, embedding: Embedding, gram: Array | None = None) -> UncertaintySet:
        """Learn the ball from an embedding; a path over nu or gamma shares one embedding.

        Parameters
        ----------
        embedding : Embedding
        gram : ndarray of shape (M, M), optional
            Overrides the embedding's Gram matrix (the paper's Algorithm 1 takes it from herded
            samples).

        Returns
        -------
        UncertaintySet
        """
        self.validate()
        gram = embedding.gram if gram is None else gram
        sources = embedding.sources
        alpha = solve_dual(gram, self.nu)
        least = squared_distances_to_center(gram, alpha)
        squared = squared_distances_to_center(gram, alpha, embedding.errors)
        learned = UncertaintySet.ball(
            alpha,
            squared_radius(squared, self.nu),
            self.gamma,
            embedding.space,
            sources,
            embedding.gram,
            least_squared_radius=squared_radius(least, self.nu),
        )
        bound = 1.0 / (sources.n_sources * self.nu)
        self.support_measures_ = alpha > _ALPHA_TOLERANCE * min(bound, 1.0)
        self.exterior_ = alpha >= (1 - _ALPHA_TOLERANCE) * bound
        self.boundary_ = self.support_measures_ & ~self.exterior_
        return self._keep_ball(learned, np.sqrt(squared))


def squared_distances_to_center(gram: Array, alpha: Array, errors: Array | None = None) -> Array:
    """D_i = K_ii - 2 (K alpha)_i + alpha' K alpha, clipped at 0 against rounding.

    With ``errors`` of the embeddings it is the largest value that D_i may have: more by the square
    of sum_j |t_j| e_j, t the coefficients of mu_i - sum_j alpha_j mu_j (`Embedding.errors`).
    """
    products = gram @ alpha
    squared: Array = np.diag(gram) - 2 * products + alpha @ products
    squared = np.maximum(squared, 0.0)
    if errors is None:
        return squared
    return squared + (errors + alpha @ errors - 2.0 * alpha * errors) ** 2


def squared_radius(squared_distances: Array, nu: float) -> float:
    """The ceil(M nu)-th largest squared distance; see the module's docstring.

    M nu is rounded to 1e-9 first: in floating point 20 * 0.15 is 3.0000000000000004 or 3 depending
    on how 0.15 was reached, and the ceiling must not tell them apart.
    """
    n_sources = len(squared_distances)
    rank = int(np.ceil(n_sources * nu - 1e-9))
    rank = min(max(rank, 1), n_sources)
    return float(np.sort(squared_distances)[n_sources - rank])


def solve_dual(gram: Array, nu: float) -> Array:
    """Solve eq:dual_SMC_quadratic to rounding; see `roodso.sets.quadratic`.

    Parameters
    ----------
    gram : ndarray of shape (M, M)
    nu : float in (0, 1]

    Returns
    -------
    ndarray of shape (M,)
        Entries that are 0 or 1/(M nu) are so exactly.

    Examples
    --------
    >>> import numpy as np
    >>> solve_dual(np.eye(3), nu=0.5).round(6).tolist()
    [0.333333, 0.333333, 0.333333]
    """
    return best_mixture(gram, np.diag(gram), 1.0 / (len(gram) * nu))
