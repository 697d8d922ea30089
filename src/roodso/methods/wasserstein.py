r"""Distributionally robust over a 1-Wasserstein ball round the pooled samples.

.. math:: \min_{x \in \mathcal X} \; \sup \Big\{ \mathrm E_P f(x, \xi) :
          W_1(P, \hat P^\cup) \le \epsilon, \; P(\Xi) = 1 \Big\}

(paper, section 4, "DRO-W"), with the pooled empirical distribution, each row of which has the
weight 1/N. See `roodso.solver.wasserstein` for how the worst case becomes an average.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import check_choice, check_real
from roodso.losses.base import Problem
from roodso.methods.base import SampleMethod
from roodso.solver.solution import Solution
from roodso.solver.wasserstein import WassersteinBall, check_ball, solve_over_ball
from roodso.sources import Sources
from roodso.support import check_box, data_box

__all__ = ["WassersteinDRO"]


class WassersteinDRO(SampleMethod):
    r"""Distributionally robust over a 1-Wasserstein ball round the pooled samples.

    On the whole space the worst case of a loss with Lipschitz constant L(x) in xi is its sample
    average plus ``radius * L(x)``:

    - **newsvendor**: :math:`L = |\max(b, p + h)|_*` does not depend on x, so the decision is that
      of `SAA` whatever the radius; ``objective_`` is larger by ``radius * L``;
    - **mean-CVaR portfolio**: :math:`L(x) = (1 + \delta_1/\delta_2) |x|_*`, which spreads the
      weights (with ``norm=inf`` it is constant too, since the weights add up to one);
    - **any convex loss** that comes with its constant, ``ConvexLoss(..., lipschitz=...)``. The
      value is exact where the loss is convex in xi and the constant the smallest one. Otherwise it
      is an upper bound on the worst case, and ``lower_bound`` is one for the programme with
      the bound in its place.

    Here :math:`|\cdot|_*` is the dual of the ground norm: inf for 1, 2 for 2, 1 for inf. Within a
    box the mass cannot go where it would cost most, and the decisions differ from SAA's.

    Parameters
    ----------
    loss : Loss
        What a decision costs: `Newsvendor` or `CVaRPortfolio`; `ConvexLoss` with ``lipschitz`` on
        the whole space.
    radius : float, default=0.1
        epsilon >= 0, in the units of the data: the mean way that mass may be moved. No value suits
        all data; choose it on data held out.
    norm : {1, 2, inf}, default=2
        The norm that ways are measured in.
    support : {"unbounded", "box"}, default="unbounded"
        Where the worst case may put mass: the whole space, or a box.
    support_box : (lower, upper), optional
        The box, which must hold all samples; by default the samples' own.
    tol : float, default=1e-6
        Relative certified gap to reach.
    max_iter : int, default=2000
        Rounds of the solver.
    time_limit : float, optional
        Seconds for the solver.
    progress : callable, optional
        ``progress(stage, fraction_or_None, details)``.

    Attributes
    ----------
    decision_ : ndarray of shape (n,) or Series
    objective_ : float
        Certified upper bound on the worst-case expected loss.
    solution_ : Solution
        ``multipliers`` holds lambda, the price of the radius. With a box, ``support`` holds the
        samples and where they are moved, and ``worst_case_weights`` a distribution in the ball that
        no decision brings below ``lower_bound``. On the whole space the worst case is in general
        approached only, by ever smaller portions of mass that go ever further: the weights are
        then those of the samples, the centre of the ball, which do not reach the bound.

    Examples
    --------
    >>> from roodso import SAA
    >>> from roodso.losses import Newsvendor
    >>> demand = {"north": [[1.0], [2.0], [3.0]], "south": [[9.0]]}
    >>> loss = Newsvendor(price=2, cost=1, backorder=1)
    >>> model = WassersteinDRO(loss, radius=2).fit(demand)
    >>> model.objective_ - SAA(loss).fit(demand).objective_  # radius * max(b, p + h)
    4.0
    >>> within = WassersteinDRO(loss, radius=2, support="box", support_box=([0], [10])).fit(demand)
    >>> model.decision_.tolist(), within.decision_.round(2).tolist()
    ([3.0], [2.0])
    """

    _ball: WassersteinBall

    def __init__(
        self,
        loss: Any,
        *,
        radius: float = 0.1,
        norm: float = 2,
        support: str = "unbounded",
        support_box: Any = None,
        tol: float = 1e-6,
        max_iter: int = 2000,
        time_limit: float | None = None,
        progress: Any = None,
    ) -> None:
        self.loss = loss
        self.radius = radius
        self.norm = norm
        self.support = support
        self.support_box = support_box
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.progress = progress

    def _validate(self) -> None:
        super()._validate()
        check_real(self.radius, "radius", low=0.0)
        if not isinstance(self.norm, Real) or self.norm not in (1, 2, np.inf):
            raise ValueError(f"norm must be 1, 2 or inf, got {self.norm!r}")
        check_choice(self.support, "support", ("unbounded", "box"))
        if self.support_box is not None and self.support != "box":
            raise ValueError('support_box has no effect unless support="box"')

    def _paper_grid(self, n_sources: int) -> dict[str, list[Any]]:
        return {"radius": [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2]}

    def _fit_prepared(self, sources: Sources, warm: Any = None) -> None:
        box = self._box(sources.samples)
        problem = self._bind(*(data_box(sources.samples) if box is None else box))
        self._ball = WassersteinBall(float(self.radius), float(self.norm), box)
        check_ball(problem, self._ball)
        self._sources = sources
        self._finish(sources, problem, self._solve(problem))

    def _box(self, samples: Array) -> tuple[Array, Array] | None:
        if self.support == "unbounded":
            return None
        lower, upper = check_box(self.support_box, samples)
        outside = ((samples < lower) | (samples > upper)).any(axis=1)
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise ValueError(
                f"support_box must hold all samples, got row {row} outside: {samples[row].tolist()}"
            )
        return lower, upper

    def _solve(self, problem: Problem) -> Solution:
        return solve_over_ball(problem, self._sources, self._ball, self._options())
