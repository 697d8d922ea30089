r"""Which method is best here? Nested leave-one-source-out, with the uncertainty of the answer.

Each source in turn is the target: every method sees the others alone, tunes itself on them (leaving
one out at a time again), decides, and is judged on the target. Kernel, bandwidth and box are
learned without the target. With costs :math:`c_{mt}` of method m on target t, intervals come from
resampling targets with replacement, and a pair of methods is compared by the signs that the
differences :math:`c_{mt} - c_{m't}` could have had: under the hypothesis that the two are
exchangeable on every target each sign is a coin toss, so the share of sign patterns whose mean
difference is as large as that observed is an exact p-value (sampled where there are many patterns).
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone

from roodso._typing import Array, Progress
from roodso._validation import check_integer, check_jobs, check_real
from roodso.exceptions import SolverError
from roodso.methods import SAA
from roodso.methods.base import DecisionMaker
from roodso.model_selection.criteria import as_criterion
from roodso.model_selection.journal import Journal, fingerprint
from roodso.model_selection.selection import select
from roodso.sources import Sources

__all__ = ["Comparison", "compare"]

#: Up to this many targets all sign patterns are counted; beyond, as many as that are drawn.
_EXACT_SIGNS = 16


@dataclass(frozen=True)
class Comparison:
    """What each method cost on each target.

    Attributes
    ----------
    table : DataFrame
        One row a method and target: ``method``, ``target``, ``cost`` (mean on the target's rows),
        ``regret`` (to the best single decision for these rows), ``rank`` among the methods (1 is
        best), ``objective`` (what the method promised), ``seconds``, ``params`` (as tuned).
    n_bootstrap : int
    confidence : float
    seed : int
        Draws the bootstrap samples.
    """

    table: pd.DataFrame
    n_bootstrap: int
    confidence: float
    seed: int

    @property
    def costs(self) -> pd.DataFrame:
        """Costs, one row a target and one column a method, in the order given."""
        return self._wide("cost")

    def summary(self) -> pd.DataFrame:
        """By method: mean cost with its interval, cost on the worst target, rank, regret, seconds.

        Returns
        -------
        DataFrame
            Indexed by method, best mean cost first.
        """
        costs = self.costs
        means = self._resampled(costs.to_numpy()).mean(axis=1)
        tails = [(1 - self.confidence) / 2, (1 + self.confidence) / 2]
        low, high = np.quantile(means, tails, axis=0)
        by_method = self.table.groupby("method", sort=False)
        result = pd.DataFrame(
            {
                "mean": costs.mean(skipna=False),
                "low": low,
                "high": high,
                "worst": costs.max(skipna=False),
                "rank": by_method["rank"].mean(),
                "regret": by_method["regret"].mean(),
                "seconds": by_method["seconds"].mean(),
            }
        )
        return result.sort_values("mean", kind="stable").rename_axis("method")

    def paired(self, reference: str | None = None) -> pd.DataFrame:
        """Differences of each method to one of them, target by target.

        Parameters
        ----------
        reference : str, optional
            By default the method of lowest mean cost.

        Returns
        -------
        DataFrame
            Indexed by method: the mean ``difference`` (positive: costs more than the reference)
            with its interval ``low`` and ``high``, the share of targets on which it costs
            ``more``, and the sign-flip test's ``p`` (two-sided).
        """
        costs = self.costs
        if reference is None:
            reference = str(costs.mean().idxmin())
        if reference not in costs.columns:
            raise ValueError(f"reference must be one of {list(costs.columns)}, got {reference!r}")
        differences = costs.drop(columns=reference).sub(costs[reference], axis=0)
        means = self._resampled(differences.to_numpy()).mean(axis=1)
        tails = [(1 - self.confidence) / 2, (1 + self.confidence) / 2]
        low, high = np.quantile(means, tails, axis=0)
        return pd.DataFrame(
            {
                "difference": differences.mean(skipna=False),
                "low": low,
                "high": high,
                "more": (differences > 0).mean(),
                "p": [sign_flip_p_value(d, self.seed) for d in differences.to_numpy().T],
            },
            index=differences.columns,
        ).rename_axis("method")

    def verdict(self) -> str:
        """What the figures allow to be said, in one or two sentences."""
        summary, pairs = self.summary(), self.paired()
        failed = summary.index[summary["mean"].isna()]
        best = summary.index[0]
        level = 1 - self.confidence
        tied = [str(name) for name, p in pairs["p"].items() if p > level]
        worst = summary["worst"].idxmin()
        first = f"{best} has the lowest mean cost over the {len(self.costs)} sources"
        if len(pairs) == 0:
            first += "."
        elif not tied:
            first += f", and the differences to all others are beyond chance (p <= {level:.2g})."
        else:
            first += f", but that could be chance against {', '.join(tied)} (p > {level:.2g})."
        if len(failed):
            first += f" Failed on some source, so not ranked: {', '.join(map(str, failed))}."
        if worst == best:
            return f"{first} It also costs least on its worst source."
        return f"{first} On its worst source {worst} costs least."

    def plot(self, ax: Any = None) -> Any:
        """Regret of each method on each target: a row a method, a dot a target.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        Axes
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        order = list(self.summary().index)
        regret = self._wide("regret")
        for row, name in enumerate(order):
            values = regret[name].to_numpy()
            ax.plot(values, np.full(len(values), row), "o", alpha=0.5, color="C0")
            ax.plot(values.mean(), row, "|", markersize=22, markeredgewidth=2.5, color="C1")
        ax.set(
            yticks=range(len(order)),
            yticklabels=order,
            xlabel="regret to the best decision for the source",
        )
        ax.invert_yaxis()
        return ax

    def _wide(self, column: str) -> pd.DataFrame:
        """A column of the table by target and method, both in the order given."""
        by_method = self.table.groupby("method", sort=False)
        return pd.DataFrame({name: part.set_index("target")[column] for name, part in by_method})

    def _resampled(self, costs: Array) -> Array:
        """Bootstrap samples of the targets: (n_bootstrap, targets, columns)."""
        rng = np.random.default_rng(self.seed)
        return costs[rng.integers(len(costs), size=(self.n_bootstrap, len(costs)))]


def sign_flip_p_value(differences: Array, seed: int = 0) -> float:
    """Two-sided p-value of the mean difference under random signs.

    Examples
    --------
    >>> import numpy as np
    >>> sign_flip_p_value(np.array([1.0, 2.0, 3.0, 1.5]))
    0.125
    """
    n = len(differences)
    observed = abs(differences.sum())
    if np.isnan(observed):
        return float("nan")
    if n <= _EXACT_SIGNS:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
        added = 0
    else:
        rng = np.random.default_rng(seed)
        signs = rng.choice((-1.0, 1.0), size=(2**_EXACT_SIGNS, n))
        added = 1  # the pattern observed
    reached = np.abs(signs @ differences) >= observed * (1 - 1e-12)
    return float((reached.sum() + added) / (len(signs) + added))


def compare(
    methods: Mapping[str, Any],
    X: Any,
    groups: Any = None,
    *,
    criterion: Any = "mean",
    tail: float = 0.2,
    cv: Any = None,
    n_bootstrap: int = 2000,
    confidence: float = 0.95,
    random_state: int = 0,
    n_jobs: int | None = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare methods, each tuned without the target, on every source in turn.

    Parameters
    ----------
    methods : mapping of name to method or (method, grid)
        A method with a grid is tuned by `select` on the sources that remain; with None as grid, on
        the paper's grid; a method alone is taken as it is.
    X, groups
        Data as for a method's ``fit``; at least three sources where anything is tuned, else two.
    criterion, tail, cv
        As for `select`: how methods are tuned.
    n_bootstrap : int, default=2000
    confidence : float in (0, 1), default=0.95
        Level of the intervals; one minus it is the level of the tests in ``verdict``.
    random_state : int, default=0
        Draws the bootstrap samples.
    n_jobs : int or None, default=1
        Pairs of target and method at a time; None and -1 mean all cores. Costs do not depend on it.
    checkpoint : path, optional
        A file that keeps finished pairs; see `select`.
    progress : callable, optional
        ``progress("compare", share_done, details)`` after each pair.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from roodso import SAA, ConvexHullDRO
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.losses import Newsvendor
    >>> shops = make_newsvendor_sources(8, 40, random_state=0)
    >>> loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
    >>> comparison = compare({"SAA": SAA(loss), "hull": ConvexHullDRO(loss)}, shops)
    >>> comparison.summary().index.tolist()
    ['SAA', 'hull']
    """
    entries = _entries(methods)
    check_integer(n_bootstrap, "n_bootstrap", low=1)
    check_real(confidence, "confidence", low=0, high=1, low_open=True, high_open=True)
    check_integer(random_state, "random_state")
    as_criterion(criterion, check_real(tail, "tail", low=0.0, high=1.0, low_open=True))
    sources = Sources.from_data(X, groups)
    needed = 3 if any(tuned for _, _, tuned, _ in entries) and cv is None else 2
    if sources.n_sources < needed:
        raise ValueError(f"compare needs at least {needed} sources here, got {sources.n_sources}")
    how = {"criterion": criterion, "tail": tail, "cv": cv}
    journal = Journal(
        checkpoint,
        "" if checkpoint is None else fingerprint(entries, sources.samples, sources.codes, how),
    )
    jobs = 1 if n_jobs == 1 else check_jobs(n_jobs)
    for share in _run(entries, sources, how, journal, jobs):
        if progress is not None:
            progress("compare", share, {"targets": sources.n_sources, "methods": len(entries)})
    return Comparison(_tidy(entries, sources, journal), n_bootstrap, confidence, random_state)


_Entry = tuple[str, DecisionMaker, bool, Any]


def _entries(methods: Any) -> list[_Entry]:
    """Name, method, whether it is tuned, grid."""
    if not isinstance(methods, Mapping) or not methods:
        raise TypeError(f"methods must map names to methods, got {methods!r}")
    entries = []
    for name, value in methods.items():
        tuned = isinstance(value, tuple)
        method, grid = value if tuned and len(value) == 2 else (value, None)
        if not isinstance(method, DecisionMaker):
            raise TypeError(f"methods[{name!r}] must be a method or (method, grid), got {value!r}")
        method._validate()
        entries.append((str(name), method, tuned, grid))
    return entries


def _run(
    entries: list[_Entry], sources: Sources, how: dict[str, Any], journal: Journal, n_jobs: int
) -> Iterator[float]:
    """Run what the journal lacks; yields the share done after each pair."""
    pairs = [(t, m) for t in range(sources.n_sources) for m in range(len(entries))]
    missing = [(t, m) for t, m in pairs if f"{t}/{m}" not in journal.results]
    if not missing:
        return
    # In any order: a pair that is finished is noted at once, whatever those before it do.
    parallel = Parallel(n_jobs=min(n_jobs, len(missing)), return_as="generator_unordered")
    outcomes = parallel(
        delayed(_judge_pair)(f"{t}/{m}", entries[m], sources, t, how) for t, m in missing
    )
    for task, outcome in outcomes:
        journal.add(task, outcome)
        yield len(journal.results) / len(pairs)


def _judge_pair(
    task: str, entry: _Entry, sources: Sources, target: int, how: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """`_judge`, with the name of the task."""
    return task, _judge(entry, sources, target, how)


def _judge(entry: _Entry, sources: Sources, target: int, how: dict[str, Any]) -> dict[str, Any]:
    """Tune and fit one method without the target, and judge it there."""
    _, method, tuned, grid = entry
    others, table = sources.without(target), sources.table(target)
    optimum = float(SAA(method.loss).fit([table]).objective_)
    started = time.perf_counter()
    parameters: dict[str, Any] = {}
    try:
        if tuned:
            found = select(method, grid, others, **how)
            model, parameters = found.best_estimator_, found.best_params_
            assert model is not None
        else:
            model = clone(method).fit(others)
    except SolverError as error:
        return {"cost": np.nan, "optimum": optimum, "objective": np.nan, "error": str(error)}
    return {
        "cost": -model._score_table(table),
        "optimum": optimum,
        "objective": float(model.objective_),
        "seconds": time.perf_counter() - started,
        "params": {name: repr(value) for name, value in parameters.items()},
    }


def _tidy(entries: list[_Entry], sources: Sources, journal: Journal) -> pd.DataFrame:
    records = []
    targets: list[Hashable] = list(sources.labels)
    for t, label in enumerate(targets):
        for m, (name, *_) in enumerate(entries):
            outcome = journal.results[f"{t}/{m}"]
            records.append(
                {
                    "method": name,
                    "target": label,
                    "cost": outcome["cost"],
                    "regret": outcome["cost"] - outcome["optimum"],
                    "objective": outcome["objective"],
                    "seconds": outcome.get("seconds", np.nan),
                    "params": outcome.get("params", {}),
                }
            )
    table = pd.DataFrame.from_records(records)
    ranks = table.groupby("target", sort=False)["cost"].rank(method="average", na_option="bottom")
    table.insert(4, "rank", ranks)
    return table
