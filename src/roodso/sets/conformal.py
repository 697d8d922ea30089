r"""A ball whose radius is calibrated on sources that did not shape it: a promise at every M.

The paper's ball holds a share 1 - nu of the sources that it was learned from; of new ones, so many
only as M grows. Here some sources are held back, and what is promised is proved for the M at hand.

The premise, the rank k and the enlargement for the sampling error are those of
`roodso.sets.calibration`; the target's *empirical* embedding is written :math:`\hat\mu`.

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

**What is not promised**: anything for a target whose n is not drawn like the sources' (without the
enlargement), nor that the worst case over support points bounds the target's true cost: no set of
distributions on finitely many points contains a continuous P.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from roodso._typing import Array, BoolArray, IntArray
from roodso._validation import check_choice, check_real
from roodso.embedding import Embedding
from roodso.sets.ball import PAPER_NUS, solve_dual, squared_distances_to_center
from roodso.sets.base import BallLearner
from roodso.sets.calibration import CalibratedLearner
from roodso.sets.uncertainty import UncertaintySet

__all__ = ["ConformalBall"]


class ConformalBall(CalibratedLearner, BallLearner):
    """A ball that contains a new source with a probability that is proved for the M at hand.

    Parameters
    ----------
    nu : float in (0, 1), default=0.2
        The promise is ``1 - nu`` (split) or ``1 - 2 nu`` (leave-one-out), marginally, for the
        empirical distribution of a source sampled like the others.
    method : {"split", "leave-one-out"}, default="split"
    kernel : {"rbf", "laplace", "matern32", "matern52"} or Kernel, default="rbf"
    bandwidth : float, "median" or a multiple such as "3*median", default="median"
        "median": the median of all pairwise distances of the training sources' samples, of a
        random subsample where there are more than 2,000.
    scale : {False, True, "robust"}, default=False
        As for `SupportMeasureBall`, from the training part.
    clip : float in (0, 0.5) or pair (low, high) of levels, optional
        As for `SupportMeasureBall`, with quantiles of the training part's rows.
    training_share : float in [0, 1), optional
        Share of the sources, rounded down but at least one where something is to be learned from
        it, that kernel and (split) centre come from. By default 1/2 for the split; for
        leave-one-out 1/4, or nothing where the kernel is fixed in advance: ``bandwidth`` a
        number, ``scale`` False and ``clip`` None.
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

    def __init__(
        self,
        nu: float = 0.2,
        *,
        method: str = "split",
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        scale: bool | str = False,
        clip: Any = None,
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
        self.clip = clip
        self.training_share = training_share
        self.center_nu = center_nu
        self.sampling_error = sampling_error
        self.target_size = target_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def _method(self) -> str:
        return self.method

    def validate(self) -> None:
        """Check the parameters; `fit` calls this before any work."""
        check_choice(self.method, "method", ("split", "leave-one-out"))
        super().validate()
        if self.center_nu is not None:
            check_real(self.center_nu, "center_nu", low=0.0, high=1.0, low_open=True)

    def default_grid(self, n_sources: int) -> dict[str, list[Any]]:
        """The paper's values of nu, as far as one source less than these allows them."""
        allowed = [nu for nu in PAPER_NUS if clone(self).set_params(nu=nu)._enough(n_sources - 1)]
        return {"nu": allowed} if allowed else {}

    def learn(self, embedding: Embedding, gram: Array | None = None) -> UncertaintySet:
        """Learn the ball from an embedding in this learner's own `kernel_space`.

        ``gram`` replaces the embedding's Gram matrix for the centre. Scores are always distances of
        the sources as they are, so the promise stands.
        """
        self.validate()
        sources = embedding.sources
        training = self._training(sources)
        calibration = ~training
        center_gram = embedding.gram if gram is None else gram
        sizes, bound = sources.sizes[calibration], embedding.space.kernel.bound
        # Where embeddings have errors, scores are stated at their upper ends: the promise stands.
        none = np.zeros(sources.n_sources)
        alpha, scores = self._scores(embedding.gram, center_gram, training, none)
        found = least = self._calibrate(scores, sizes, bound)
        if embedding.errors.any():
            _, scores = self._scores(embedding.gram, center_gram, training, embedding.errors)
            found = self._calibrate(scores, sizes, bound)
        learned = UncertaintySet.ball(
            alpha,
            found.plain**2,
            found.radius**2 - found.plain**2,
            embedding.space,
            sources,
            embedding.gram,
            least_squared_radius=least.radius**2 - (found.radius**2 - found.plain**2),
        )
        squared = squared_distances_to_center(embedding.gram, alpha, embedding.errors)
        beaten = len(scores) - found.rank
        self.calibration_ = calibration
        self.scores_ = found.scores
        self.promise_ = found.promise(beaten + 1 if self.method == "split" else 2 * beaten + 1)
        self._warn_of_target_size(learned, squared[calibration])
        return self._keep_ball(learned, np.sqrt(squared))

    def _scores(
        self, gram: Array, center_gram: Array, training: BoolArray, errors: Array
    ) -> tuple[Array, Array]:
        """Weights of the centre, and the largest score that each calibration source may have."""
        nu = self.nu if self.center_nu is None else float(self.center_nu)
        if self.method == "leave-one-out":
            return _leave_one_out(gram, center_gram, np.flatnonzero(~training), nu, errors)
        alpha = np.zeros(len(gram))
        alpha[training] = solve_dual(center_gram[np.ix_(training, training)], nu)
        return alpha, np.sqrt(squared_distances_to_center(gram, alpha, errors)[~training])


def _leave_one_out(
    gram: Array, center_gram: Array, calibration: IntArray, nu: float, errors: Array
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
        moved = np.hypot(np.sqrt(max(float(shift @ gram @ shift), 0.0)), np.abs(shift) @ errors)
        scores[place] = np.sqrt(squared_distances_to_center(gram, rest, errors)[i]) + moved
    return alpha, scores
