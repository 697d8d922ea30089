"""Choose parameters by what the decisions cost on sources held out.

For each fold and each candidate a decision is made from the fold's training rows and judged on each
held-out source by its mean cost there. What candidates and folds can share is computed once: with
one source left out, the mean embeddings of the others at the remaining support points are known
from the pass over all samples, so only the small programmes differ (``refit_kernel=False``: kernel,
bandwidth, scale and box are those of all sources, and the held-out source's rows leave the
support). ``refit_kernel=True`` learns them anew from each fold's training rows, one pass a fold.
"""

from __future__ import annotations

import logging
import numbers
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from roodso._typing import Progress
from roodso._validation import check_jobs, check_real
from roodso.exceptions import SolverError
from roodso.methods import SAA
from roodso.methods.base import DecisionMaker
from roodso.model_selection.criteria import CRITERIA, as_criterion, summarize
from roodso.model_selection.folds import Fold, make_folds
from roodso.model_selection.journal import Journal, fingerprint
from roodso.sources import Sources

__all__ = ["Selection", "fit_grid", "paper_grid", "select"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Selection:
    """What `select` found.

    Attributes
    ----------
    best_params_ : dict
    best_index_ : int
        Place of the best candidate in ``cv_results_``.
    best_score_ : float
        Minus its criterion: higher is better, as everywhere in scikit-learn.
    best_estimator_ : DecisionMaker or None
        Fitted to all sources with the best parameters; None with ``refit=False``.
    cv_results_ : dict
        One entry a candidate in each array, ready for a DataFrame: ``params``, ``param_<name>``,
        the criteria ``mean``, ``worst``, ``cvar``, ``regret``, ``worst regret``; ``score`` and
        ``rank``; ``objective``, the mean over folds of the method's own worst-case value; and
        ``seconds``.
    costs_ : DataFrame
        One row a candidate and held-out source: ``candidate``, ``fold``, ``source``, ``rows``,
        ``cost``, ``optimum`` (the least mean cost that any one decision has on these rows),
        ``objective`` and ``seconds`` (of the candidate's fit in this fold).
    """

    best_params_: dict[str, Any]
    best_index_: int
    best_score_: float
    best_estimator_: DecisionMaker | None
    cv_results_: dict[str, Any]
    costs_: pd.DataFrame


def paper_grid(model: DecisionMaker, n_sources: int) -> dict[str, list[Any]]:
    """The grid that the paper searches for a method (section 4.1.1); empty where it has none.

    Examples
    --------
    >>> from roodso import RooDSO
    >>> from roodso.losses import Newsvendor
    >>> grid = paper_grid(RooDSO(Newsvendor(price=5, cost=2)), n_sources=20)
    >>> len(grid["nu"]), grid["nu"][:2]
    (19, [0.05, 0.1])
    """
    return model._paper_grid(n_sources)


def select(
    model: DecisionMaker,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None,
    X: Any,
    groups: Any = None,
    *,
    criterion: Any = "mean",
    tail: float = 0.2,
    cv: Any = None,
    refit: bool = True,
    refit_kernel: bool = False,
    n_jobs: int | None = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Search a grid of parameters by costs on held-out sources.

    Parameters
    ----------
    model : DecisionMaker
        `roodso.RooDSO` or a rival; it is cloned, not changed.
    grid : mapping of name to values, sequence of such mappings, or None
        As for scikit-learn's ``ParameterGrid``; None takes the paper's grid for the method.
    X, groups
        Data as for the model's ``fit``.
    criterion : {"mean", "worst", "cvar", "regret", "worst regret"} or callable, default="mean"
        See `roodso.model_selection.criteria`; a callable takes the array of the held-out sources'
        costs and returns a number that is better when lower. Among equals the first candidate
        wins.
    tail : float in (0, 1], default=0.2
        Share of held-out sources that "cvar" averages.
    cv : scikit-learn splitter, iterable of (train, test), or None
        None leaves one source out at a time; `WithinSourceSplit` is the paper's 80/20 validation.
    refit : bool, default=True
        Whether to fit the best candidate to all sources.
    refit_kernel : bool, default=False
        Whether each fold learns kernel, bandwidth, scale and box from its training rows alone. A
        bandwidth given as a number stays.
    n_jobs : int or None, default=1
        Folds at a time, each in a process of its own; None and -1 mean all cores. It changes no
        result.
    checkpoint : path, optional
        A file that keeps finished folds; called again with the same arguments, they are not
        computed again. The model's random_state must then be a number.
    progress : callable, optional
        ``progress("select", share_done, details)`` after each fold.

    Returns
    -------
    Selection

    Examples
    --------
    >>> from roodso import RooDSO
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.losses import Newsvendor
    >>> shops = make_newsvendor_sources(8, 40, random_state=0)
    >>> model = RooDSO(Newsvendor(price=[50, 40], cost=[20, 15]), random_state=0)
    >>> found = select(model, {"nu": [0.1, 0.5, 0.9]}, shops, criterion="worst")
    >>> found.best_params_, found.costs_.shape
    ({'nu': 0.9}, (24, 8))
    """
    if not isinstance(model, DecisionMaker):
        raise TypeError(f"model must be a method of this library, got {model!r}")
    tail = check_real(tail, "tail", low=0.0, high=1.0, low_open=True)
    judge = as_criterion(criterion, tail)
    sources = Sources.from_data(X, groups)
    candidates = _candidates(model, paper_grid(model, sources.n_sources) if grid is None else grid)
    folds = make_folds(sources, cv)
    journal = _journal(checkpoint, model, candidates, sources, folds, refit_kernel)
    search = _Search(model, candidates, sources, refit_kernel)
    for share in search.run(folds, journal, 1 if n_jobs == 1 else check_jobs(n_jobs)):
        if progress is not None:
            progress("select", share, {"folds": len(folds), "candidates": len(candidates)})
    costs = _tidy(search, folds, journal)
    results = _results(candidates, costs, judge, tail)
    best = int(np.argmax(results["score"]))
    return Selection(
        best_params_=candidates[best],
        best_index_=best,
        best_score_=float(results["score"][best]),
        best_estimator_=search.refit(best) if refit else None,
        cv_results_=results,
        costs_=costs,
    )


def fit_grid(model: DecisionMaker, grid: Any, X: Any, groups: Any = None) -> list[DecisionMaker]:
    """Fit every setting of a grid to all sources, sharing kernel values and warm starts.

    Parameters
    ----------
    model, grid, X, groups
        As for `select`.

    Returns
    -------
    list of DecisionMaker
        In the order of scikit-learn's ``ParameterGrid``.
    """
    candidates = _candidates(model, grid)
    search = _Search(model, candidates, Sources.from_data(X, groups), refit_kernel=False)
    return search.fit_all()


def _candidates(model: DecisionMaker, grid: Any) -> list[dict[str, Any]]:
    """All parameter settings, each checked on a clone before any work."""
    try:
        candidates = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise type(error)(f"grid must map names to sequences of values: {error}") from None
    for parameters in candidates:
        _with(model, parameters)._validate()
    return candidates


def _with(model: DecisionMaker, parameters: Mapping[str, Any]) -> DecisionMaker:
    """A clone with parameters set, which shares no estimator with other candidates."""
    fresh: DecisionMaker = clone(model)
    fresh.set_params(**{name: clone(value, safe=False) for name, value in parameters.items()})
    if "progress" in fresh.get_params(deep=False):
        fresh.set_params(progress=None)
    return fresh


def _journal(
    path: Any,
    model: DecisionMaker,
    candidates: list[dict[str, Any]],
    sources: Sources,
    folds: list[Fold],
    refit_kernel: bool,
) -> Journal:
    if path is None:
        return Journal(None, "")
    seed = model.get_params().get("random_state", 0)
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
        raise ValueError(
            f"checkpoint needs a model with a whole number as random_state, got {seed!r}: a "
            "resumed run would draw other support points"
        )
    rows = [(fold.train, [unit for _, unit in fold.units]) for fold in folds]
    data = (sources.samples, sources.codes)
    return Journal(path, fingerprint(model, candidates, data, rows, bool(refit_kernel)))


class _Search:
    """The candidates, in batches that share what is prepared from the data."""

    def __init__(
        self,
        model: DecisionMaker,
        candidates: list[dict[str, Any]],
        sources: Sources,
        refit_kernel: bool,
    ) -> None:
        self.models = [_with(model, parameters) for parameters in candidates]
        self.sources = sources
        self.refit_kernel = refit_kernel
        batches: dict[str, list[int]] = {}
        for place, candidate in enumerate(self.models):
            batches.setdefault(fingerprint(candidate._preparation()), []).append(place)
        self.batches = list(batches.values())
        self._latest: tuple[int, Any] | None = None

    def _prepared(self, batch: int) -> Any:
        """What a batch's fits share; that of one batch is kept."""
        if self._latest is None or self._latest[0] != batch:
            self._latest = (batch, self.models[self.batches[batch][0]]._prepare(self.sources))
        return self._latest[1]

    def run(self, folds: list[Fold], journal: Journal, n_jobs: int) -> Iterator[float]:
        """Run what the journal lacks; yields the share done after each fold."""
        total = len(self.batches) * len(folds)
        for batch, places in enumerate(self.batches):
            missing = [f for f in range(len(folds)) if f"{batch}/{f}" not in journal.results]
            if not missing:
                continue
            models = [self.models[place] for place in places]
            prepared = None if self.refit_kernel else self._prepared(batch)
            # In any order: a fold that is finished is noted at once, whatever those before it do.
            parallel = Parallel(n_jobs=min(n_jobs, len(missing)), return_as="generator_unordered")
            outcomes = parallel(
                delayed(_run_fold)(models, prepared, self.sources, folds[f], f) for f in missing
            )
            for f, outcome in outcomes:
                journal.add(f"{batch}/{f}", outcome)
                yield len(journal.results) / total

    def refit(self, place: int) -> DecisionMaker:
        """The candidate fitted to all sources, from what is prepared already if it still is."""
        batch = next(b for b, places in enumerate(self.batches) if place in places)
        model = self.models[place]
        model._fit_prepared(self._prepared(batch))
        return model

    def fit_all(self) -> list[DecisionMaker]:
        """All candidates fitted to all sources, each begun from its neighbour."""
        for batch, places in enumerate(self.batches):
            warm = None
            for place in places:
                self.models[place]._fit_prepared(self._prepared(batch), warm)
                warm = self.models[place]._warm_start()
        return self.models


def _run_fold(
    models: list[DecisionMaker], prepared: Any, sources: Sources, fold: Fold, number: int
) -> tuple[int, dict[str, Any]]:
    """Fit each model to the fold's training rows and judge it on each held-out source.

    Returns the fold's number with what came of it.
    """
    if prepared is None:
        prepared = models[0]._prepare(sources.restricted(fold.train))
    else:
        prepared = prepared.restricted(fold.train)
    tables = [sources.samples[rows] for _, rows in fold.units]
    fits, warm = [], None
    for model in models:
        model = clone(model)
        started = time.perf_counter()
        try:
            model._fit_prepared(prepared, warm)
        except SolverError as error:
            logger.warning("%r failed in a fold: %s", model, error)
            fits.append({"costs": [np.nan] * len(tables), "objective": np.nan, "seconds": np.nan})
            continue
        seconds = time.perf_counter() - started
        warm = model._warm_start()
        costs = [-model._score_table(table) for table in tables]
        fits.append({"costs": costs, "objective": model.objective_, "seconds": seconds})
    optima = [float(SAA(models[0].loss).fit([table]).objective_) for table in tables]
    return number, {"fits": fits, "optima": optima}


def _tidy(search: _Search, folds: list[Fold], journal: Journal) -> pd.DataFrame:
    """One row a candidate and held-out source, in the order of the grid, the folds, the data."""
    records = []
    for batch, places in enumerate(search.batches):
        for f, fold in enumerate(folds):
            outcome = journal.results[f"{batch}/{f}"]
            for place, fit in zip(places, outcome["fits"], strict=True):
                for unit, (label, rows) in enumerate(fold.units):
                    records.append(
                        {
                            "candidate": place,
                            "fold": f,
                            "source": label,
                            "rows": len(rows),
                            "cost": fit["costs"][unit],
                            "optimum": outcome["optima"][unit],
                            "objective": fit["objective"],
                            "seconds": fit["seconds"],
                        }
                    )
    table = pd.DataFrame.from_records(records)
    return table.sort_values(["candidate", "fold"], kind="stable", ignore_index=True)


def _results(
    candidates: list[dict[str, Any]], costs: pd.DataFrame, judge: Any, tail: float
) -> dict[str, Any]:
    """`Selection.cv_results_`. A candidate that failed in some fold ranks last."""
    results: dict[str, Any] = {"params": candidates}
    for name in sorted({name for parameters in candidates for name in parameters}):
        values = np.empty(len(candidates), dtype=object)
        values[:] = [parameters.get(name) for parameters in candidates]
        results[f"param_{name}"] = values
    by_candidate = [costs[costs["candidate"] == place] for place in range(len(candidates))]
    pairs = [(part["cost"].to_numpy(), part["optimum"].to_numpy()) for part in by_candidate]
    summaries = [summarize(cost, optimum, tail) for cost, optimum in pairs]
    for name in CRITERIA:
        results[name] = np.array([summary[name] for summary in summaries])
    score = -np.array([judge(cost, optimum) for cost, optimum in pairs])
    score[np.isnan(score)] = -np.inf
    results["score"] = score
    results["rank"] = pd.Series(-score).rank(method="min").astype(int).to_numpy()
    per_fold = [part.drop_duplicates("fold") for part in by_candidate]
    results["objective"] = np.array([part["objective"].mean() for part in per_fold])
    results["seconds"] = np.array([part["seconds"].sum() for part in per_fold])
    return results
