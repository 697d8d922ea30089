r"""Studies on real data: each source in turn is the unseen target.

Every method learns from the other sources and is judged on the target. Its parameters are chosen in
two ways, and rows say which:

- ``held out``: by what decisions cost on sources held out among those it may see (all of them one
  by one where there are at most five, else in five parts). Nothing of the target is used;
- ``hindsight``: one setting for all targets, the one that is best on the targets themselves in the
  mean. That is how we read the paper's "unified hyperparameter settings ... where the chosen values
  lead to the best overall performance". No one can do that before the target is seen.

Kernel, bandwidth and box are learned without the target in both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from roodso._typing import Array
from roodso.experiments import pictures
from roodso.experiments.measures import (
    MEASURES,
    OVER_TARGETS,
    Sample,
    costs_of,
    summarize,
    table,
)
from roodso.experiments.methods import METHODS, candidates, settings_text
from roodso.experiments.runs import Row
from roodso.experiments.study import Study, Task, timed
from roodso.losses.base import Loss
from roodso.methods import SAA

__all__ = ["HINDSIGHT", "TUNED", "Case", "HeldOut"]

TUNED, HINDSIGHT = "held out", "hindsight"
_FOLDS = 5


@dataclass(frozen=True)
class Case:
    """Data and a loss.

    Attributes
    ----------
    name : str
    loss : Loss
    data : ndarray of shape (N, d)
    groups : ndarray of shape (N,)
    scale : bool
        Whether the kernel sees columns divided by their standard deviations.
    """

    name: str
    loss: Loss
    data: Array
    groups: Array
    scale: bool = False

    @property
    def targets(self) -> list[Any]:
        """The sources, in order of first appearance."""
        return list(dict.fromkeys(self.groups.tolist()))


@dataclass(frozen=True)
class HeldOut(Study):
    """A leave-one-source-out study; see `Study`."""

    keys: ClassVar[tuple[str, ...]] = ("case", "repetition", "method")
    order: ClassVar[tuple[str, ...]] = ("case", "repetition", "method", "target", "tuning")
    repetitions: ClassVar[tuple[int, int]] = (20, 1)
    #: Replications of the cases after the first, which are sensitivities.
    sensitivity: ClassVar[int] = 1
    #: Methods that take long get fewer replications.
    fewer: ClassVar[dict[str, int]] = {}
    #: Whether hindsight is taken in the variations, too.
    vary_hindsight: ClassVar[bool] = True
    #: What a source is called.
    unit: ClassVar[str]

    @abstractmethod
    def cases(self) -> dict[str, Case]:
        """The main case, then its variations."""

    def settings(self) -> dict[str, Any]:
        """See `Study`."""
        cases = {label: self.described(label) for label in self.labels()}
        return {"quick": self.quick, "tables": self.fingerprints(), "cases": cases}

    def tasks(self, repetitions: int, rows: pd.DataFrame) -> list[Task]:
        """See `Study`. A method that draws nothing has one replication: all would be the same."""
        found: list[Task] = []
        for place, case in enumerate(self.cases()):
            most = repetitions if place == 0 else min(repetitions, self.sensitivity)
            for name, method in METHODS.items():
                count = min(most, self.fewer.get(name, most)) if method.random else 1
                found += [(case, repetition, name) for repetition in range(count)]
        return found

    def work(self, task: Task) -> list[Row]:
        """See `Study`."""
        name, repetition, method = task
        case = self.cases()[name]
        fits = [_Fits.make(self, case, method, repetition, target) for target in case.targets]
        best = int(np.argmin(np.mean([one.costs for one in fits], axis=0)))
        rows = [self.label(one.target) | one.row(TUNED, one.chosen) for one in fits]
        if self.vary_hindsight or name == self.labels()[0]:
            rows += [self.label(one.target) | one.row(HINDSIGHT, best) for one in fits]
        return rows

    def label(self, target: Any) -> Row:
        """The target's name, which no reader of a CSV file takes for a number."""
        return {"target": f"{self.unit} {target}"}

    def judged(self, case: Case, decision: Array, table: Array) -> Row:
        """What a decision comes to on the target's rows."""
        found = costs_of(case.loss, decision, table)
        return {"cost": found.mean, "quantile": found.quantile, "cvar": found.cvar}

    def better(self, judged: Row) -> float:
        """What hindsight minimizes."""
        return float(judged["cost"])

    # --- From rows ----------------------------------------------------------------------------

    #: Measures over targets: (column of the rows, statistic), besides the costs'.
    measures: ClassVar[dict[str, Any]] = OVER_TARGETS

    def samples(self, rows: pd.DataFrame, tuning: str = TUNED) -> list[Sample]:
        """Every measure of every case by target and method, the mean over replications."""
        found = []
        rows = rows[rows["tuning"] == tuning]
        for case in dict.fromkeys(self._ordered(rows["case"])):
            part = rows[rows["case"] == case]
            names = self._methods(part)
            for measure, (column, statistic) in self.measures.items():
                wide = part.pivot_table(index="target", columns="method", values=column)[names]
                label = f"{self.name}: {case}" + ("" if tuning == TUNED else f", {tuning}")
                found.append(Sample(label, measure, wide, statistic))
        return found

    def _ordered(self, cases: Iterable[str]) -> list[str]:
        """Cases as they were named, whatever the order of the rows."""
        there = set(cases)
        return [case for case in self.labels() if case in there]

    @abstractmethod
    def labels(self) -> list[str]:
        """Names of the cases, without reading any table."""

    @abstractmethod
    def described(self, label: str) -> dict[str, Any]:
        """Loss and data of a case, for the settings, without reading any table."""

    def _methods(self, rows: pd.DataFrame) -> list[str]:
        there = set(rows["method"])
        return [*[name for name in METHODS if name in there], *sorted(there - set(METHODS))]

    def summarize(self, rows: pd.DataFrame) -> pd.DataFrame:
        """See `Study`: both ways of tuning."""
        return summarize([*self.samples(rows), *self.samples(rows, HINDSIGHT)])

    def plot(self, rows: pd.DataFrame) -> Any:
        """See `Study`: the main case."""
        main = self._ordered(rows["case"])[0]
        summary = self.summarize(rows)
        studies = [f"{self.name}: {main}", f"{self.name}: {main}, {HINDSIGHT}"]
        return pictures.by_method(
            summary[summary["study"].isin(studies)], list(self.measures)[: len(MEASURES)]
        )


@dataclass(frozen=True)
class _Fits:
    """All candidates of one method, fitted without one target and judged on it."""

    target: Any
    judged: list[Row]
    costs: list[float]
    parameters: list[dict[str, Any]]
    decisions: list[Array]
    gaps: list[float]
    chosen: int
    shared: Row

    @classmethod
    def make(cls, study: HeldOut, case: Case, name: str, repetition: int, target: Any) -> _Fits:
        unseen = case.groups == target
        data, groups, rows = case.data[~unseen], case.groups[~unseen], case.data[unseen]
        method = METHODS[name]
        model = method.make(case.loss, repetition, case.scale)
        folds = min(_FOLDS, len(set(groups.tolist())))
        cv = GroupKFold(folds, shuffle=True, random_state=repetition)
        shared: Row = {}
        with timed(shared):
            models, parameters, chosen = candidates(method, model, data, groups, cv, study.quick)
        judged = [study.judged(case, one.solution_.decision, rows) for one in models]
        shared["optimum"] = float(SAA(case.loss).fit([rows]).objective_)
        return cls(
            target,
            judged,
            [study.better(one) for one in judged],
            parameters,
            [one.solution_.decision for one in models],
            [one.solution_.gap for one in models],
            chosen,
            shared,
        )

    def row(self, tuning: str, place: int) -> Row:
        """The row of one candidate."""
        decision = {f"x{item}": x for item, x in enumerate(self.decisions[place].tolist())}
        return (
            {"tuning": tuning}
            | self.judged[place]
            | decision
            | {"gap": self.gaps[place], "parameters": settings_text(self.parameters[place])}
            | self.shared
        )


def replications(rows: pd.DataFrame) -> str:
    """How often methods were run that draw at random."""
    counts = rows.groupby("method")["repetition"].nunique()
    most = int(counts.max())
    if most == 1:
        return "One replication."
    fewer = [
        f"{name} {counts[name]}"
        for name, method in METHODS.items()
        if method.random and name in counts and counts[name] < most
    ]
    but = f" ({', '.join(fewer)})" if fewer else ""
    return (
        f"Replications of methods that draw at random: {most}{but}; in parentheses, the standard "
        "deviation over them."
    )


def by_target(
    rows: pd.DataFrame, column: str, names: list[str], digits: int, *, lowest: bool
) -> list[str]:
    """A row a target, a column a method: mean over replications (std), and mean ranks below."""
    means = rows.pivot_table(index="target", columns="method", values=column)[names]
    spread = rows.pivot_table(index="target", columns="method", values=column, aggfunc="std")
    spread = spread.reindex(index=means.index, columns=names)
    cells = []
    for target in means.index:
        entries = []
        for name in names:
            text = f"{means.loc[target, name]:.{digits}f}"
            std = spread.loc[target, name]
            entries.append(text + (f" ({std:.{digits}f})" if std == std else ""))
        cells.append([target, *entries])
    ranks = means.round(digits).rank(axis=1, ascending=lowest, method="min").mean()
    cells.append(["mean rank", *(f"{ranks[name]:.2f}" for name in names)])
    return table(cells, ["target", *names])


def measured(
    summary: pd.DataFrame, studies: list[str], measure: str, digits: int, labels: list[str]
) -> list[str]:
    """One measure: a row a case, a column a method."""
    names = list(dict.fromkeys(summary["method"]))
    found = summary[summary["measure"] == measure].set_index(["study", "method"])
    cells = []
    for study, label in zip(studies, labels, strict=True):
        entries = [
            f"{found.loc[(study, name), 'value']:.{digits}f}" if (study, name) in found.index
            else "-"
            for name in names
        ]  # fmt: skip
        cells.append([label, *entries])
    return table(cells, ["case", *names])


def with_intervals(summary: pd.DataFrame, label: str, digits: int, study: HeldOut) -> list[str]:
    """A row a method: every measure, and the first one's difference to RooD-SO."""
    here = summary[summary["study"] == label]
    measures = list(dict.fromkeys(here["measure"]))
    found = here.set_index(["method", "measure"])
    cells = []
    for name in dict.fromkeys(here["method"]):
        entries = []
        for measure in measures:
            one = found.loc[(name, measure)]
            entries.append(
                f"{one['value']:.{digits}f} [{one['low']:.{digits}f}, {one['high']:.{digits}f}]"
            )
        one = found.loc[(name, measures[0])]
        entries.append(
            f"{one['difference_to_ball']:.{digits}f} "
            f"[{one['diff_low']:.{digits}f}, {one['diff_high']:.{digits}f}]"
        )
        cells.append([name, *entries])
    head = [
        MEASURES.get(measure, measure).replace("distribution", study.unit) for measure in measures
    ]
    head.append(f"{head[0]}: difference to RooD-SO")
    return table(cells, ["method", *head])
