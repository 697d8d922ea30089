r"""Mixtures of sources, thickened: between the convex hull of the sources and a ball.

.. math:: \mathcal U = \Big\{ P : \big| \mu_P - \textstyle\sum_i \alpha_i \hat\mu_i \big| \le r
          \text{ for some } \alpha \ge 0, \; \sum_i \alpha_i = 1, \; \alpha_i \le \text{cap} \Big\}

This set is ours, not the paper's. The paper's ball lets the adversary move in every direction of
the RKHS alike, towards distributions unlike any source; the hull lets it move between sources only.
Here it moves between sources, and a little way off. Its support function is
:math:`\max_\alpha \sum_i \alpha_i \langle g, \hat\mu_i \rangle + r |g|`: of g's means over the
sources, the mean over the worst share 1 / (cap M), and a norm. The corners are methods of their
own: r = 0 with cap = 1 is the convex hull (group DRO), r = 0 with a tail is CVaR over sources,
tail = 1 is the ball of radius r around the plain mean of the sources and with r = 0 that mean.

**Calibrated thickness.** The premise, the rank k, the training sources T and the enlargement for
sampling errors are those of `roodso.sets.calibration`; the target's empirical embedding is
:math:`\hat\mu`, and :math:`d(\cdot, H)` the distance to a set H of mixtures.

*Split.* H is spanned by T alone, and r is the k-th smallest of :math:`d(\hat\mu_i, H)` over the m
calibration sources. Given T these and the target's are exchangeable, so

.. math:: \Pr\{ d(\hat\mu, H) \le r \} \ge \frac{k}{m + 1} \ge 1 - \nu.

*Leave-one-out.* H is spanned by all M sources; r is the k-th smallest of
:math:`r_i = d(\hat\mu_i, H_{-i})` over the calibration sources, :math:`H_{-i}` being spanned by the
others *with the same cap*. The promise is the same, :math:`k / (m + 1)`, with no factor 2 as for
balls, because hulls are nested. Proof: number the target m + 1, and let s_i be the distance of
player i, a calibration source or the target, to the hull of T and all other players with this cap.
Given T the s_i are exchangeable, so :math:`s_{m+1}` is at most the k-th smallest of
:math:`s_1, \ldots, s_m` with probability k / (m + 1) at least. For i <= m the hull in s_i has one
more source, the target, than :math:`H_{-i}` and the same cap, so it contains it (give the target
weight 0) and :math:`s_i \le r_i`; the k-th smallest of the s_i is at most r. And
:math:`s_{m+1} = d(\hat\mu, H)`.

The kernel must be fixed in advance or learned from T, and the cap a function of M alone; a tail is
one. :math:`H_{-i}` is empty where cap (M - 1) < 1, which is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array, BoolArray, IntArray
from roodso._validation import check_real
from roodso.embedding import Embedding
from roodso.kernels import as_kernel
from roodso.sets.base import SetLearner
from roodso.sets.calibration import CalibratedLearner
from roodso.sets.quadratic import best_mixture
from roodso.sets.uncertainty import UncertaintySet
from roodso.sources import Sources

__all__ = ["ThickenedHull", "squared_distances_to_hull"]

#: Ways to have the thickness calibrated.
_CALIBRATED = ("split", "leave-one-out")
#: What is searched where the user names no values; thicknesses in units of sqrt(C).
_THICKNESSES = (0.0, 0.05, 0.1, 0.2, 0.3)
_TAILS = (None, 0.5, 0.2, 1.0)


class ThickenedHull(CalibratedLearner):
    """All mixtures of the sources, and all distributions near one; not the paper's, but ours.

    Parameters
    ----------
    thickness : float or {"split", "leave-one-out"}, default=0.1
        How far from a mixture of sources a distribution may lie, in the RKHS, where no two are
        farther apart than ``sqrt(2)`` under a single kernel. 0 (and what is not told from it in
        double precision, below 1e-7) leaves the mixtures alone. By name, it is calibrated on
        sources held back, with the promise of `statement`; then ``nu`` and all below it count.
    tail : float in (0, 1], optional
        No source has more than the weight ``1 / (tail * M)``: the adversary mixes at least the
        worst share ``tail`` of the sources. By default, or where ``tail * M`` is below 1, any
        mixture is allowed.
    cap : float in (0, 1], optional
        The largest weight of a source, instead of ``tail``; at least one over the number of
        sources.
    nu : float in (0, 1), default=0.2
        Where the thickness is calibrated, a new source is promised to lie in the set with
        probability ``1 - nu``.
    kernel : {"rbf", "laplace", "matern32", "matern52"} or Kernel, default="rbf"
    bandwidth : float, "median" or a multiple such as "3*median", default="median"
    scale : {False, True, "robust"}, default=False
        As for `SupportMeasureBall`, from the training part where there is one.
    clip : float in (0, 0.5) or pair (low, high) of levels, optional
        As for `SupportMeasureBall`, with quantiles of the training part's rows where there is one.
    training_share : float in [0, 1), optional
        As for `ConformalBall`: the share of the sources that the kernel, and with "split" the hull,
        are learned from.
    sampling_error, target_size
        As for `ConformalBall`.
    random_state : int or None, default=None
        Draws the training part, and the subsample for the median.
    n_jobs : int or None, default=None
        Threads for the pass over kernel values; None means all cores. It changes no result.

    Attributes
    ----------
    radius_ : float
        The thickness.
    cap_ : float
        The largest weight of a source in a mixture.
    distances_ : ndarray of shape (M,)
        Distance of each source to the nearest mixture allowed.
    anchors_ : ndarray of bool, shape (M,)
        The sources that are mixed.
    calibration_, scores_, promise_
        As for `ConformalBall`: none, none and 0 where the thickness is given.
    labels_, uncertainty_set_, offset_
        As for `SupportMeasureBall`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shops = [rng.normal(rng.uniform(-1, 1, 2), 1.0, (40, 2)) for _ in range(20)]
    >>> hull = ThickenedHull(thickness=0.2).fit(shops)
    >>> hull.predict([rng.normal(0.0, 1.0, (40, 2)), rng.normal(5.0, 1.0, (40, 2))]).tolist()
    [1, -1]
    >>> calibrated = ThickenedHull("leave-one-out", nu=0.2).fit(shops)
    >>> round(calibrated.radius_, 3), calibrated.promise_
    (0.08, 0.8125)
    """

    # What fitting sets besides: see `CalibratedLearner`.
    cap_: float
    anchors_: BoolArray

    def __init__(
        self,
        thickness: float | str = 0.1,
        *,
        tail: float | None = None,
        cap: float | None = None,
        nu: float = 0.2,
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        scale: bool | str = False,
        clip: Any = None,
        training_share: float | None = None,
        sampling_error: float | None = None,
        target_size: int | None = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.thickness = thickness
        self.tail = tail
        self.cap = cap
        self.nu = nu
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.scale = scale
        self.clip = clip
        self.training_share = training_share
        self.sampling_error = sampling_error
        self.target_size = target_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def _method(self) -> str:
        return self.thickness if isinstance(self.thickness, str) else "given"

    def validate(self) -> None:
        """Check the parameters; `fit` calls this before any work."""
        named = " or ".join(map(repr, _CALIBRATED))
        if not isinstance(self.thickness, str):
            check_real(self.thickness, "thickness", low=0.0, instead=named)
        elif self.thickness not in _CALIBRATED:
            raise ValueError(f"thickness must be a number >= 0 or {named}, got {self.thickness!r}")
        for name, value in (("tail", self.tail), ("cap", self.cap)):
            if value is not None:
                check_real(value, name, low=0.0, high=1.0, low_open=True)
        if self.tail is not None and self.cap is not None:
            raise ValueError(
                f"tail={self.tail!r} and cap={self.cap!r} say the same thing: give one of them"
            )
        super().validate()

    def default_grid(self, n_sources: int) -> dict[str, list[Any]]:
        """Thickness, if it is not calibrated, and tail."""
        tails = {"tail": list(_TAILS)} if self.cap is None else {}
        if self._method != "given":
            return tails
        unit = float(np.sqrt(as_kernel(self.kernel).bound))
        return {"thickness": [unit * value for value in _THICKNESSES]} | tails

    def learn(self, embedding: Embedding, gram: Array | None = None) -> UncertaintySet:
        """Learn the hull from an embedding; settings that share a kernel share one embedding.

        ``gram`` has no part in it: mixtures need none, and scores are distances of the sources as
        they are.
        """
        self.validate()
        sources, gram = embedding.sources, embedding.gram
        training, anchors = self._parts(sources)
        cap = self._cap(int(anchors.sum()))
        scores, radius, least, promise = np.empty(0), 0.0, None, 0.0
        none, errors = np.zeros(sources.n_sources), embedding.errors
        if self._method == "given":
            radius = plain = float(self.thickness)
            calibration = np.zeros(sources.n_sources, dtype=np.bool_)
        else:
            calibration = ~training
            sizes, bound = sources.sizes[calibration], embedding.space.kernel.bound
            raw = self._scores(gram, anchors, np.flatnonzero(calibration), cap, none)
            found = self._calibrate(raw, sizes, bound)
            if errors.any():  # scores are stated at their upper ends, so the promise stands
                least = found.radius
                raw = self._scores(gram, anchors, np.flatnonzero(calibration), cap, errors)
                found = self._calibrate(raw, sizes, bound)
            scores, radius, plain = found.scores, found.radius, found.plain
            promise = found.promise(len(scores) + 1 - found.rank)
        learned = UncertaintySet.hull(
            np.flatnonzero(anchors),
            radius,
            plain,
            cap,
            embedding.space,
            sources,
            gram,
            least_radius=least,
        )
        self.cap_, self.anchors_ = cap, anchors
        self.calibration_, self.scores_, self.promise_ = calibration, scores, promise
        if len(scores):
            self._warn_of_target_size(learned, raw**2)
        return self._keep(learned)

    @property
    def distances_(self) -> Array:
        """Distance of each source to the nearest mixture allowed; a small QP for each."""
        check_is_fitted(self, "uncertainty_set_")
        gram, anchors = self.uncertainty_set_.gram, np.flatnonzero(self.anchors_)
        return np.sqrt(squared_distances_to_hull(gram, np.arange(len(gram)), anchors, self.cap_))

    def _source_distances(self) -> Array:
        return self.distances_

    def _proved(self, sizes: IntArray) -> list[str]:
        if self._method != "given":
            return super()._proved(sizes)
        nothing = (
            f"Nothing is proved of a new source: the thickness {self.radius_:.3g} was given. Every "
            "mixture of your sources that the cap allows is in the set. With "
            'thickness="leave-one-out" it is calibrated, with a promise.'
        )
        return [nothing]

    def _kernel_samples(self, sources: Sources) -> Array:
        if self._method == "given":
            return SetLearner._kernel_samples(self, sources)
        return super()._kernel_samples(sources)

    def _parts(self, sources: Sources) -> tuple[BoolArray, BoolArray]:
        """Which sources train, and which are mixed."""
        everyone = np.ones(sources.n_sources, dtype=np.bool_)
        if self._method == "given":
            return everyone, everyone
        training = self._training(sources)
        return training, training if self._method == "split" else everyone

    def _cap(self, n_anchors: int) -> float:
        """The largest weight of a source; refuses one that no mixture could keep to."""
        if self.cap is None:
            cap = 1.0 if self.tail is None else min(1.0, 1.0 / (float(self.tail) * n_anchors))
        else:
            cap = float(self.cap)
        left = n_anchors - 1 if self._method == "leave-one-out" else n_anchors
        if cap * left < 1.0 - 1e-12:
            given = f"cap={self.cap!r}" if self.cap is not None else f"tail={self.tail!r}"
            least = "cap must be at least" if self.cap is not None else "tail must be at most"
            value = 1.0 / left if self.cap is not None else left / n_anchors
            one_less = ", one less than there are," if left < n_anchors else ""
            raise ValueError(
                f"{given} leaves no mixture of {left} sources{one_less} to measure distances to: "
                f"{least} {value:.6g}"
            )
        return cap

    def _scores(
        self, gram: Array, anchors: BoolArray, calibration: IntArray, cap: float, errors: Array
    ) -> Array:
        """The largest distance that each calibration source may have to the hull without it."""
        squared = np.empty(len(calibration))
        for place, i in enumerate(calibration):
            others = np.flatnonzero(anchors & (np.arange(len(gram)) != i))
            squared[place] = squared_distances_to_hull(gram, np.array([i]), others, cap, errors)[0]
        return np.sqrt(squared)


def squared_distances_to_hull(
    gram: Array,
    which: IntArray,
    anchors: IntArray,
    cap: float = 1.0,
    errors: Array | None = None,
) -> Array:
    """Squared distance of some sources to the mixtures of others.

    Parameters
    ----------
    gram : ndarray of shape (M, M)
        Inner products of the sources' embeddings.
    which : ndarray of int, shape (m,)
    anchors : ndarray of int
        The sources mixed.
    cap : float, default=1.0
        The largest weight of one of them.
    errors : ndarray of shape (M,), optional
        Of the embeddings (`Embedding.errors`): then the largest values that the distances may have.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([0.0, 1.0, 3.0])
    >>> gram = np.outer(points, points)
    >>> squared_distances_to_hull(gram, np.array([2]), np.array([0, 1])).tolist()
    [4.0]
    >>> squared_distances_to_hull(gram, np.array([2]), np.array([0, 1]), cap=0.5).tolist()
    [6.25]
    """
    among = gram[np.ix_(anchors, anchors)]
    squared = np.zeros(len(which))
    for place, i in enumerate(which):
        if cap >= 1.0 and i in anchors:
            continue  # it is a mixture itself
        products = gram[i, anchors]
        differences = among - products - products[:, None] + gram[i, i]
        nearest = best_mixture(differences, np.zeros(len(anchors)), cap)
        squared[place] = max(float(nearest @ differences @ nearest), 0.0)
        if errors is not None:
            squared[place] += float(errors[i] + nearest @ errors[anchors]) ** 2
    return squared
