"""What the bounds say of a fitted model: what is proved for its M and n, and what is not."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array
from roodso._validation import check_integer, check_real
from roodso.guarantees.coverage import (
    distribution_miss_bound,
    gamma_needed,
    halfspace_miss_bound,
    miss_bound,
    sources_needed,
    surrogate_risk,
)
from roodso.guarantees.sampling import (
    BallError,
    center_radius_bound,
    embedding_bound,
    gram_bound,
    separation,
)
from roodso.kernels import as_kernel
from roodso.sets.ball import (
    SupportMeasureBall,
    solve_dual,
    squared_distances_to_center,
    squared_radius,
)
from roodso.sets.uncertainty import UncertaintySet, membership_slack

__all__ = ["GuaranteeSummary", "summary"]


_ALTERNATIVE = (
    "A radius calibrated on held-out sources has a promise at small M: see "
    "roodso.sets.ConformalBall."
)


@dataclass(frozen=True)
class GuaranteeSummary:
    """The guarantees of one fitted ball, as numbers; ``str()`` says them in words.

    Miss bounds are upper bounds on the share of new sources that fall outside, with probability
    ``1 - delta`` over the sources; at least 1 they are vacuous.

    Attributes
    ----------
    n_sources : int
        M.
    smallest_size, largest_size : int
        Of the n_i.
    nu, gamma, delta : float
    C : float
        k(x, x).
    radius : float
        R, without gamma.
    center_norm, offset : float
        The norm of the centre and rho: the fit's own values of the paper's B and B_0.
    inside : int
        Sources inside the ball without gamma; nu promises ``(1 - nu) M``.
    miss_sample : float
        For the empirical embedding of a new source sampled as these are (`miss_bound`).
    miss_distribution : float
        For a new distribution itself (`distribution_miss_bound`).
    miss_printed : float
        As the paper prints it, with bounds for B and B_0 that hold for all data
        (`halfspace_miss_bound`); its proof is not about the ball.
    sources_needed : float
        The M from which ``miss_sample`` would be below 1 with this gamma; infinite at gamma = 0.
    gamma_needed : float
        The gamma above which ``miss_sample`` would be below 1 with this M; may be infinite.
    gamma_all : float
        The gamma from which on the ball holds every distribution whatsoever.
    sources_useful : float
        The M from which some gamma below ``gamma_all`` would do.
    embedding_error : float
        Every source's embedding is at most this far from the truth (`embedding_bound`).
    gram_error : float
        `gram_bound`.
    separation : float
        Smallest eigenvalue of the Gram matrix on weights that add up to 0.
    ball_error : BallError
        How far weights, centre and radius can be from those of the distributions.
    left_out, left_out_inside : int
        Sources left out one at a time, and how many of them fell inside the ball (with gamma) of
        the others. Measured, not proved.
    n_support : int or None
        Support points of the worst case; None where only a ball was fitted.
    caveats : tuple of str
        Where this fit departs from what the theorems assume.
    """

    n_sources: int
    smallest_size: int
    largest_size: int
    nu: float
    gamma: float
    delta: float
    C: float
    radius: float
    center_norm: float
    offset: float
    inside: int
    miss_sample: float
    miss_distribution: float
    miss_printed: float
    sources_needed: float
    gamma_needed: float
    gamma_all: float
    sources_useful: float
    embedding_error: float
    gram_error: float
    separation: float
    ball_error: BallError
    left_out: int
    left_out_inside: int
    n_support: int | None
    caveats: tuple[str, ...]

    @property
    def vacuous(self) -> bool:
        """Whether no coverage bound says anything about a new source."""
        return min(self.miss_sample, self.miss_distribution) >= 1

    @property
    def sections(self) -> list[tuple[str, list[str]]]:
        """What is proved, what holds in the limit, what was measured: headings and sentences."""
        found = [
            ("Proved for your data", self._proved()),
            ("Holds only in the limit of many sources", self._limit()),
            ("Measured, not proved", self._measured()),
            ("Where this fit departs from the theorems", list(self.caveats)),
        ]
        return [(title, items) for title, items in found if items]

    def __str__(self) -> str:
        parameters = f"nu = {self.nu:g}, gamma = {self.gamma:g}, delta = {self.delta:g}"
        lines = [
            f"Guarantees of the ball learned from M = {self.n_sources} sources ({parameters})",
            "Taken for granted: your sources and the new one are independent draws from one",
            "population of sources.",
        ]
        for title, items in self.sections:
            lines += ["", title]
            lines += [
                textwrap.fill(item, 88, initial_indent="- ", subsequent_indent="  ")
                for item in items
            ]
        return "\n".join(lines)

    def _proved(self) -> list[str]:
        return [
            f"{self.inside} of your {self.n_sources} sources lie inside the ball.",
            *self._coverage(),
            self._sampling(),
        ]

    def _coverage(self) -> list[str]:
        """The finite-M theorem: what it says, or that and why it says nothing."""
        if self.gamma == 0:
            return [
                "New sources: nothing. You have gamma = 0, and for finite M the theorem is about "
                "the ball enlarged by a gamma > 0. " + self._gamma_advice()
            ]
        confidence = f"with confidence {1 - self.delta:.0%}"
        lines = []
        for what, bound in (
            ("sample of a new source, drawn like yours,", self.miss_sample),
            ("new distribution itself", self.miss_distribution),
        ):
            if bound < 1:
                lines.append(
                    f"The {what} falls outside with probability at most {bound:.2g}, {confidence}."
                )
            else:
                lines.append(
                    f"The {what} falls outside with probability at most {bound:.3g}: vacuous at "
                    f"your M = {self.n_sources}."
                )
        if self.miss_sample >= 1:
            lines.append(
                f"With this gamma the bound says something from M = {_count(self.sources_needed)} "
                "on. " + self._gamma_advice()
            )
        if self.gamma >= self.gamma_all:
            lines.append(
                f"At gamma >= {self.gamma_all:.2g} the ball holds every distribution whatsoever, "
                "so what it covers is no news."
            )
        return lines

    def _gamma_advice(self) -> str:
        if self.gamma_needed < self.gamma_all:
            return (
                f"At your M = {self.n_sources} it says something for gamma > "
                f"{self.gamma_needed:.2g} (R^2 is {self.radius**2:.2g}; from gamma = "
                f"{self.gamma_all:.2g} on the ball holds every distribution)."
            )
        needed = (
            f"it would need gamma > {self.gamma_needed:.2g}"
            if math.isfinite(self.gamma_needed)
            else "no gamma is large enough"
        )
        return (
            f"At your M = {self.n_sources} {needed}, but from gamma = {self.gamma_all:.2g} on the "
            "ball holds every distribution: no gamma is of use. Some gamma is from M = "
            f"{_count(self.sources_useful)} on. {_ALTERNATIVE}"
        )

    def _sampling(self) -> str:
        """How far the ball from samples can be from the one of the distributions."""
        farthest = math.sqrt(2 * self.C)
        center = f"the centre within {self.ball_error.center:.2g}"
        if self.ball_error.center >= farthest:
            center += f" (vacuous: no two embeddings are farther apart than {farthest:.2g})"
        radius = f"the radius {self.radius:.2g} within {self.ball_error.radius:.2g}"
        if self.ball_error.radius >= self.radius:
            radius += " (vacuous)"
        return (
            f"Sampling, with confidence {1 - self.delta:.0%}: each source's embedding is within "
            f"{self.embedding_error:.2g} of its distribution's, {center}, {radius}."
        )

    def _limit(self) -> list[str]:
        claim = (
            f"A share of at least {1 - self.nu:g} of new sources is inside the ball enlarged by a "
            "gamma that falls to 0 more slowly than 1 / sqrt(M). At gamma = 0 this can fail even "
            "in the limit."
        )
        return [claim]

    def _measured(self) -> list[str]:
        lines = []
        if self.left_out:
            lines.append(
                f"Of {self.left_out} sources left out one at a time, {self.left_out_inside} fell "
                "inside the ball of the others."
            )
        if self.n_support is not None:
            lines.append(
                f"The worst case is taken over {self.n_support} support points. A continuous "
                "distribution is never among those, so that the worst-case cost bounds the true "
                "one is an observation, also where the ball covers it."
            )
        return lines


def summary(model: Any, delta: float = 0.05, *, max_left_out: int = 50) -> GuaranteeSummary:
    """Say what is promised about a new source: for this M and n, in the limit, or not at all.

    Parameters
    ----------
    model : RooDSO or SupportMeasureBall
        Fitted. The theorems are about the paper's ball; other sets state their own.
    delta : float in (0, 1), default=0.05
        Each proved statement fails with at most this probability.
    max_left_out : int, default=50
        At most this many sources are left out to measure coverage; one QP each.

    Returns
    -------
    GuaranteeSummary

    Examples
    --------
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.sets import SupportMeasureBall
    >>> shops = make_newsvendor_sources(12, (50, 100), random_state=0)
    >>> promised = summary(SupportMeasureBall(nu=0.2, gamma=0.5).fit(shops))
    >>> promised.vacuous, round(promised.miss_sample, 1), promised.sources_needed
    (True, 3.8, 274)
    >>> print(promised)  # doctest: +ELLIPSIS
    Guarantees of the ball learned from M = 12 sources (nu = 0.2, gamma = 0.5, delta = 0.05)
    ...
    - The sample of a new source, drawn like yours, falls outside with probability at most
      3.82: vacuous at your M = 12.
    ...
    """
    check_real(delta, "delta", low=0.0, high=1.0, low_open=True, high_open=True)
    check_integer(max_left_out, "max_left_out")
    learner = _ball_of(model)
    ball = learner.uncertainty_set_
    nu, gamma, C = float(learner.nu), float(learner.gamma), ball.kernel.bound
    n_sources, sizes = ball.sources.n_sources, ball.sources.sizes
    r2 = ball.radius_without_gamma**2
    squared = squared_distances_to_center(ball.gram, ball.weights)
    norm2 = float(ball.anchor_gram[0, 0])
    gamma_all = C + norm2 - r2
    risk = min(surrogate_risk(squared, r2 + membership_slack(r2, C), gamma), 1.0)
    apart = separation(ball.gram)
    left_out = _left_out(n_sources, max_left_out)
    return GuaranteeSummary(
        n_sources=n_sources,
        smallest_size=int(sizes.min()),
        largest_size=int(sizes.max()),
        nu=nu,
        gamma=gamma,
        delta=delta,
        C=C,
        radius=ball.radius_without_gamma,
        center_norm=math.sqrt(norm2),
        offset=0.5 * (_on_sphere(ball, squared) + norm2 - r2),
        inside=int((squared <= r2 + membership_slack(r2, C)).sum()),
        miss_sample=miss_bound(n_sources, risk, gamma, delta, C),
        miss_distribution=distribution_miss_bound(
            n_sources, float(np.maximum(squared - r2, 0.0).mean()), gamma, delta, C
        ),
        miss_printed=halfspace_miss_bound(n_sources, nu, gamma, delta, C),
        sources_needed=sources_needed(nu, gamma, delta, C),
        gamma_needed=gamma_needed(n_sources, nu, delta, C),
        gamma_all=gamma_all,
        sources_useful=sources_needed(nu, gamma_all, delta, C),
        embedding_error=max(embedding_bound(int(n), delta / n_sources, C) for n in sizes),
        gram_error=gram_bound(sizes, delta, C),
        separation=apart,
        ball_error=center_radius_bound(sizes, delta, nu=nu, lambda_min=apart, C=C),
        left_out=len(left_out),
        left_out_inside=sum(_inside_others(ball.gram, i, nu, gamma, C) for i in left_out),
        n_support=len(model.solution_.support) if hasattr(model, "solution_") else None,
        caveats=tuple(_caveats(model, learner)),
    )


def _ball_of(model: Any) -> SupportMeasureBall:
    """The fitted ball of a model that has one."""
    learner = model
    if hasattr(model, "loss"):
        check_is_fitted(model, "solution_")
        learner = getattr(model, "set_learner_", None)
    # Subclasses may learn weights or radius otherwise, and then nothing here would hold.
    if type(learner) is not SupportMeasureBall:
        own = ""
        if hasattr(learner, "statement"):
            own = "; this set states its own: model.set_learner_.statement()"
        raise TypeError(
            "model must be a fitted SupportMeasureBall, or a fitted RooDSO that learned one: the "
            f"paper's theorems are about that ball, got {type(learner or model).__name__}{own}"
        )
    check_is_fitted(learner, "uncertainty_set_")
    return learner


def _on_sphere(ball: UncertaintySet, squared: Array) -> float:
    """Squared norm of the source that defines the radius: the paper's i' in BSM."""
    nearest = int(np.argmin(np.abs(squared - ball.radius_without_gamma**2)))
    return float(ball.gram[nearest, nearest])


def _left_out(n_sources: int, at_most: int) -> list[int]:
    """Which sources to leave out: all, or some evenly spread; none where none would be left."""
    if n_sources < 2:
        return []
    count = min(n_sources, at_most)
    return [round(i * n_sources / count) for i in range(count)]


def _inside_others(gram: Array, i: int, nu: float, gamma: float, C: float) -> bool:
    """Whether source i lies inside the ball learned from all others, kernel unchanged."""
    others = np.arange(len(gram)) != i
    rest = gram[np.ix_(others, others)]
    alpha = solve_dual(rest, nu)
    r2 = squared_radius(squared_distances_to_center(rest, alpha), nu)
    distance2 = gram[i, i] - 2 * gram[i, others] @ alpha + alpha @ rest @ alpha
    return bool(distance2 <= r2 + gamma + membership_slack(r2 + gamma, C))


def _caveats(model: Any, learner: SupportMeasureBall) -> list[str]:
    sources = learner.uncertainty_set_.sources
    small, large = int(sources.sizes.min()), int(sources.sizes.max())
    found = []
    if isinstance(learner.bandwidth, str) and None in as_kernel(learner.kernel).bandwidths:
        found.append(
            "The bandwidth is the median of these data; the proofs take a kernel fixed beforehand."
        )
    if learner.scale:
        found.append("Columns were scaled by these data; the proofs take the kernel as given.")
    if learner.clip is not None:
        found.append(
            "Values beyond quantiles of these data count as those; all that is said is of clipped "
            "distributions, and the proofs take the kernel as given."
        )
    if small != large:
        found.append(
            f"Your sources have {small} to {large} samples. What is said of a new source's sample "
            "is for sizes drawn like these; one with far fewer falls outside more often."
        )
    if getattr(model, "gram", "samples") == "herded":
        found.append(
            "Weights and radius come from herded samples, so nu promises nothing about the share "
            "of sources inside; the bounds here use the share that was measured."
        )
    if sources.n_sources == 1:
        found.append("One source says nothing about how sources differ.")
    return found


def _count(number: float) -> str:
    return f"{number:,.0f}" if math.isfinite(number) else "infinity"
