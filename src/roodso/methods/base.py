"""What all methods share: data at the door, a decision with the user's names, a score."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array
from roodso._validation import as_vector, check_integer, check_real, check_table
from roodso.exceptions import ConvergenceWarning
from roodso.losses.base import Loss, Origin, Problem
from roodso.solver.mixtures import solve_mixtures
from roodso.solver.rows import LoopOptions
from roodso.solver.solution import Solution
from roodso.sources import Sources, match_columns
from roodso.support import data_box

__all__ = ["DecisionMaker", "SampleMethod"]


class DecisionMaker(BaseEstimator, ABC):
    """Base of the methods: estimators whose fit ends in a decision.

    Attributes
    ----------
    decision_ : ndarray of shape (n,) or Series
        In the user's units; a Series where the data had column names and there is one decision
        per column.
    objective_ : float
        Certified upper bound on the worst-case expected loss of the method's own programme.
    solution_ : Solution
    """

    # Without this, scikit-learn would not hand groups on where its metadata routing is enabled.
    __metadata_request__fit = {"groups": True}

    loss: Any

    # All that fitting sets. What is annotated here and in the subclasses is what `save` writes,
    # and `roodso.load` accepts nothing else.
    solution_: Solution
    decision_: Array | pd.Series
    objective_: float
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]
    _problem: Problem
    _names: tuple[str, ...] | None

    def fit(self, X: Any, y: None = None, groups: Any = None) -> Self:
        """Learn from samples of M sources and decide.

        Parameters
        ----------
        X : (N, d) array or DataFrame, or mapping or sequence of (n_i, d) tables
        y : ignored
        groups : sequence of length N, or str
            The source of each row, where ``X`` is stacked; or the name of its column, where ``X``
            is a DataFrame.

        Returns
        -------
        self
        """
        self._validate()
        self._fit_prepared(self._prepare(Sources.from_data(X, groups)))
        return self

    @abstractmethod
    def _validate(self) -> None:
        """Check the parameters before any work."""

    def _prepare(self, sources: Sources) -> Any:
        """What fits to the same sources can share: whatever `_preparation` and the data determine.

        It has a method ``restricted(rows)`` that gives the same for some of the samples.
        """
        return sources

    def _preparation(self) -> dict[str, Any]:
        """The parameters that `_prepare` depends on; models that agree on them share it."""
        return {}

    @abstractmethod
    def _fit_prepared(self, prepared: Any, warm: Any = None) -> None:
        """Learn and solve; ends with `_finish`."""

    def _paper_grid(self, n_sources: int) -> dict[str, list[Any]]:
        """What the paper searches for this method's parameters; empty where it has none."""
        return {}

    def _warm_start(self) -> Any:
        """What a fit to the same preparation with neighbouring parameters can begin from."""
        return None

    def _check_loss(self) -> Loss:
        if not isinstance(self.loss, Loss):
            raise TypeError(
                "loss must be a roodso loss (Newsvendor, CVaRPortfolio, ConvexLoss), "
                f"got {self.loss!r}"
            )
        return self.loss

    def _bind(self, lower: Array, upper: Array) -> Problem:
        """Bind the loss, and note to what: a saved model binds it again when it is loaded."""
        loss = self._check_loss()
        problem = loss.bind(lower, upper)
        problem.region.some_point()  # refuses a region that is empty
        problem.origin = Origin(copy(loss), lower, upper)
        return problem

    def _finish(self, sources: Sources, problem: Problem, solution: Solution) -> None:
        """Set the results that all methods have, and say where the solver fell short."""
        self._problem = problem
        self._names = sources.names
        self.n_features_in_ = sources.n_columns
        if sources.names is not None:
            self.feature_names_in_ = np.asarray(sources.names, dtype=object)
        self.solution_ = solution
        self.decision_ = solution.decision.copy()
        if sources.names is not None and problem.n_decisions == sources.n_columns:
            self.decision_ = pd.Series(self.decision_, index=list(sources.names), name="decision")
        self.objective_ = solution.upper_bound
        if solution.status not in ("optimal", "restricted", "stopped by epsilon"):
            hint = ""
            if solution.status == "low rank" and solution.embedding is not None:
                hint = (
                    f" ({solution.embedding.summary()}; a larger max_rank or memory_limit, or "
                    "embedding='exact', narrows it)"
                )
            warnings.warn(
                f"the solver stopped with status {solution.status!r} at a certified relative gap "
                f"of {solution.gap:.2g}; both bounds hold{hint}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def score(self, X: Any, y: None = None) -> float:
        """Minus the mean loss of the decision on new data: higher is better.

        Internal variables of the loss are those that are best for the new data given the decision
        (tau of the CVaR).

        Parameters
        ----------
        X : (n, d) array or DataFrame
        y : ignored
        """
        check_is_fitted(self, "solution_")
        return self._score_table(
            check_table(match_columns(X, self._names), "X", width=self.n_features_in_)
        )

    def _score_table(self, table: Array) -> float:
        """`score` of a table that has been checked."""
        weights = np.full(len(table), 1.0 / len(table))
        z = self._problem.complete(self.solution_.decision, table, weights)
        return -float(self._problem.values(z, table).mean())

    def worst_case_cost(self, x: Any) -> Solution:
        """Certified bounds on the worst-case cost of any decision, and the worst distribution.

        Worst is meant as the method means it: over its own set of distributions. For the methods
        that know one distribution only, it is the mean cost.

        Parameters
        ----------
        x : sequence of length n
            A decision, in the user's units. Side constraints and upper bounds of the loss need not
            hold: the question is what it could cost.

        Returns
        -------
        Solution
            With ``decision`` = x; the worst case lies between ``lower_bound`` and ``upper_bound``.
        """
        check_is_fitted(self, "solution_")
        if isinstance(x, pd.Series) and isinstance(self.decision_, pd.Series):
            x = match_columns(x.to_frame().T, self._names, "x").iloc[0]
        return self._worst_case(as_vector(x, "x", self._problem.n_decisions))

    @abstractmethod
    def _worst_case(self, x: Array) -> Solution:
        """Solve the programme with the decision fixed at ``x``."""

    def save(self, path: str | os.PathLike[str], *, include_loss: bool = True) -> None:
        """Write the model to a portable file that `roodso.load` reads.

        Pickle restores more, and runs whatever code a file holds; loading this one runs none. Not
        kept are ``progress`` and scikit-learn's metadata requests. A numpy Generator is kept with
        its state where its bit generator is PCG64, PCG64DXSM or SFC64.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced, once the new one is complete.
        include_loss : bool, default=True
            False leaves the loss out, as one made of Python functions (`ConvexLoss`) must be;
            then it has to be given to `roodso.load` again.

        Raises
        ------
        TypeError
            Where something has no portable form. Nothing has been written then.
        """
        # The registry of what can be loaded lists all methods, so it cannot be imported above.
        from roodso.portable import save

        save(self, path, include_loss=include_loss)


class SampleMethod(DecisionMaker):
    """Base of the methods without a kernel: what they decide by are averages over samples.

    Parameters
    ----------
    loss : Loss
    tol : float, default=1e-6
        Relative certified gap to reach.
    max_iter : int, default=2000
        Rounds of the solver.
    time_limit : float, optional
        Seconds for the solver.
    progress : callable, optional
        ``progress(stage, fraction_or_None, details)``.
    """

    tol: float
    max_iter: int
    time_limit: float | None
    progress: Any

    _sources: Sources

    def _validate(self) -> None:
        self._check_loss()
        check_real(self.tol, "tol", low=0.0, low_open=True)
        check_integer(self.max_iter, "max_iter", low=1)
        if self.time_limit is not None:
            check_real(self.time_limit, "time_limit", low=0.0, low_open=True)
        if self.progress is not None and not callable(self.progress):
            raise TypeError(f"progress must be callable or None, got {self.progress!r}")

    def _fit_prepared(self, sources: Sources, warm: Any = None) -> None:
        problem = self._bind(*data_box(sources.samples))
        self._sources = sources
        self._finish(sources, problem, self._solve(problem))

    def _worst_case(self, x: Array) -> Solution:
        return self._solve(self._problem.at(x))

    def _solve(self, problem: Problem) -> Solution:
        """Minimise the worst mixture of the anchors' averages."""
        anchors, cap = self._anchors()
        return solve_mixtures(problem, self._sources, anchors, self._options(), cap=cap)

    def _anchors(self) -> tuple[Array, float]:
        """Weights of the samples in each average, (N, K), and the cap on an average's weight.

        By default the pooled rows, each with weight 1/N.
        """
        n = self._sources.n_samples
        return np.full((n, 1), 1.0 / n), 1.0

    def _options(self) -> LoopOptions:
        return LoopOptions(
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=np.inf if self.time_limit is None else float(self.time_limit),
            progress=self.progress,
        )
