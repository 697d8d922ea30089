r"""DRO-Intx: the decision that is best against the worst distribution near all sources at once.

.. math:: \min_{x \in \mathcal X} \; \sup \{ \mathrm E_P f(x, \xi) :
          W_1(P, \hat P_i) \le \epsilon_i, \; i = 1, \dots, M \}

(paper, eq:intersection_ambiguity_set). On support points, the samples and points drawn in their
box, the programme is a linear one that M enters additively (`roodso.solver.intersection`). On the
whole box it is exponential in M, so that form is offered for two sources only.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import (
    as_vector,
    check_choice,
    check_integer,
    check_jobs,
    check_real,
    check_seed,
)
from roodso.exceptions import DegenerateDataWarning
from roodso.losses.base import Problem
from roodso.methods.base import DecisionMaker
from roodso.solver.average import first_decision
from roodso.solver.intersection import (
    Balls,
    GenerationOptions,
    Inner,
    IntersectionSolution,
    check_continuous,
    find_inner,
    smallest_factor,
    solve_continuous,
    solve_intersection,
)
from roodso.sources import Sources
from roodso.support import data_box, latin_hypercube
from roodso.transport import pairwise_wasserstein

__all__ = ["IntersectionDRO"]


class IntersectionDRO(DecisionMaker):
    """Robust against all distributions within given W1 distances of every source.

    Parameters
    ----------
    loss : Loss
        Any loss. With ``support="continuous"`` only those whose cost is a maximum of functions
        linear in the data: `Newsvendor` and `CVaRPortfolio`.
    radius : float or sequence of length M, optional
        Of all balls, or of each source's in order of first appearance, in the data's units. By
        default the largest W1 distance between two sources, the paper's choice for M > 2, with
        which every source's own distribution lies in the set.
    n_support : int, default=200
        J, the number of support points drawn by Latin hypercube besides the samples.
    lambdas : (float, float), optional
        The paper's lambda_1 in [0, 1] and lambda_2 >= 0 for two sources, instead of ``radius``:
        the radii are lambda_1 (1 + lambda_2) W1 and (1 - lambda_1) (1 + lambda_2) W1.
    support : {"discrete", "continuous"}, default="discrete"
        Whether the worst case lives on the support points or anywhere in the samples' box. The
        latter is for two sources, the Euclidean norm and few samples: its size grows with
        n_1 n_2 times the pieces of the loss (2^d for a newsvendor of d items).
    norm : {2, 1, inf}, default=2
        Of the distance between data points that W1 is built on.
    tol : float, default=1e-6
        Relative certified gap to reach.
    max_iter : int, default=2000
    max_rows : int, default=20
        Support points added per round.
    time_limit : float, optional
        Seconds for the solver.
    random_state : int, Generator or None, default=None
        Draws the support points.
    n_jobs : int or None, default=None
        Threads for looking at all support points; None means all cores. It changes no result.
    progress : callable, optional
        ``progress(stage, fraction_or_None, details)``.

    Attributes
    ----------
    decision_ : ndarray of shape (n,) or Series
    objective_ : float
        Certified upper bound on the worst-case expected loss.
    radii_ : ndarray of shape (M,)
    solution_ : IntersectionSolution
        Bounds, the worst-case distribution, and the multipliers that prove the upper bound.

    Examples
    --------
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.losses import Newsvendor
    >>> shops = make_newsvendor_sources(5, (30, 100), random_state=0)
    >>> loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
    >>> model = IntersectionDRO(loss, radius=1.2, random_state=0).fit(shops)
    >>> model.decision_.round(2).tolist()
    [2.34, 1.77]
    >>> model.solution_.status, model.solution_.gap < 1e-6
    ('optimal', True)
    """

    radii_: Array
    solution_: IntersectionSolution
    _balls: Balls
    _inner: Inner

    def __init__(
        self,
        loss: Any,
        radius: Any = None,
        n_support: int = 200,
        *,
        lambdas: Any = None,
        support: str = "discrete",
        norm: Any = 2,
        tol: float = 1e-6,
        max_iter: int = 2000,
        max_rows: int = 20,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: Any = None,
    ) -> None:
        self.loss = loss
        self.radius = radius
        self.n_support = n_support
        self.lambdas = lambdas
        self.support = support
        self.norm = norm
        self.tol = tol
        self.max_iter = max_iter
        self.max_rows = max_rows
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    def smallest_factor(self, X: Any, groups: Any = None) -> float:
        """The smallest factor of the radii that leaves a distribution in all balls.

        Where it exceeds 1, `fit` refuses: the set is empty. It is an upper bound within ``tol``
        of the true factor, attained by a distribution; infinite where two sources that differ
        have radius 0.

        Parameters
        ----------
        X, groups
            As for `fit`.

        Returns
        -------
        float

        Examples
        --------
        >>> from roodso.losses import Newsvendor
        >>> model = IntersectionDRO(Newsvendor(price=50, cost=20), radius=1.0, random_state=0)
        >>> round(model.smallest_factor({"north": [[1.0], [2.0]], "south": [[7.0], [8.0]]}), 6)
        3.0
        """
        self._validate()
        sources = Sources.from_data(X, groups)
        balls, pairwise = self._learn(sources)
        return smallest_factor(balls, self._options(), pairwise)[1]

    def _worst_case(self, x: Array) -> IntersectionSolution:
        start = np.concatenate([x, self.solution_.internal])
        return self._solve(self._problem.at(x), start)

    def _validate(self) -> None:
        self._check_loss()
        check_integer(self.n_support, "n_support")
        check_choice(self.support, "support", ("discrete", "continuous"))
        _check_norm(self.norm, self.support)
        if self.lambdas is not None:
            if self.radius is not None:
                raise ValueError("give either radius or lambdas, which are the paper's for M = 2")
            _check_lambdas(self.lambdas)
        if self.radius is not None and np.ndim(self.radius) == 0:
            check_real(self.radius, "radius", low=0.0)
        check_real(self.tol, "tol", low=0.0, low_open=True)
        check_integer(self.max_iter, "max_iter", low=1)
        check_integer(self.max_rows, "max_rows", low=1)
        if self.time_limit is not None:
            check_real(self.time_limit, "time_limit", low=0.0, low_open=True)
        if self.progress is not None and not callable(self.progress):
            raise TypeError(f"progress must be callable or None, got {self.progress!r}")
        check_jobs(self.n_jobs)
        check_seed(self.random_state)

    def _paper_grid(self, n_sources: int) -> dict[str, list[Any]]:
        if n_sources != 2:
            return {}  # the paper calls tuning M radii prohibitive, and takes the heuristic
        shares = [round(0.1 * k, 1) for k in range(11)]
        return {"lambdas": [(a, b) for a in shares for b in (0.002, 0.005, 0.01, 0.02)]}

    def _fit_prepared(self, sources: Sources, warm: Any = None) -> None:
        started = time.perf_counter()
        balls, pairwise = self._learn(sources)
        problem = self._bind(*data_box(balls.support))
        if self.support == "continuous":
            check_continuous(problem, balls)
        learned = time.perf_counter()
        self.radii_, self._balls = balls.radii, balls
        self._inner = find_inner(balls, self._options(), pairwise)
        found = time.perf_counter()
        if not balls.radii.any():
            warnings.warn(
                "all radii are 0 (one source, or sources that do not differ): the decision is the "
                "best for their distribution and guards against nothing else",
                DegenerateDataWarning,
                stacklevel=4,
            )
        pooled = np.full(sources.n_samples, 1.0 / sources.n_samples)
        solution = self._solve(problem, first_decision(problem, sources.samples, pooled))
        timings = {"distances": learned - started, "inside": found - learned, **solution.timings}
        self._finish(sources, problem, replace(solution, timings=timings))

    def _learn(self, sources: Sources) -> tuple[Balls, Array | None]:
        """Balls on their support, and the distances between sources where those were needed."""
        norm = float(self.norm)
        pairwise = None
        if self.radius is None or sources.n_sources == 2:
            pairwise = pairwise_wasserstein(sources, norm)
        radii = self._radii(sources, pairwise)
        drawn = np.empty((0, sources.n_columns))
        if self.support == "discrete":
            rng = np.random.default_rng(self.random_state)
            drawn = latin_hypercube(*data_box(sources.samples), self.n_support, rng)
        return Balls(sources, np.vstack([sources.samples, drawn]), radii, norm), pairwise

    def _radii(self, sources: Sources, pairwise: Array | None) -> Array:
        n_sources = sources.n_sources
        if self.lambdas is not None:
            if n_sources != 2:
                raise ValueError(f"lambdas are for two sources, got {n_sources}: give radius")
            assert pairwise is not None
            first, second = self.lambdas
            shares = np.array([first, 1.0 - first])
            return np.asarray(shares * (1.0 + second) * pairwise[0, 1])
        if self.radius is None:
            assert pairwise is not None
            return np.full(n_sources, pairwise.max())
        if np.ndim(self.radius) > 0 and len(self.radius) != n_sources:
            raise ValueError(
                f"radius must be a number or one for each of the {n_sources} sources, "
                f"got {len(self.radius)}"
            )
        radii = as_vector(self.radius, "radius", n_sources)
        if (radii < 0).any():
            raise ValueError(f"radius must be >= 0, got {radii.min():g}")
        return radii

    def _solve(self, problem: Problem, start: Array) -> IntersectionSolution:
        if self.support == "continuous":
            return solve_continuous(problem, self._balls, self._inner, self._options(), start)
        return solve_intersection(problem, self._balls, self._inner, self._options(), start)

    def _options(self) -> GenerationOptions:
        return GenerationOptions(
            tol=self.tol,
            max_iter=self.max_iter,
            max_rows=self.max_rows,
            time_limit=np.inf if self.time_limit is None else float(self.time_limit),
            n_jobs=check_jobs(self.n_jobs),
            progress=self.progress,
        )


def _check_norm(norm: Any, support: str) -> None:
    if isinstance(norm, bool) or norm not in (1, 2, np.inf):
        raise ValueError(f"norm must be 1, 2 or inf, got {norm!r}")
    if support == "continuous" and norm != 2:
        raise ValueError(f"norm must be 2 where support is 'continuous', got {norm!r}")


def _check_lambdas(lambdas: Any) -> None:
    if not isinstance(lambdas, (tuple, list)) or len(lambdas) != 2:
        raise TypeError(f"lambdas must be a pair (lambda_1, lambda_2), got {lambdas!r}")
    check_real(lambdas[0], "lambdas[0]", low=0.0, high=1.0)
    check_real(lambdas[1], "lambdas[1]", low=0.0)
