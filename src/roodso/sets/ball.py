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
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import clarabel
import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, OutlierMixin

from roodso._typing import Array, BoolArray, IntArray
from roodso._validation import check_jobs, check_real
from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.exceptions import SolverError
from roodso.kernels import as_kernel, median_bandwidth
from roodso.sets.mixtures import into_capped_simplex
from roodso.sets.uncertainty import MEMBERSHIP_TOLERANCE, UncertaintySet
from roodso.sources import Sources

__all__ = ["SupportMeasureBall", "solve_dual", "squared_distances_to_center"]

#: alpha within this share of its bound 1/(M nu) of 0 or of the bound counts as there.
_ALPHA_TOLERANCE = 1e-7


class SupportMeasureBall(OutlierMixin, BaseEstimator):
    """The paper's uncertainty set, and a detector of anomalous groups.

    Parameters
    ----------
    nu : float in (0, 1], default=0.2
        At most this share of the sources lies outside. For ``nu <= 1/M`` none does (a hard
        minimum enclosing ball).
    kernel : {"rbf", "laplace", "matern32", "matern52"} or Kernel, default="rbf"
    bandwidth : float or "median", default="median"
        "median": the median of all pairwise distances of samples, of a random subsample where
        there are more than 2,000.
    gamma : float, default=0.0
        Added to the squared radius: the enlarged set of the paper's theorems
        (eq:SMC_ambiguity_set_gamma).
    scale : bool, default=False
        Whether the kernel sees columns divided by their standard deviations.
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

    __metadata_request__fit = {"groups": True}

    # All that fitting sets: what a portable file keeps.
    uncertainty_set_: UncertaintySet
    weights_: Array
    distances_: Array
    radius_: float
    offset_: float
    labels_: tuple[Hashable, ...]
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]
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
        scale: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.gamma = gamma
        self.scale = scale
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: None = None, groups: Any = None) -> SupportMeasureBall:
        """Learn the ball from samples of M sources.

        Parameters
        ----------
        X : (N, d) array or DataFrame, or mapping or sequence of (n_i, d) tables
        y : ignored
        groups : sequence of length N
            The source of each row, where ``X`` is stacked.
        """
        self.validate()
        sources = Sources.from_data(X, groups)
        space = self.kernel_space(sources, np.random.default_rng(self.random_state))
        none = np.empty((0, sources.n_columns))
        embedding = Embedding.compute(space, sources, none, n_jobs=check_jobs(self.n_jobs))
        self.learn(embedding)
        return self

    def validate(self) -> None:
        """Check the parameters; `fit` calls this before any work."""
        check_real(self.nu, "nu", low=0.0, high=1.0, low_open=True)
        check_real(self.gamma, "gamma", low=0.0)
        kernel = as_kernel(self.kernel)
        if not isinstance(self.scale, (bool, np.bool_)):
            raise TypeError(f"scale must be True or False, got {self.scale!r}")
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "median":
                raise ValueError(
                    f"bandwidth must be a positive number or 'median', got {self.bandwidth!r}"
                )
        else:
            check_real(self.bandwidth, "bandwidth", low=0.0, low_open=True)
            if None not in kernel.bandwidths:
                raise ValueError(
                    f"bandwidth={self.bandwidth!r} conflicts with the kernel object's own "
                    f"bandwidths {kernel.bandwidths}: give it in one place"
                )
        check_jobs(self.n_jobs)

    def kernel_space(self, sources: Sources, random_state: np.random.Generator) -> KernelSpace:
        """The kernel with its bandwidth, and the coordinates it works in."""
        coordinates = Coordinates.from_samples(sources.samples, standardize=bool(self.scale))
        kernel = as_kernel(self.kernel)
        if None in kernel.bandwidths:
            if self.bandwidth == "median":
                sigma = median_bandwidth(coordinates(sources.samples), random_state)
            else:
                sigma = float(self.bandwidth)
            kernel = kernel.with_bandwidth(sigma)
        return KernelSpace(kernel, coordinates)

    def learn(self, embedding: Embedding, gram: Array | None = None) -> UncertaintySet:
        """Learn the ball from an embedding; a path over nu or gamma shares one embedding.

        ``gram`` overrides the embedding's Gram matrix (the paper's Algorithm 1 takes it from
        herded samples).
        """
        gram = embedding.gram if gram is None else gram
        sources = embedding.sources
        bound = 1.0 / (sources.n_sources * self.nu)
        alpha = solve_dual(gram, self.nu)
        squared = squared_distances_to_center(gram, alpha)
        self.uncertainty_set_ = UncertaintySet.ball(
            alpha,
            squared_radius(squared, self.nu),
            self.gamma,
            embedding.space,
            sources,
            embedding.gram,
        )
        self.weights_ = alpha
        self.distances_ = np.sqrt(squared)
        self.radius_ = self.uncertainty_set_.radius
        self.offset_ = -self.radius_
        self.labels_ = sources.labels
        self.n_features_in_ = sources.n_columns
        if sources.names is not None:
            self.feature_names_in_ = np.asarray(sources.names, dtype=object)
        self.support_measures_ = alpha > _ALPHA_TOLERANCE * bound
        self.exterior_ = alpha >= (1 - _ALPHA_TOLERANCE) * bound
        self.boundary_ = self.support_measures_ & ~self.exterior_
        return self.uncertainty_set_

    def distance(self, samples: Any) -> float | Array:
        """RKHS distance to the centre: of one (n, d) table, or of each of a list of tables."""
        fitted = self._fitted()
        if _is_one_table(samples):
            return fitted.distance(samples)
        tables = list(samples.values()) if isinstance(samples, Mapping) else list(samples)
        return np.array([fitted.distance(table) for table in tables])

    def score_samples(self, X: Any) -> Array:
        """Minus the distance to the centre of each table of ``X``; higher is more ordinary."""
        return -np.atleast_1d(self.distance(X))

    def decision_function(self, X: Any) -> Array:
        """Radius minus distance, for each table of ``X``; negative outside."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> IntArray:
        """1 for each table of ``X`` whose empirical distribution lies in the set, -1 for others."""
        squared = np.atleast_1d(self.distance(X)) ** 2
        slack = MEMBERSHIP_TOLERANCE * self._fitted().kernel.bound
        return np.where(squared <= self.radius_**2 + slack, 1, -1)

    def fit_predict(self, X: Any, y: None = None, groups: Any = None) -> IntArray:
        """Fit, and say of each source whether it lies in the set (1) or not (-1)."""
        self.fit(X, groups=groups)
        slack = MEMBERSHIP_TOLERANCE * self._fitted().kernel.bound
        return np.where(self.distances_**2 <= self.radius_**2 + slack, 1, -1)

    def _fitted(self) -> UncertaintySet:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "uncertainty_set_")
        return self.uncertainty_set_


def _is_one_table(samples: Any) -> bool:
    if hasattr(samples, "iloc"):
        return True
    return isinstance(samples, np.ndarray) and samples.ndim == 2


def squared_distances_to_center(gram: Array, alpha: Array) -> Array:
    """D_i = K_ii - 2 (K alpha)_i + alpha' K alpha, clipped at 0 against rounding."""
    products = gram @ alpha
    squared: Array = np.diag(gram) - 2 * products + alpha @ products
    return np.maximum(squared, 0.0)


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
    """Solve eq:dual_SMC_quadratic to a relative KKT residual of about 1e-12.

    Clarabel finds which weights are at a bound; solving the optimality conditions of the others
    directly adds the last digits, and is kept only where it improves the objective.

    Parameters
    ----------
    gram : ndarray of shape (M, M)
    nu : float in (0, 1]

    Returns
    -------
    ndarray of shape (M,)

    Examples
    --------
    >>> import numpy as np
    >>> solve_dual(np.eye(3), nu=0.5).round(6).tolist()
    [0.333333, 0.333333, 0.333333]
    """
    n_sources = len(gram)
    bound = 1.0 / (n_sources * nu)
    if bound * n_sources <= 1.0 + 1e-12:  # nu = 1 leaves only equal weights
        return np.full(n_sources, 1.0 / n_sources)
    alpha = into_capped_simplex(_interior_point(gram, bound), bound)
    return _polish(gram, bound, alpha)


def _interior_point(gram: Array, bound: float) -> Array:
    n_sources = len(gram)
    eye = sparse.eye(n_sources, format="csc")
    constraints = sparse.vstack([np.ones((1, n_sources)), -eye, eye], format="csc")
    right = np.concatenate([[1.0], np.zeros(n_sources), np.full(n_sources, bound)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    result = clarabel.DefaultSolver(
        sparse.triu(2 * gram, format="csc"),
        -np.diag(gram),
        constraints,
        right,
        [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n_sources)],
        settings,
    ).solve()
    alpha = np.asarray(result.x)
    if not np.isfinite(alpha).all() or abs(alpha.sum() - 1.0) > 1e-6:
        raise SolverError("the ball's dual QP could not be solved", str(result.status))
    return alpha


def _polish(gram: Array, bound: float, alpha: Array) -> Array:
    """Solve for the free weights exactly, with those at a bound put there.

    Stationarity on the free set F: 2 (K alpha)_F + mu 1 = diag(K)_F, sum alpha = 1.
    """
    best, best_value = alpha, _dual_value(gram, alpha)
    rounding = 1e-15 * np.diag(gram).max()
    for tolerance in (1e-4, 1e-6, 1e-8):
        upper = alpha > (1 - tolerance) * bound
        free = (alpha > tolerance * bound) & ~upper
        candidate = np.where(upper, bound, 0.0)
        if free.any():
            sides = np.ones(free.sum())
            system = np.block([[2 * gram[np.ix_(free, free)], sides[:, None]], [sides, 0.0]])
            stationary = (np.diag(gram) - 2 * gram @ candidate)[free]
            right = np.append(stationary, 1.0 - candidate.sum())
            candidate[free] = np.linalg.lstsq(system, right, rcond=1e-13)[0][:-1]
        inside = (candidate >= 0.0).all() and (candidate <= bound * (1 + 1e-12)).all()
        value = _dual_value(gram, candidate)
        if inside and abs(candidate.sum() - 1.0) < 1e-12 and value >= best_value - rounding:
            best, best_value = candidate, value
    return best


def _dual_value(gram: Array, alpha: Array) -> float:
    return float(alpha @ np.diag(gram) - alpha @ gram @ alpha)
