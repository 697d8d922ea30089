"""What the learners of sets share: the kernel they learn in, and what a fitted set answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array, IntArray
from roodso._validation import check_jobs, check_levels, check_real, check_seed
from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.kernels import as_kernel, median_bandwidth
from roodso.sets.uncertainty import UncertaintySet
from roodso.sources import Sources, column_quantiles, is_stacked

__all__ = ["BallLearner", "SetLearner"]


class SetLearner(OutlierMixin, BaseEstimator, ABC):
    """Base of the learners of uncertainty sets: detectors of anomalous groups.

    Attributes
    ----------
    radius_ : float
    labels_ : tuple of length M
        Names of the sources.
    uncertainty_set_ : UncertaintySet
    offset_ : float
        ``-radius_``, so that ``decision_function = score_samples - offset_``.
    """

    __metadata_request__fit = {"groups": True}

    kernel: Any
    bandwidth: float | str
    scale: bool | str
    random_state: Any
    n_jobs: int | None
    clip: Any

    # All that fitting sets: what a portable file keeps.
    uncertainty_set_: UncertaintySet
    radius_: float
    offset_: float
    labels_: tuple[Hashable, ...]
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]

    def fit(self, X: Any, y: None = None, groups: Any = None) -> Self:
        """Learn the set from samples of M sources.

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
        kernel = as_kernel(self.kernel)
        if isinstance(self.scale, str) and self.scale != "robust":
            raise ValueError(f"scale must be True, False or 'robust', got {self.scale!r}")
        if not isinstance(self.scale, (bool, np.bool_, str)):
            raise TypeError(f"scale must be True, False or 'robust', got {self.scale!r}")
        check_levels(self.clip)
        if isinstance(self.bandwidth, str):
            _multiple_of_median(self.bandwidth)
        else:
            check_real(self.bandwidth, "bandwidth", low=0.0, low_open=True, instead="'median'")
            if None not in kernel.bandwidths:
                raise ValueError(
                    f"bandwidth={self.bandwidth!r} conflicts with the kernel object's own "
                    f"bandwidths {kernel.bandwidths}: give it in one place"
                )
        check_seed(self.random_state)
        check_jobs(self.n_jobs)

    def kernel_settings(self) -> dict[str, Any]:
        """What `kernel_space` depends on besides the data: learners that agree on it share one."""
        names = ("kernel", "bandwidth", "scale", "clip", "random_state")
        return {name: getattr(self, name) for name in names}

    def kernel_space(self, sources: Sources, random_state: np.random.Generator) -> KernelSpace:
        """The kernel with its bandwidth, and the coordinates it works in."""
        samples = self._kernel_samples(sources)
        levels = check_levels(self.clip)
        fences = None if levels is None else column_quantiles(samples, levels)
        coordinates = Coordinates.from_samples(samples, scale=self.scale, fences=fences)
        kernel = as_kernel(self.kernel)
        if None in kernel.bandwidths:
            if isinstance(self.bandwidth, str):
                median = median_bandwidth(coordinates(samples), random_state)
                sigma = _multiple_of_median(self.bandwidth) * median
            else:
                sigma = float(self.bandwidth)
            kernel = kernel.with_bandwidth(sigma)
        return KernelSpace(kernel, coordinates)

    def _kernel_samples(self, sources: Sources) -> Array:
        """The samples from which bandwidth, scale and fences may be learned."""
        return sources.samples

    @abstractmethod
    def learn(self, embedding: Embedding, gram: Array | None = None) -> UncertaintySet:
        """Learn the set from an embedding, or its shape from another Gram matrix."""

    def default_grid(self, n_sources: int) -> dict[str, list[Any]]:
        """Values of the set's parameters to search where the user names none; perhaps none."""
        return {}

    def _keep(self, learned: UncertaintySet) -> UncertaintySet:
        """Set the results that all learners have."""
        self.uncertainty_set_ = learned
        self.radius_ = learned.radius
        self.offset_ = -self.radius_
        self.labels_ = learned.labels
        self.n_features_in_ = learned.sources.n_columns
        if learned.sources.names is not None:
            self.feature_names_in_ = np.asarray(learned.sources.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_
        return learned

    def distance(self, samples: Any) -> float | Array:
        """Distance in the RKHS from empirical embeddings to the centre, or to the nearest mixture.

        Parameters
        ----------
        samples : (n, d) array or DataFrame, or mapping or sequence of such tables

        Returns
        -------
        float or ndarray of shape (number of tables,)
            A number for one table; for a mapping in its own order.
        """
        squared = self._squared_distances(samples, "samples")
        return float(np.sqrt(squared[0])) if _is_one_table(samples) else np.sqrt(squared)

    def score_samples(self, X: Any) -> Array:
        """Minus `distance` for each table of ``X``; higher is more ordinary."""
        return -np.sqrt(self._squared_distances(X, "X"))

    def decision_function(self, X: Any) -> Array:
        """Radius minus distance, for each table of ``X``; negative outside."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> IntArray:
        """1 for each table of ``X`` whose empirical distribution lies in the set, -1 for others."""
        squared = self._squared_distances(X, "X")
        return np.where(self.uncertainty_set_.admits(squared), 1, -1)

    def fit_predict(self, X: Any, y: None = None, groups: Any = None) -> IntArray:
        """Fit, and say of each source whether it lies in the set (1) or not (-1)."""
        self.fit(X, groups=groups)
        return np.where(self.uncertainty_set_.admits(self._source_distances() ** 2), 1, -1)

    @abstractmethod
    def _source_distances(self) -> Array:
        """Distance of each source to the centre, or to the nearest mixture."""

    def _squared_distances(self, X: Any, name: str) -> Array:
        check_is_fitted(self, "uncertainty_set_")
        distance = self.uncertainty_set_.squared_distance
        return np.array([distance(table, where) for where, table in _tables(X, name)])


class BallLearner(SetLearner):
    """Base of the learners whose set is one ball.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        alpha, by source in order of first appearance.
    distances_ : ndarray of shape (M,)
        Distance of each source to the centre.
    """

    weights_: Array
    distances_: Array

    def _source_distances(self) -> Array:
        return self.distances_

    def _keep_ball(self, learned: UncertaintySet, distances: Array) -> UncertaintySet:
        """Set the results that all balls have."""
        self.weights_, self.distances_ = learned.weights, distances
        return self._keep(learned)


def _multiple_of_median(bandwidth: str) -> float:
    """The factor of "median", which is 1, or of "3*median"."""
    factor, times, word = bandwidth.replace(" ", "").rpartition("*")
    try:
        multiple = float(factor) if times else 1.0
    except ValueError:
        multiple = np.nan
    if word != "median" or not 0.0 < multiple < np.inf:
        raise ValueError(
            "bandwidth must be a positive number, 'median', or a multiple such as '3*median', "
            f"got {bandwidth!r}"
        )
    return multiple


def _is_one_table(X: Any) -> bool:
    return is_stacked(X) and np.ndim(X) < 3


def _tables(X: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Each table of samples, with what to call it in messages."""
    if _is_one_table(X):
        yield name, X
    elif isinstance(X, Mapping):
        yield from ((f"source {label!r} of {name}", table) for label, table in X.items())
    elif isinstance(X, Sequence | np.ndarray) and not isinstance(X, str | bytes):
        yield from ((f"{name}[{i}]", table) for i, table in enumerate(X))
    else:
        raise TypeError(
            f"{name} must be a table (array or DataFrame), or a mapping or sequence of tables, "
            f"got {type(X).__name__}"
        )
