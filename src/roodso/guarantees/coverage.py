r"""How often a new source falls outside the ball (paper, section 2.4).

**What the paper proves, and what not.** The proof of thm:SMC_generalization_error_bound bounds the
Rademacher average of :math:`g(\mu) = \langle w, \mu \rangle - \rho` with :math:`w = \mu_c` and
:math:`\rho = \langle \mu_c, \mu_{i'} \rangle`, i' in BSM. But the set is a ball:

.. math:: |\mu - \mu_c|^2 \le R^2 + \gamma \iff
          2 (\langle \mu_c, \mu \rangle - \rho) \ge |\mu|^2 - |\mu_{i'}|^2 - \gamma .

The two agree only where all embeddings have one norm, and then g >= -gamma / 2 is the ball, not
g >= -gamma: the factor 2 / gamma would have to be 4 / gamma. Elsewhere rho depends on which i' is
taken, and the nu-property, which the proof uses to bound the share of sources with g < 0, speaks
of the ball only: of 100 Gaussians of different widths at nu = 0.1, 8 lay outside the ball, and 3 or
98 outside the half-space, depending on i'. The constants B
and B_0 have to bound :math:`|\mu_c|` and :math:`|\rho|` for every sample of sources, since the
class of functions must be fixed beforehand: :math:`B = \sqrt C`, :math:`B_0 = C`. Numbers computed
from the fit are smaller, and give a smaller number without a proof.

**What follows instead, for the ball itself.** Take :math:`g(\mu) = R^2 - |\mu - \mu_c|^2 =
-|\mu|^2 + 2 \langle \mu_c, \mu \rangle - \tau`, :math:`\tau = |\mu_c|^2 - R^2`. The first term is
one fixed function and has Rademacher average 0. :math:`|\mu_c| \le \sqrt C`, and
:math:`-C \le \tau \le C` since :math:`R^2 \le C - |\mu_c|^2` (the dual value bounds R^2). So the
average is at most :math:`(2 \sqrt C \sqrt C + C) / \sqrt M = 3 C / \sqrt M`, and the paper's
remaining steps (one-sided symmetrisation, contraction, McDiarmid) give, with probability
1 - delta over the sources,

.. math:: \Pr\{\mu' \notin \mathcal B_{\nu, \gamma}\} \le \hat r + \frac{6 C}{\gamma \sqrt M}
          + \sqrt{\frac{\log(1 / \delta)}{2 M}}, \qquad
          \hat r = \frac1M \sum_i \min\Big(1, \frac{(D_i - R^2)^+}{\gamma}\Big) \le \nu .

It is the printed bound with :math:`2 B \sqrt C + B_0` in place of :math:`B \sqrt C + B_0`.

**With samples** (thm:empirical_generalization_error_bound) the proof sets the mean over true
embeddings against an average over empirical ones; symmetrisation does not allow that. The bound
above holds, word for word, for the *empirical* embedding of a new source sampled alike: the pairs
(P_i, n_i) and the new one i.i.d. For the distribution P' itself there is a bound too:
:math:`|\mu - \mu_c|^2` is convex and :math:`E[\hat\mu' | P'] = \mu'`, so by Jensen the untruncated
hinge loss of P' is at most that of its samples, whatever their number, and

.. math:: \Pr\{P' \notin \hat{\mathcal U}_{\nu, \gamma}\} \le \frac1\gamma \Big[ \frac1M \sum_i
          (\hat D_i - \hat R^2)^+ + \frac{6 C}{\sqrt M}
          + 2 C \sqrt{\frac{\log(1 / \delta)}{2 M}} \Big]

since :math:`D - R^2 \le C + |\mu_c|^2 \le 2 C` for kernels k >= 0. The sources may be of any
sizes here.

**In the limit** (thm:asymptotic_behavior_U_empirical) the paper lets gamma fall to 0 with M and
passes to gamma = 0 as if the enlarged sets were one decreasing family; but the ball itself changes
with M. What is proved is that with :math:`\gamma_M \to 0`, :math:`\gamma_M \sqrt M \to \infty` the
*enlarged* set covers a share of at least 1 - nu in the limit. At gamma = 0 the statement is false
as it stands. Laplace kernel, P_i = point masses at independent uniform numbers: the centre
:math:`\sum_i \alpha_i e^{-|\xi - \xi_i| / \sigma}` is strictly convex between neighbouring support
measures, where it is at most rho, so every new point is strictly outside: coverage 0, for every M
and nu. It holds where the share of distributions in the shell between the ball and the enlarged
ball vanishes.

The solution bounds inherit all this (prop:nonasymptotic_..., prop:out_of_sample_...), and are about
suprema over *all* distributions in the ball, not those on support points.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from roodso._validation import check_integer, check_real

__all__ = [
    "distribution_miss_bound",
    "gamma_needed",
    "halfspace_miss_bound",
    "miss_bound",
    "solution_level",
    "sources_needed",
    "surrogate_risk",
    "vanishing_excess",
]


def miss_bound(
    n_sources: int, nu: float, gamma: float, delta: float = 0.05, C: float = 1.0
) -> float:
    r"""Bound on the share of new sources outside the ball (thm:SMC_generalization_error_bound).

    .. math:: \nu + 6 C / (\gamma \sqrt M) + \sqrt{\log(1 / \delta) / (2 M)}

    with probability 1 - delta over the M sources; this is what holds for the ball, see the
    module's text for the printed form. It is about new distributions where the sources' own are
    known, and otherwise (thm:empirical_generalization_error_bound) about the empirical embedding
    of a new source sampled as the others are. Sources and new source must be i.i.d., the kernel
    fixed beforehand. At least 1: the bound is vacuous.

    Parameters
    ----------
    n_sources : int
        M.
    nu : float in [0, 1]
        Or the fit's own `surrogate_risk`, which is at most nu and proved as well.
    gamma : float
        At gamma = 0 the bound is infinite: the theorem says nothing.
    delta : float in (0, 1), default=0.05
    C : float, default=1.0

    Examples
    --------
    >>> round(miss_bound(1000, nu=0.1, gamma=0.5), 3)
    0.518
    >>> round(miss_bound(12, nu=0.2, gamma=0.5), 3), miss_bound(12, nu=0.2, gamma=0.0)
    (4.017, inf)
    """
    _check(n_sources, nu, gamma, delta, C)
    return nu + _over(6 * C / math.sqrt(n_sources), gamma) + _deviation(n_sources, delta)


def halfspace_miss_bound(
    n_sources: int,
    nu: float,
    gamma: float,
    delta: float = 0.05,
    C: float = 1.0,
    *,
    B: float | None = None,
    B_0: float | None = None,
) -> float:
    r"""Bound on missing a new source as the paper prints it (thm:SMC_generalization_error_bound).

    .. math:: \nu + \frac2\gamma \frac{B \sqrt C + B_0}{\sqrt M} + \sqrt{\log(1 / \delta) / (2 M)}

    Its proof is about the half-space g >= -gamma, and only where at most a share nu of the sources
    has g < 0; for the ball use `miss_bound`. See the module's text.

    Parameters
    ----------
    n_sources, nu, gamma, delta, C
        As for `miss_bound`.
    B, B_0 : float, optional
        Bounds on the norm of the centre and on rho that hold for all data: by default sqrt(C)
        and C. With the fit's own numbers this is no bound.

    Examples
    --------
    >>> round(halfspace_miss_bound(1000, nu=0.1, gamma=0.5), 3)
    0.392
    """
    _check(n_sources, nu, gamma, delta, C)
    norm = math.sqrt(C) if B is None else check_real(B, "B", low=0.0)
    offset = C if B_0 is None else check_real(B_0, "B_0", low=0.0)
    complexity = (norm * math.sqrt(C) + offset) / math.sqrt(n_sources)
    return nu + _over(2 * complexity, gamma) + _deviation(n_sources, delta)


def distribution_miss_bound(
    n_sources: int, mean_excess: float, gamma: float, delta: float = 0.05, C: float = 1.0
) -> float:
    r"""Bound on the share of new *distributions* outside a ball that was learned from samples.

    .. math:: \frac1\gamma \Big[ \frac1M \sum_i (\hat D_i - \hat R^2)^+ + \frac{6 C}{\sqrt M}
              + 2 C \sqrt{\frac{\log(1 / \delta)}{2 M}} \Big]

    What can be saved of thm:empirical_generalization_error_bound for P' itself: with probability
    1 - delta, whatever the sizes n_i, for kernels k >= 0. See the module's text.

    Parameters
    ----------
    n_sources : int
        M.
    mean_excess : float
        Mean over the sources of what their squared distances exceed R^2 by (without gamma), 0
        where they do not.
    gamma, delta, C
        As for `miss_bound`.

    Examples
    --------
    >>> round(distribution_miss_bound(1000, mean_excess=0.01, gamma=0.5), 3)
    0.554
    """
    _check(n_sources, 0.0, gamma, delta, C)
    check_real(mean_excess, "mean_excess", low=0.0)
    deviation = 2 * C * _deviation(n_sources, delta)
    return _over(mean_excess + 6 * C / math.sqrt(n_sources) + deviation, gamma)


def surrogate_risk(squared_distances: npt.ArrayLike, squared_radius: float, gamma: float) -> float:
    """Mean over the sources of min(1, (D_i - R^2)^+ / gamma): the proof's empirical risk.

    At most the share of sources outside the ball, so at most nu.

    Parameters
    ----------
    squared_distances : array_like of shape (M,)
        D_i, of the sources' embeddings to the centre.
    squared_radius : float
        R^2, without gamma.
    gamma : float

    Examples
    --------
    >>> surrogate_risk([0.1, 0.2, 0.3, 0.9], squared_radius=0.2, gamma=0.2)
    0.375
    """
    check_real(squared_radius, "squared_radius", low=0.0)
    check_real(gamma, "gamma", low=0.0)
    excess = np.maximum(np.asarray(squared_distances, dtype=np.float64) - squared_radius, 0.0)
    if gamma == 0.0:
        return float(np.mean(excess > 0.0))
    return float(np.minimum(excess / gamma, 1.0).mean())


def sources_needed(
    nu: float, gamma: float, delta: float = 0.05, C: float = 1.0, *, below: float = 1.0
) -> float:
    """The smallest M at which `miss_bound` falls below a level; infinite where none does.

    Parameters
    ----------
    nu, gamma, delta, C
        As for `miss_bound`.
    below : float in (0, 1], default=1.0
        1 asks for the bound to say anything at all.

    Examples
    --------
    >>> sources_needed(nu=0.2, gamma=0.5)
    274
    >>> sources_needed(nu=0.2, gamma=0.0)
    inf
    """
    _check(1, nu, gamma, delta, C)
    check_real(below, "below", low=0.0, high=1.0, low_open=True)
    if below <= nu or gamma == 0.0:
        return math.inf
    root = (6 * C / gamma + math.sqrt(math.log(1 / delta) / 2)) / (below - nu)
    return math.floor(root**2) + 1


def gamma_needed(
    n_sources: int, nu: float, delta: float = 0.05, C: float = 1.0, *, below: float = 1.0
) -> float:
    """The gamma above which `miss_bound` falls below a level; infinite where none does.

    A gamma of C + |mu_c|^2 - R^2 makes the ball hold every distribution whatsoever. Where more is
    needed, the theorem has nothing to say at this M.

    Parameters
    ----------
    n_sources, nu, delta, C
        As for `miss_bound`.
    below : float in (0, 1], default=1.0

    Examples
    --------
    >>> round(gamma_needed(12, nu=0.2), 2), round(gamma_needed(1000, nu=0.2), 2)
    (3.88, 0.25)
    """
    _check(n_sources, nu, 0.0, delta, C)
    check_real(below, "below", low=0.0, high=1.0, low_open=True)
    room = below - nu - _deviation(n_sources, delta)
    return 6 * C / math.sqrt(n_sources) / room if room > 0 else math.inf


def solution_level(miss: float) -> float:
    """Share of new distributions whose cost the worst case bounds, for every decision at once.

    1 - miss, at least 0 (prop:nonasymptotic_out_of_distribution_guarantee_DRO_finite_sample):
    where P' lies in the set, E_P' f(x, .) is at most the supremum over the set. The step holds for
    the supremum over all distributions in the ball. Over support points it is an observation, not
    a theorem: a continuous P' is never among them.

    Parameters
    ----------
    miss : float
        `distribution_miss_bound`, or `miss_bound` where the sources' distributions are known.

    Examples
    --------
    >>> solution_level(0.25), solution_level(4.0)
    (0.75, 0.0)
    """
    return max(0.0, 1.0 - miss)


def vanishing_excess(
    n_sources: int, exponent: float = -0.25, scale: float = 1.0, C: float = 1.0
) -> float:
    r"""By how much `miss_bound` exceeds nu where gamma falls to 0 as M grows.

    .. math:: r_M = \frac{6 C}{\gamma_M \sqrt M} + \sqrt{\frac{\log M}{2 M}}, \qquad
              \gamma_M = \text{scale} \cdot M^a, \; \delta_M = 1 / M,

    falls to 0 (thm:asymptotic_behavior_U_empirical,
    prop:out_of_sample_guarantee_DRO_finite_sample): the limit is about the sets enlarged by
    gamma_M, and not about gamma = 0, where it can fail; see the module's text.

    Parameters
    ----------
    n_sources : int
        M, at least 2.
    exponent : float in (-1/2, 0), default=-0.25
        a.
    scale : float, default=1.0
    C : float, default=1.0

    Examples
    --------
    >>> [round(vanishing_excess(M), 2) for M in (100, 10_000, 1_000_000)]
    [2.05, 0.62, 0.19]
    """
    check_integer(n_sources, "n_sources", low=2)
    check_real(exponent, "exponent", low=-0.5, high=0.0, low_open=True, high_open=True)
    check_real(scale, "scale", low=0.0, low_open=True)
    return miss_bound(n_sources, 0.0, scale * n_sources**exponent, 1 / n_sources, C)


def _deviation(n_sources: int, delta: float) -> float:
    """McDiarmid's term."""
    return math.sqrt(math.log(1 / delta) / (2 * n_sources))


def _over(value: float, gamma: float) -> float:
    return value / gamma if gamma > 0 else math.inf


def _check(n_sources: int, nu: float, gamma: float, delta: float, C: float) -> None:
    check_integer(n_sources, "n_sources", low=1)
    check_real(nu, "nu", low=0.0, high=1.0)
    check_real(gamma, "gamma", low=0.0)
    check_real(delta, "delta", low=0.0, high=1.0, low_open=True, high_open=True)
    check_real(C, "C", low=0.0, low_open=True)
