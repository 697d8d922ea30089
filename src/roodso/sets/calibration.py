r"""Radii calibrated on sources that did not shape the set: the rank, the lot, and the words.

**Premise.** The data sets of the M sources and of the target are exchangeable: the pairs
(P_i, n_i) are i.i.d. and each source is sampled from its P_i, the target with a size drawn like the
others. Training sources, chosen by lot, fix what is learned of kernel, bandwidth and scale; m
calibration sources are left, and each gets a score. The radius is the k-th smallest of these, with
:math:`k = \lceil (1 - \nu)(m + 1) \rceil`, at most m, so :math:`m \ge (1 - \nu) / \nu`.
What that proves depends on the scores: see `roodso.sets.conformal` for balls and
`roodso.sets.thickened` for hulls. Probabilities are over all draws together, sources, samples,
target and lot (*marginal*).

**For the target's distribution P itself**, add to each score the bound on its sampling error
(lemma:empirical_kernel_mean_embedding_consistency)

.. math:: t(n_i, \delta) = \sqrt{C / n_i} + \sqrt{2 C \log(1 / \delta) / n_i}.

With :math:`\hat\mu` the target's empirical embedding and c any point,
:math:`|\mu_P - c| \le |\hat\mu - c| + t(n, \delta)` with probability 1 - delta, whatever n, and the
right side is the target's score; so the set contains P with the probability above less delta. Where
all n_i are equal this is R + t(n, delta). It holds for a target of any size.
"""

from __future__ import annotations

import sys
import textwrap
import warnings
from abc import abstractmethod
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array, BoolArray, IntArray
from roodso._validation import check_integer, check_real
from roodso.exceptions import SampleSizeWarning
from roodso.kernels import as_kernel
from roodso.sets.base import SetLearner
from roodso.sets.quadratic import best_mixture
from roodso.sets.uncertainty import UncertaintySet
from roodso.sources import Sources

__all__ = [
    "CalibratedLearner",
    "Calibration",
    "conformal_rank",
    "expected_squared_distances",
    "sampling_error_bound",
]

#: A target smaller or larger than every source by more than this factor is not sampled alike.
_SIZE_FACTOR = 2.0


@dataclass(frozen=True)
class Calibration:
    """The radius that scores give.

    Attributes
    ----------
    scores : ndarray of shape (m,)
        With the bound on the sampling error, where asked for.
    rank : int
        k.
    radius, plain : float
        The k-th smallest score, with and without that bound.
    lost : float
        delta, or 0.
    """

    scores: Array
    rank: int
    radius: float
    plain: float
    lost: float

    def promise(self, failures: int) -> float:
        """1 - failures / (m + 1) - delta, at least 0."""
        return max(1.0 - failures / (len(self.scores) + 1) - self.lost, 0.0)


class CalibratedLearner(SetLearner):
    """Base of the learners that hold sources back to calibrate the radius.

    Attributes
    ----------
    calibration_ : ndarray of bool, shape (M,)
        The calibration sources; the others are the training part.
    scores_ : ndarray of shape (m,)
        Scores of the calibration sources, of which the radius is one.
    promise_ : float
        What is proved for these m and nu.
    """

    nu: float
    training_share: float | None
    sampling_error: float | None
    target_size: int | None

    calibration_: BoolArray
    scores_: Array
    promise_: float

    @property
    @abstractmethod
    def _method(self) -> str:
        """How the radius comes about: "split", "leave-one-out", or "given" without calibration."""

    @property
    def least_sources(self) -> int:
        """The smallest number of sources that these parameters allow."""
        return bisect_left(range(sys.maxsize), True, key=self._enough)

    def validate(self) -> None:
        """Check the parameters; `fit` calls this before any work."""
        check_real(self.nu, "nu", low=0.0, high=1.0, low_open=True, high_open=True)
        super().validate()
        if self.training_share is not None:
            check_real(self.training_share, "training_share", low=0.0, high=1.0, high_open=True)
        if self.sampling_error is not None:
            delta = self.sampling_error
            check_real(delta, "sampling_error", low=0.0, high=1.0, low_open=True, high_open=True)
        if self.target_size is not None:
            check_integer(self.target_size, "target_size", low=1)
        if isinstance(self.random_state, np.random.Generator):
            raise TypeError(
                "random_state must be None or a whole number: a Generator moves on, and the "
                f"training part has to stay the same; got {self.random_state!r}"
            )
        if self.random_state is not None:
            check_integer(self.random_state, "random_state")

    def statement(self) -> str:
        """What is proved for this fitted set, and what is not, in plain words.

        Examples
        --------
        >>> from roodso.datasets import make_newsvendor_sources
        >>> from roodso.sets import ConformalBall
        >>> shops = make_newsvendor_sources(20, (30, 50), random_state=0)
        >>> print(ConformalBall(nu=0.2).fit(shops).statement())
        Proved: the set contains the empirical distribution of a new source, drawn and sampled like
        your 20, with probability at least 0.818. The probability is over all draws together:
        sources, samples, split and target; 10 of the sources calibrate.
        Not promised: the same for a target that is not drawn like your sources, or whose number of
        samples is not (30 to 50); nor that the worst-case cost bounds the true one.
        """
        check_is_fitted(self, "uncertainty_set_")
        learned = self.uncertainty_set_
        told = self._proved(learned.sources.sizes)
        # |mu_P - c|^2 <= C + |c|^2 for any P, as kernels are not negative.
        shortest = best_mixture(learned.anchor_gram, np.zeros(learned.n_anchors), learned.cap)
        norm2 = float(shortest @ learned.anchor_gram @ shortest)
        if self.radius_**2 >= learned.kernel.bound + norm2:
            told.append("The set is so large that it contains every distribution: this is no news.")
        return "\n".join(textwrap.fill(text, 92) for text in told)

    def _proved(self, sizes: IntArray) -> list[str]:
        what, size = "distribution of a new source, drawn like", ""
        if self.sampling_error is None:
            what = "empirical distribution of a new source, drawn and sampled like"
            size = f", or whose number of samples is not ({sizes.min()} to {sizes.max()})"
        proved = (
            f"Proved: the set contains the {what} your {len(sizes)}, with probability at least "
            f"{self.promise_:.3g}. The probability is over all draws together: sources, samples, "
            f"split and target; {self.calibration_.sum()} of the sources calibrate."
        )
        not_promised = (
            f"Not promised: the same for a target that is not drawn like your sources{size}; nor "
            "that the worst-case cost bounds the true one."
        )
        return [proved, not_promised]

    def _calibrate(self, scores: Array, sizes: IntArray, bound: float) -> Calibration:
        """The radius from the calibration sources' scores and sizes; ``bound`` is C."""
        rank = conformal_rank(len(scores), self.nu)
        plain = float(np.sort(scores)[rank - 1])
        lost = 0.0
        if self.sampling_error is not None:
            lost = float(self.sampling_error)
            scores = scores + sampling_error_bound(sizes, lost, bound)
        return Calibration(scores, rank, float(np.sort(scores)[rank - 1]), plain, lost)

    def kernel_settings(self) -> dict[str, Any]:
        """See `SetLearner`; the training part, which the kernel is learned from, is among it."""
        training = {"method": self._method, "training_share": self.training_share}
        return super().kernel_settings() | training

    def _kernel_samples(self, sources: Sources) -> Array:
        training = self._training(sources)
        # Without a training part nothing is learned: the samples only give the coordinates' shift.
        rows = training[sources.codes] if training.any() else np.ones(sources.n_samples, dtype=bool)
        samples = sources.samples[rows]
        ordered: Array = samples[np.lexsort(samples.T)]  # so the median's subsample ignores order
        return ordered

    def _training(self, sources: Sources) -> BoolArray:
        """Which sources train: a function of labels and seed, whatever the order of rows."""
        n_sources = sources.n_sources
        if not self._enough(n_sources):
            raise ValueError(self._too_few(n_sources))
        labels = sources.labels
        order = sorted(range(n_sources), key=lambda i: (type(labels[i]).__name__, str(labels[i])))
        rng = np.random.default_rng(0 if self.random_state is None else self.random_state)
        training = np.zeros(n_sources, dtype=np.bool_)
        training[rng.permutation(order)[: self._n_training(n_sources)]] = True
        return training

    def _n_training(self, n_sources: int) -> int:
        least = 0 if self._fixed_kernel and self._method == "leave-one-out" else 1
        return max(least, int(np.floor(self._share * n_sources + 1e-9)))

    @property
    def _share(self) -> float:
        if self.training_share is not None:
            return float(self.training_share)
        if self._method == "split":
            return 0.5
        return 0.0 if self._fixed_kernel else 0.25

    @property
    def _fixed_kernel(self) -> bool:
        learned = None in as_kernel(self.kernel).bandwidths and isinstance(self.bandwidth, str)
        return not learned and not self.scale and self.clip is None

    def _enough(self, n_sources: int) -> bool:
        """Two sources, so that one is left to shape the set; and a score of the rank needed."""
        m = n_sources - self._n_training(n_sources)
        return n_sources >= 2 and conformal_rank(m, self.nu) <= m

    def _too_few(self, n_sources: int) -> str:
        numbers = range(sys.maxsize)
        needed = bisect_left(numbers, True, key=lambda m: conformal_rank(m, self.nu) <= m)
        m = n_sources - self._n_training(n_sources)
        allowed = f", which allow nu >= {1 / (m + 1):.3g}" if m > 0 else ""
        return (
            f"nu={self.nu:g} needs {needed} calibration source(s), so at least "
            f"{self.least_sources} sources with training_share={self._share:g}; got {n_sources} "
            f"source(s), {m} of them for calibration{allowed}"
        )

    def _warn_of_target_size(self, learned: UncertaintySet, squared: Array) -> None:
        """Say where the promise does not hold for the target's size, and roughly what is left.

        ``squared`` are the calibration sources' squared distances to the set's middle.
        """
        sizes = learned.sources.sizes
        low, high = sizes.min() / _SIZE_FACTOR, sizes.max() * _SIZE_FACTOR
        if self.sampling_error is not None or self.target_size is None:
            return
        if low <= self.target_size <= high:
            return
        own = np.diag(learned.gram)[self.calibration_]
        moved = expected_squared_distances(
            squared, own, sizes[self.calibration_], self.target_size, learned.kernel.bound
        )
        share = float((moved <= learned.radius**2).mean())
        warnings.warn(
            f"target_size={self.target_size} is far from the sources' sizes ({sizes.min()} to "
            f"{sizes.max()}): the promise is for a source sampled alike. Were the calibration "
            f"sources of that size, roughly {share:.0%} of them would lie in the set; "
            "sampling_error=delta covers the distribution itself, whatever the size",
            SampleSizeWarning,
            stacklevel=4,
        )


def expected_squared_distances(
    squared: Array, own: Array, sizes: IntArray, target_size: int, bound: float
) -> Array:
    """Expected squared distances to a fixed centre, had each source ``target_size`` samples.

    With n samples E |mu_hat - c|^2 = |mu_P - c|^2 + (C - |mu_P|^2) / n, and
    (C - |mu_hat|^2) / (n - 1) estimates the last term without bias; ``own`` are the |mu_hat|^2.
    """
    noise = (bound - own) / np.maximum(sizes - 1, 1)
    return squared + noise * (sizes / target_size - 1.0)


def conformal_rank(n_calibration: int, nu: float) -> int:
    """Which of m ordered scores is the radius: ceil((1 - nu) (m + 1)); m + 1 means infinity.

    The product is rounded to 1e-9 first, for the ceiling must not depend on how nu was reached.

    Examples
    --------
    >>> conformal_rank(9, 0.1), conformal_rank(9, 1 - 0.9), conformal_rank(8, 0.1)
    (9, 9, 9)
    """
    return max(1, int(np.ceil((1.0 - nu) * (n_calibration + 1) - 1e-9)))


def sampling_error_bound(n: float | IntArray, delta: float, bound: float = 1.0) -> Any:
    """Bound on |mu_hat - mu_P| for n samples that holds with probability 1 - delta.

    The paper's lemma:empirical_kernel_mean_embedding_consistency; ``bound`` is C.

    Examples
    --------
    >>> round(float(sampling_error_bound(100, 0.05)), 3)
    0.345
    """
    root = np.sqrt(bound / np.asarray(n, dtype=np.float64))
    return root * (1.0 + np.sqrt(2.0 * np.log(1.0 / delta)))
