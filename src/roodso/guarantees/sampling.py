r"""Errors from having samples, not distributions (paper, section 2.3).

With :math:`\Delta_i = \hat\mu_i - \mu_i`, everything rests on one event of probability
:math:`1 - \delta`: :math:`|\Delta_i| \le t(n_i, \delta / M)` for all sources at once. On it, all
further bounds are deterministic. What the paper's proofs give, step by step:

*   Moments, mean embedding, Gram matrix: right as printed.
*   Weights (prop:consistency_optimizer): right but for one factor, see `optimizer_bound`.
*   Centre and radius (thm:finite_sample_guar_mu_c_R_square): the proof does not go through.
    McDiarmid's inequality asks how far one sample can move the centre *whatever the data*; the
    proof's answer, of order M / n_i, divides by the smallest eigenvalue of the empirical Gram
    matrix, which other data can bring to 0. In truth one sample in n can move the centre by
    :math:`\tfrac12 \sqrt{C / n}`: hard ball, sources at a, b and c with k(a, b) = k(a, c) = 0 and
    c near b, one sample of the third moved to a. Besides, suprema over two different sets BSM
    are compared as if the sets were one, :math:`\|K\|_2 \le \sqrt{MC}` is used where only MC
    holds, and expectations of products of dependent variables are split.

What follows instead, shorter and with all constants. Let A be the weights allowed
(:math:`0 \le \alpha_i \le 1/(M\nu)`, sum 1), :math:`t_i` bounds on :math:`|\Delta_i|`,
:math:`e = \max_{\alpha \in A} \sum_i \alpha_i t_i`, :math:`D = \sqrt{2C}` (no two embeddings are
farther apart where :math:`k \ge 0`).

1.  *Without curvature.* The centre minimises :math:`F(c) = \max_{\alpha \in A} \sum_i \alpha_i
    |\mu_i - c|^2`, and :math:`F - |c|^2` is convex, so :math:`F(c') \ge F(c^*) + |c' - c^*|^2`;
    likewise for the samples' :math:`\hat F`, and :math:`|F - \hat F| \le 2 D e`. Hence
    :math:`|\hat\mu_c - \mu_c|^2 \le 2 D e`.
2.  *With curvature.* Adding the optimality conditions of both QPs gives, with
    :math:`x = \hat\mu_c - \mu_c`, :math:`w = \sum_i \alpha_i \Delta_i` and
    :math:`x - w = \sum_i (\hat\alpha_i - \alpha_i) \hat\mu_i`,

    .. math:: \langle x, x - w \rangle \le \tfrac12 \sum_i (\hat\alpha_i - \alpha_i)
              (|\Delta_i|^2 + 2 \langle \mu_i - \mu_c, \Delta_i \rangle)
              \le h \, |\hat\alpha - \alpha|, \quad
              h = \tfrac12 \Big( \sum_i (t_i^2 + 2 D t_i)^2 \Big)^{1/2},

    and :math:`|\hat\alpha - \alpha| \le |x - w| / \sqrt\lambda` with :math:`\lambda` the smallest
    eigenvalue of :math:`\hat K` on weights that add up to 0. So, with
    :math:`\kappa = h / \sqrt\lambda`, :math:`|x|^2 \le e |x| + \kappa (|x| + e)` and
    :math:`|\hat\alpha - \alpha| \le (e + \kappa) / \sqrt\lambda`. Swapping the roles of samples
    and distributions gives the same with :math:`\lambda` of K: either may be used.
3.  *Radius.* Each source's distance to the centre changes by at most :math:`t_i + |x|`, and the
    ceil(M nu)-th largest by no more than the largest change. Since :math:`R^2 \le C` (the ball
    of radius :math:`\sqrt C` around 0 holds everything), :math:`|\hat R^2 - R^2| \le 2 \sqrt C
    |\hat R - R|`.

In M, n and delta this is at most of the order that the theorem states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import check_integer, check_real
from roodso.sets.calibration import sampling_error_bound
from roodso.sets.mixtures import largest_mixture

__all__ = [
    "BallError",
    "ball_error",
    "center_radius_bound",
    "effective_size",
    "embedding_bound",
    "expected_center_error",
    "gram_bound",
    "moment_bound",
    "optimizer_bound",
    "second_moment_bound",
    "separation",
]


def moment_bound(q: float, n: int, C: float = 1.0) -> float:
    r"""Bound on :math:`E |\hat\mu_P - \mu_P|^q` (prop:moment_bound_E_empirical).

    .. math:: \sqrt{4 \pi q} \, (4 C q / (e n))^{q/2} \, e^{1/(6q)}

    The proof holds. For q = 2 it is 16.04 C / n; see `second_moment_bound`.

    Parameters
    ----------
    q : float
        Positive.
    n : int
        Samples of one distribution, independent.
    C : float, default=1.0
        k(x, x).

    Examples
    --------
    >>> round(moment_bound(2, n=100), 4), second_moment_bound(100)
    (0.1604, 0.01)
    """
    check_real(q, "q", low=0.0, low_open=True)
    _check_n_c(n, C)
    base = 4 * C * q / (math.e * n)
    return math.sqrt(4 * math.pi * q) * base ** (q / 2) * math.exp(1 / (6 * q))


def second_moment_bound(n: int, C: float = 1.0) -> float:
    r"""Bound C / n on :math:`E |\hat\mu_P - \mu_P|^2` (lemma, Tolstikhin et al. 2017).

    Exactly, it is :math:`(E k(\xi, \xi) - |\mu_P|^2) / n`.

    Parameters
    ----------
    n : int
    C : float, default=1.0

    Examples
    --------
    >>> second_moment_bound(50, C=2.0)
    0.04
    """
    _check_n_c(n, C)
    return C / n


def embedding_bound(n: int, delta: float, C: float = 1.0) -> float:
    r"""t(n, delta): with probability 1 - delta, :math:`|\hat\mu_P - \mu_P|` is at most this.

    .. math:: t(n, \delta) = \sqrt{C / n} + \sqrt{2 C \log(1 / \delta) / n}

    (lemma:empirical_kernel_mean_embedding_consistency). The proof, McDiarmid's inequality around
    the second moment, holds.

    Parameters
    ----------
    n : int
    delta : float in (0, 1)
    C : float, default=1.0

    Examples
    --------
    >>> round(embedding_bound(100, delta=0.05), 4)
    0.3448
    """
    _check_n_c(n, C)
    _check_delta(delta)
    return float(sampling_error_bound(n, delta, C))


def effective_size(sizes: Any) -> float:
    r"""The paper's :math:`\bar n = (\sum_i 1 / n_i)^{-1}`; n / M where all sizes are n.

    Parameters
    ----------
    sizes : sequence of int
        n_i of all M sources.

    Examples
    --------
    >>> effective_size([200] * 20)
    10.0
    """
    return 1 / math.fsum(1 / _check_sizes(sizes))


def gram_bound(sizes: Any, delta: float, C: float = 1.0) -> float:
    r"""Bound on :math:`\|\hat K - K\|_2` (prop:operator_norm_bound_Khat_K).

    .. math:: \sqrt{8 M C^2 L / \bar n} + 2 C L / \bar n, \qquad L = 1 + 2 \log(M / \delta),

    with probability 1 - delta. The proof holds.

    Parameters
    ----------
    sizes : sequence of int
        n_i of all M sources, each sampled independently.
    delta : float in (0, 1)
    C : float, default=1.0

    Examples
    --------
    >>> round(gram_bound([10_000] * 5, delta=0.05), 3)
    0.462
    """
    sizes = _check_sizes(sizes)
    s2 = _squared_rate(sizes, delta)
    _check_n_c(1, C)
    return C * (math.sqrt(8 * len(sizes) * s2) + 2 * s2)


def optimizer_bound(
    sizes: Any, delta: float, *, nu: float, lambda_min: float, C: float = 1.0
) -> float:
    r"""Bound on :math:`|\hat\alpha - \alpha|_2` (prop:consistency_optimizer), repaired.

    .. math:: \frac{C}{\lambda_0} \Big[ C_\alpha \big( \sqrt{8M} s + 2 s^2 \big) + \sqrt2 \, s
              \Big], \qquad s^2 = \frac{1 + 2 \log(M / \delta)}{\bar n}, \quad
              C_\alpha = \min(1, 1 / \sqrt{M \nu}),

    where :math:`|\alpha|_2 \le C_\alpha` for all weights allowed. The paper prints
    :math:`C_\alpha` in front of the last term too. That does not follow: the term comes from the
    diagonal of the Gram matrix, which no weights multiply (for orthogonal embeddings with squared
    norms 1 and 1 + delta, 1 - delta in turn, M = 100, nu = 0.5, the step fails by a factor near
    6). The printed line can be saved for nu <= 1/4 by bounding :math:`(\hat K - K) \hat\alpha`
    instead of the matrix. The log is of M / delta, not 2 M / delta: one event serves both terms.
    The paragraph on 'restricted curvature' is not needed either: the variational inequality
    already holds for the constrained problem.

    `center_radius_bound` has a smaller bound on the same error.

    Parameters
    ----------
    sizes : sequence of int
    delta : float in (0, 1)
    nu : float in (0, 1]
    lambda_min : float
        lambda_0: the smallest eigenvalue of K, or of it on weights that add up to 0
        (`separation`), or either of the empirical matrix. At 0 (two sources alike) the bound is
        infinite.
    C : float, default=1.0

    Examples
    --------
    >>> round(optimizer_bound([10**6] * 4, 0.05, nu=0.5, lambda_min=0.7), 4)
    0.0484
    """
    sizes = _check_sizes(sizes)
    s2 = _squared_rate(sizes, delta)
    _check_nu(nu)
    _check_n_c(1, C)
    _check_eigenvalue(lambda_min, "lambda_min")
    if lambda_min == 0.0:
        return math.inf
    n_sources, s = len(sizes), math.sqrt(s2)
    c_alpha = _weight_norm(n_sources, nu)
    matrix = c_alpha * (math.sqrt(8 * n_sources) * s + 2 * s2)
    return C / lambda_min * (matrix + math.sqrt(2) * s)


def expected_center_error(
    sizes: Any, *, nu: float, lambda_min: float, lambda_max: float, C: float = 1.0
) -> float:
    r"""Bound on :math:`E |\hat\mu_c - \mu_c|`, the sound half of the paper's proof.

    .. math:: \sqrt{ \frac{4 C^2 \lambda_{\max}}{\lambda_{\min}^2} \Big( C_\alpha^2 \Big(
              \frac{8M}{\bar n} + \frac{B}{\bar n^2} \Big) + \frac1{\bar n} \Big)
              + \frac{2 C_\alpha^2 C}{\bar n} }

    (proof of thm:finite_sample_guar_mu_c_R_square) with B = 512: the fourth moment is at most
    :math:`4 (8C/n)^2 \Gamma(2) = 256 C^2 / n^2`, and enters twice.

    Parameters
    ----------
    sizes : sequence of int
    nu : float in (0, 1]
    lambda_min, lambda_max : float
        Extreme eigenvalues of K, the Gram matrix of the distributions.
    C : float, default=1.0

    Examples
    --------
    >>> round(expected_center_error([10**6] * 4, nu=0.5, lambda_min=0.7, lambda_max=0.8), 4)
    0.0212
    """
    inverse = 1 / effective_size(sizes)
    n_sources = len(sizes)
    _check_nu(nu)
    _check_n_c(1, C)
    _check_eigenvalue(lambda_min, "lambda_min")
    check_real(lambda_max, "lambda_max", low=0.0)
    if lambda_min == 0.0:
        return math.inf
    c2 = _weight_norm(n_sources, nu) ** 2
    weights = c2 * (8 * n_sources * inverse + 512 * inverse**2) + inverse
    return math.sqrt(4 * C**2 * lambda_max / lambda_min**2 * weights + 2 * c2 * C * inverse)


@dataclass(frozen=True)
class BallError:
    r"""How far the ball from samples can be from the ball of the distributions.

    Attributes
    ----------
    weights : float
        Bound on :math:`|\hat\alpha - \alpha|_2`.
    center : float
        Bound on :math:`|\hat\mu_c - \mu_c|`. Says something below :math:`\sqrt{2C}`.
    radius : float
        Bound on :math:`|\hat R - R|`.
    squared_radius : float
        Bound on :math:`|\hat R^2 - R^2|`.
    """

    weights: float
    center: float
    radius: float
    squared_radius: float


def center_radius_bound(
    sizes: Any, delta: float, *, nu: float, lambda_min: float = 0.0, C: float = 1.0
) -> BallError:
    """Bounds on weights, centre and radius (thm:finite_sample_guar_mu_c_R_square), all constants.

    With probability 1 - delta all four hold. The paper's proof does not go through; this is what
    follows instead, see the module's text.

    Parameters
    ----------
    sizes : sequence of int
        n_i of all M sources, each sampled independently.
    delta : float in (0, 1)
    nu : float in (0, 1]
    lambda_min : float, default=0.0
        Smallest eigenvalue of the Gram matrix on weights that add up to 0 (`separation`), of the
        distributions or of the samples. 0 means 'not known'; centre and radius have bounds then
        too, of order n^(-1/4).
    C : float, default=1.0

    Examples
    --------
    >>> error = center_radius_bound([10**6] * 4, 0.05, nu=0.5, lambda_min=0.7)
    >>> round(error.weights, 4), round(error.center, 4), round(error.radius, 4)
    (0.0208, 0.02, 0.024)
    """
    sizes = _check_sizes(sizes)
    _check_delta(delta)
    errors = [embedding_bound(int(n), delta / len(sizes), C) for n in sizes]
    return ball_error(errors, nu=nu, lambda_min=lambda_min, C=C)


def ball_error(errors: Any, *, nu: float, lambda_min: float = 0.0, C: float = 1.0) -> BallError:
    """How far the ball can move where each embedding moves by at most ``errors``: no probability.

    See the module's text for the derivation.

    Parameters
    ----------
    errors : sequence of float
        t_i, one per source.
    nu : float in (0, 1]
    lambda_min : float, default=0.0
    C : float, default=1.0

    Examples
    --------
    >>> error = ball_error([0.01, 0.01, 0.01], nu=0.5)
    >>> error.weights, round(error.center, 4)
    (inf, 0.1682)
    """
    t = np.asarray(errors, dtype=np.float64)
    if t.ndim != 1 or len(t) == 0 or not np.isfinite(t).all() or (t < 0).any():
        raise ValueError(f"errors must hold one number >= 0 per source, got {errors!r}")
    _check_nu(nu)
    _check_n_c(1, C)
    _check_eigenvalue(lambda_min, "lambda_min")
    e = largest_mixture(t, 1 / (len(t) * nu))[0]
    diameter = math.sqrt(2 * C)
    center, weights = math.sqrt(2 * diameter * e), math.inf
    if lambda_min > 0.0:
        kappa = 0.5 * float(np.linalg.norm(t**2 + 2 * diameter * t)) / math.sqrt(lambda_min)
        both = e + kappa
        center = min(center, 0.5 * (both + math.sqrt(both**2 + 4 * e * kappa)))
        weights = both / math.sqrt(lambda_min)
    radius = float(t.max()) + center
    return BallError(weights, center, radius, 2 * math.sqrt(C) * radius)


def separation(gram: Array) -> float:
    """Smallest eigenvalue of a Gram matrix on weights that add up to 0: 0 if two sources agree.

    It is at least lambda_0, the smallest of all, and serves in its place; infinite for one source,
    whose weight is 1 whatever the data.

    Parameters
    ----------
    gram : ndarray of shape (M, M)

    Examples
    --------
    >>> import numpy as np
    >>> round(separation(np.array([[1.0, 0.5], [0.5, 1.0]])), 6)
    0.5
    """
    gram = np.asarray(gram, dtype=np.float64)
    n_sources = len(gram)
    if gram.shape != (n_sources, n_sources) or n_sources == 0:
        raise ValueError(f"gram must be a square matrix, got shape {gram.shape}")
    if n_sources == 1:
        return math.inf
    # Columns 2 to M of a reflection that takes the first unit vector to the ones: a basis.
    mirror = np.full(n_sources, n_sources**-0.5)
    mirror[0] -= 1.0
    basis = np.eye(n_sources) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    lowest = np.linalg.eigvalsh(basis[:, 1:].T @ gram @ basis[:, 1:])[0]
    return max(float(lowest), 0.0)


def _weight_norm(n_sources: int, nu: float) -> float:
    """C_alpha: |alpha|_2^2 <= max alpha * sum alpha <= min(1, 1 / (M nu))."""
    return min(1.0, 1 / math.sqrt(n_sources * nu))


def _squared_rate(sizes: Array, delta: float) -> float:
    """s^2 = (1 + 2 log(M / delta)) / n_bar; sum_i |Delta_i|^2 <= 2 C s^2 on the event."""
    _check_delta(delta)
    return (1 + 2 * math.log(len(sizes) / delta)) / effective_size(sizes)


def _check_sizes(sizes: Any) -> Array:
    array = np.asarray(sizes)
    numbers = array.ndim == 1 and len(array) > 0 and array.dtype.kind in "iuf"
    if not numbers or not ((array >= 1) & (array == np.round(array)) & np.isfinite(array)).all():
        raise ValueError(f"sizes must hold a whole number >= 1 per source, got {sizes!r}")
    return array.astype(np.float64)


def _check_eigenvalue(value: float, name: str) -> None:
    """Infinite is accepted: that is what `separation` gives for one source."""
    if value != math.inf:
        check_real(value, name, low=0.0)


def _check_n_c(n: int, C: float) -> None:
    check_integer(n, "n", low=1)
    check_real(C, "C", low=0.0, low_open=True)


def _check_delta(delta: float) -> None:
    check_real(delta, "delta", low=0.0, high=1.0, low_open=True, high_open=True)


def _check_nu(nu: float) -> None:
    check_real(nu, "nu", low=0.0, high=1.0, low_open=True)
