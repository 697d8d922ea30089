r"""A ball whose radius is calibrated on sources that did not shape it: a promise at every M.

The paper's ball holds a share 1 - nu of the sources that it was learned from; of new ones, so many
only as M grows. Here some sources are held back, and what is promised is proved for the M at hand.

**Premise.** The data sets of the M sources and of the target are exchangeable: the pairs
(P_i, n_i) are i.i.d. and each source is sampled from its P_i, the target with a size drawn like the
others. Training sources T, chosen by lot, fix kernel, bandwidth and scale; m calibration sources
are left. The rank is :math:`k = \lceil (1 - \nu)(m + 1) \rceil`, at most m, so
:math:`m \ge (1 - \nu) / \nu`. Probabilities are over all draws together, sources, samples, target
and lot (*marginal*); the target's *empirical* embedding is written :math:`\hat\mu`.

**Split.** The centre c is that of T alone; R is the k-th smallest score
:math:`s_i = |\hat\mu_i - c|` of the calibration sources. Then

.. math:: \Pr\{ |\hat\mu - c| \le R \} \ge \frac{k}{m + 1} \ge 1 - \nu.

Proof: given T, the m scores and the target's are exchangeable, so the target's is among the k
smallest of the m + 1 with probability k / (m + 1) at least (more only where scores tie), and there
it is at most R. Given the sources, the share of targets inside is random: without ties it has the
Beta(k, m + 1 - k) distribution.

**Leave-one-out.** The centre c is that of all M; :math:`c_{-i}` is learned in the same way without
calibration source i; R is the k-th smallest of :math:`r_i = |\hat\mu_i - c_{-i}| + |c_{-i} - c|`.
Then, with the kernel fixed in advance or by T,

.. math:: \Pr\{ |\hat\mu - c| \le R \} \ge 1 - \frac{2 (m - k) + 1}{m + 1} \ge 1 - 2 \nu.

Proof, by the tournament of the jackknife+ and the triangle inequality: number the target m + 1, and
let player i *beat* j if it is farther from the centre learned without both than j is. If
:math:`|\hat\mu - c| > R`, then k of the r_j or more are below :math:`|\hat\mu - c|`, and for each
of these :math:`|\hat\mu_j - c_{-j}| < |\hat\mu - c_{-j}|`: the target beats k others. Let S be the
set of players who do, q in number. They win at most q (m + 1 - q) games against others and
q (q - 1) / 2 among themselves; so k <= m + 1 - q + (q - 1) / 2, that is q <= 2 (m - k) + 1. By
exchangeability the target is one of them with probability q / (m + 1) at most.

The factor 2 vanishes where k = m: at most one player beats all others, and the promise is
1 - 1 / (m + 1). So (1 - nu) / nu sources, all for calibration, promise 1 - nu; the split needs
twice as many. A bandwidth taken from all M sources is no fixed kernel: each game would be played in
a space of its own, and the proof fails. What is learned of the kernel is therefore learned from T,
which takes part in every centre but in no game.

**For the target's distribution P itself**, add to each score the bound on its sampling error
(lemma:empirical_kernel_mean_embedding_consistency)

.. math:: t(n_i, \delta) = \sqrt{C / n_i} + \sqrt{2 C \log(1 / \delta) / n_i}.

Now :math:`|\mu_P - c| \le |\hat\mu - c| + t(n, \delta)` with probability 1 - delta, whatever n,
and the right side is the target's score; so the set contains P with the probability above less
delta. Where all n_i are equal this is R + t(n, delta). It holds for a target of any size.

**What is not promised**: anything for a target whose n is not drawn like the sources' (without the
enlargement), nor that the worst case over support points bounds the target's true cost: no set of
distributions on finitely many points contains a continuous P.
"""

from __future__ import annotations

import sys
import textwrap
import warnings
from bisect import bisect_left
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array, BoolArray, IntArray
from roodso._validation import check_choice, check_integer, check_real
from roodso.embedding import Embedding
from roodso.exceptions import SampleSizeWarning
from roodso.kernels import as_kernel
from roodso.sets.ball import solve_dual, squared_distances_to_center
from roodso.sets.base import BallLearner
from roodso.sets.uncertainty import UncertaintySet
from roodso.sources import Sources

__all__ = ["ConformalBall", "conformal_rank", "sampling_error_bound"]

#: A target smaller or larger than every source by more than this factor is not sampled alike.
_SIZE_FACTOR = 2.0


class ConformalBall(BallLearner):
    """A ball that contains a new source with a probability that is proved for the M at hand.

    Parameters
    ----------
    nu : float in (0, 1), default=0.2
        The promise is ``1 - nu`` (split) or ``1 - 2 nu`` (leave-one-out), marginally, for the
        empirical distribution of a source sampled like the others.
    method : {"split", "leave-one-out"}, default="split"
    kernel : {"rbf", "laplace", "matern32", "matern52"} or Kernel, default="rbf"
    bandwidth : float or "median", default="median"
        "median": the median of all pairwise distances of the training sources' samples, of a
        random subsample where there are more than 2,000.
    scale : bool, default=False
        Whether the kernel sees columns divided by their standard deviations in the training part.
    training_share : float in [0, 1), optional
        Share of the sources, rounded down but at least one where something is to be learned from
        it, that kernel and (split) centre come from. By default 1/2 for the split; for
        leave-one-out 1/4, or nothing where the kernel is fixed in advance: ``bandwidth`` a number
        and ``scale`` False.
    center_nu : float in (0, 1], optional
        The nu of eq:dual_SMC_quadratic for the centre; the promise holds for any. By default
        ``nu``: that centre minimises the mean of the largest share nu of the squared distances,
        the convex bound on their 1 - nu quantile, which R is. 1 is the plain mean of the sources;
        on the paper's generator its radius was 2 to 6% larger at the same coverage.
    sampling_error : float in (0, 1), optional
        delta: enlarge the set for the sampling error, so that it contains the target's distribution
        itself, with a probability smaller by delta.
    target_size : int, optional
        Number of samples that the target's empirical distribution will have; warns where it is
        more than twice the largest source's or less than half the smallest's. Of no effect with
        ``sampling_error``, whose promise is for any size.
    random_state : int or None, default=None
        Draws the training part, from the sources' labels alone. None draws as 0 does, for the part
        has to be the same whenever it is asked for.
    n_jobs : int or None, default=None
        Threads for the pass over kernel values; None means all cores. It changes no result.

    Attributes
    ----------
    weights_, radius_, distances_, labels_, uncertainty_set_, offset_
        As for `SupportMeasureBall`; ``uncertainty_set_.radius_without_gamma`` is the radius
        without the enlargement for the sampling error.
    calibration_ : ndarray of bool, shape (M,)
        The calibration sources; the others are the training part.
    scores_ : ndarray of shape (m,)
        Scores of the calibration sources, of which the radius is one.
    promise_ : float
        What is proved for these m and nu: k / (m + 1) for the split, 1 - (2 (m - k) + 1) / (m + 1)
        for leave-one-out, less delta.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shops = [rng.normal(rng.uniform(-1, 1, 2), 1.0, (40, 2)) for _ in range(20)]
    >>> ball = ConformalBall(nu=0.2, random_state=0).fit(shops)
    >>> ball.calibration_.sum(), round(ball.promise_, 3)
    (np.int64(10), 0.818)
    >>> ball.predict([rng.normal(0.0, 1.0, (40, 2)), rng.normal(5.0, 1.0, (40, 2))]).tolist()
    [1, -1]
    >>> ConformalBall(nu=0.05).fit(shops)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: nu=0.05 needs 19 calibration source(s), so at least 37 sources with ...
    """

    # What fitting sets besides: see `BallLearner`.
    calibration_: BoolArray
    scores_: Array
    promise_: float

    def __init__(
        self,
        nu: float = 0.2,
        *,
        method: str = "split",
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        scale: bool = False,
        training_share: float | None = None,
        center_nu: float | None = None,
        sampling_error: float | None = None,
        target_size: int | None = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.method = method
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.scale = scale
        self.training_share = training_share
        self.center_nu = center_nu
        self.sampling_error = sampling_error
        self.target_size = target_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def least_sources(self) -> int:
        """The smallest number of sources that these parameters allow."""
        return bisect_left(range(sys.maxsize), True, key=self._enough)

    def validate(self) -> None:
        """Check the parameters; `fit` calls this before any work."""
        check_real(self.nu, "nu", low=0.0, high=1.0, low_open=True, high_open=True)
        check_choice(self.method, "method", ("split", "leave-one-out"))
        super().validate()
        if self.training_share is not None:
            check_real(self.training_share, "training_share", low=0.0, high=1.0, high_open=True)
        if self.center_nu is not None:
            check_real(self.center_nu, "center_nu", low=0.0, high=1.0, low_open=True)
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

    def _kernel_samples(self, sources: Sources) -> Array:
        training = self._training(sources)
        # Without a training part nothing is learned: the samples only give the coordinates' shift.
        rows = training[sources.codes] if training.any() else np.ones(sources.n_samples, dtype=bool)
        samples = sources.samples[rows]
        ordered: Array = samples[np.lexsort(samples.T)]  # so the median's subsample ignores order
        return ordered

    def learn(self, embedding: Embedding, gram: Array | None = None) -> UncertaintySet:
        """Learn the ball from an embedding in this learner's own `kernel_space`.

        ``gram`` replaces the embedding's Gram matrix for the centre. Scores are always distances of
        the sources as they are, so the promise stands.
        """
        self.validate()
        sources = embedding.sources
        training = self._training(sources)
        calibration = ~training
        alpha, scores = self._scores(
            embedding.gram, embedding.gram if gram is None else gram, training
        )
        m = len(scores)
        rank = conformal_rank(m, self.nu)
        plain = float(np.sort(scores)[rank - 1])
        lost = 0.0
        if self.sampling_error is not None:
            lost, C = float(self.sampling_error), embedding.space.kernel.bound
            scores = scores + sampling_error_bound(sources.sizes[calibration], lost, C)
        radius = float(np.sort(scores)[rank - 1])
        learned = UncertaintySet.ball(
            alpha, plain**2, radius**2 - plain**2, embedding.space, sources, embedding.gram
        )
        squared = squared_distances_to_center(embedding.gram, alpha)
        self.calibration_ = calibration
        self.scores_ = scores
        failures = m + 1 - rank if self.method == "split" else 2 * (m - rank) + 1
        self.promise_ = max(1.0 - failures / (m + 1) - lost, 0.0)
        self._warn_of_target_size(learned, squared)
        return self._keep(learned, np.sqrt(squared))

    def statement(self) -> str:
        """What is proved for this fitted set, and what is not, in plain words.

        Examples
        --------
        >>> from roodso.datasets import make_newsvendor_sources
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
        sizes = learned.sources.sizes
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
        told = [proved, not_promised]
        # |mu_P - c|^2 <= C + |c|^2 for any P, as kernels are not negative.
        if self.radius_**2 >= learned.kernel.bound + float(learned.anchor_gram[0, 0]):
            told.append("The set is so large that it contains every distribution: this is no news.")
        return "\n".join(textwrap.fill(text, 92) for text in told)

    def _scores(self, gram: Array, center_gram: Array, training: BoolArray) -> tuple[Array, Array]:
        """Weights of the centre, and the score of each calibration source."""
        nu = self.nu if self.center_nu is None else float(self.center_nu)
        if self.method == "leave-one-out":
            return _leave_one_out(gram, center_gram, np.flatnonzero(~training), nu)
        alpha = np.zeros(len(gram))
        alpha[training] = solve_dual(center_gram[np.ix_(training, training)], nu)
        return alpha, np.sqrt(squared_distances_to_center(gram, alpha)[~training])

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
        least = 0 if self._fixed_kernel and self.method == "leave-one-out" else 1
        return max(least, int(np.floor(self._share * n_sources + 1e-9)))

    @property
    def _share(self) -> float:
        if self.training_share is not None:
            return float(self.training_share)
        if self.method == "split":
            return 0.5
        return 0.0 if self._fixed_kernel else 0.25

    @property
    def _fixed_kernel(self) -> bool:
        learned = None in as_kernel(self.kernel).bandwidths and self.bandwidth == "median"
        return not learned and not self.scale

    def _enough(self, n_sources: int) -> bool:
        """Two sources, so that one is left for a centre; and a score of the rank that is needed."""
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
        """Say where the promise does not hold for the target's size, and roughly what is left."""
        sizes = learned.sources.sizes
        low, high = sizes.min() / _SIZE_FACTOR, sizes.max() * _SIZE_FACTOR
        if self.sampling_error is not None or self.target_size is None:
            return
        if low <= self.target_size <= high:
            return
        bound = learned.kernel.bound
        moved = expected_squared_distances(squared, learned.gram, sizes, self.target_size, bound)
        share = float((moved <= learned.radius**2)[self.calibration_].mean())
        warnings.warn(
            f"target_size={self.target_size} is far from the sources' sizes ({sizes.min()} to "
            f"{sizes.max()}): the promise is for a source sampled alike. Were the calibration "
            f"sources of that size, roughly {share:.0%} of them would lie in the set; "
            "sampling_error=delta covers the distribution itself, whatever the size",
            SampleSizeWarning,
            stacklevel=4,
        )


def expected_squared_distances(
    squared: Array, gram: Array, sizes: IntArray, target_size: int, bound: float
) -> Array:
    """Expected squared distances to a fixed centre, had each source ``target_size`` samples.

    With n samples E |mu_hat - c|^2 = |mu_P - c|^2 + (C - |mu_P|^2) / n, and
    (C - |mu_hat|^2) / (n - 1) estimates the last term without bias.
    """
    noise = (bound - np.diag(gram)) / np.maximum(sizes - 1, 1)
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


def _leave_one_out(
    gram: Array, center_gram: Array, calibration: IntArray, nu: float
) -> tuple[Array, Array]:
    """Weights of the centre c, and s_i + |c_-i - c| of each calibration source.

    A source that has no weight in the optimum under the cap of M - 1 sources leaves that optimum as
    it is: only the others need a solve of their own.
    """
    n_sources = len(gram)
    alpha = solve_dual(center_gram, nu)
    common = solve_dual(center_gram, nu * (n_sources - 1) / n_sources)
    scores = np.empty(len(calibration))
    for place, i in enumerate(calibration):
        rest = common
        if common[i] > 0.0:
            others = np.arange(n_sources) != i
            rest = np.zeros(n_sources)
            rest[others] = solve_dual(center_gram[np.ix_(others, others)], nu)
        shift = rest - alpha
        moved = np.sqrt(max(float(shift @ gram @ shift), 0.0))
        scores[place] = np.sqrt(squared_distances_to_center(gram, rest)[i]) + moved
    return alpha, scores
