"""What a page is about: a fitted model, the decision shown, and what it is set beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array
from roodso._validation import as_vector, check_table
from roodso.losses.base import Problem
from roodso.methods import SAA, BarycenterSAA, ConvexHullDRO, RooDSO
from roodso.methods.base import DecisionMaker
from roodso.model_selection import Comparison
from roodso.planner.formats import Formats
from roodso.planner.words import Promise, Words, named_source, promise
from roodso.plots import SourceMap, source_map
from roodso.sets.uncertainty import UncertaintySet
from roodso.solver.solution import Solution
from roodso.sources import Sources, match_columns

__all__ = ["Subject", "label_of"]

_LABELS: dict[type, str] = {
    RooDSO: "RooD-SO",
    SAA: "pooled average",
    ConvexHullDRO: "hull of sources",
}


def label_of(model: DecisionMaker) -> str:
    """What a method is called on the page."""
    return _LABELS.get(type(model), type(model).__name__)


@dataclass(frozen=True)
class Subject:
    """What a page is about; see `roodso.report.build_report`.

    Attributes
    ----------
    model : DecisionMaker
    name : str
        What the model is called.
    sources : Sources
    words : Words
    decision : ndarray of shape (n,)
    worst : Solution
        The worst case of the decision.
    own : bool
        Whether the decision is the model's own.
    rivals : mapping of name to fitted method
    comparison : Comparison or None
    target : ndarray of shape (m, d) or None
    remarks : sequence of str
        What should be known of the data.
    decision_note : str
        How the decision came about where it is not the model's own.
    command : str
        The command line that made the page.
    source : str
        What a source is called.
    """

    model: DecisionMaker
    name: str
    sources: Sources
    words: Words
    decision: Array
    worst: Solution
    own: bool
    rivals: Mapping[str, DecisionMaker] = field(default_factory=dict)
    comparison: Comparison | None = None
    target: Array | None = None
    remarks: Sequence[str] = ()
    decision_note: str = ""
    command: str = ""
    source: str = ""

    @classmethod
    def checked(
        cls,
        model: Any,
        X: Any,
        groups: Any,
        *,
        decision: Any,
        rivals: Any,
        comparison: Any,
        target: Any,
        remarks: Any,
        decision_note: str | None,
        command: str | None,
        source: str,
        name: str | None,
        formats: Formats,
    ) -> Subject:
        """Check all arguments before any work."""
        if not isinstance(model, DecisionMaker):
            raise TypeError(f"model must be a fitted method such as RooDSO, got {model!r}")
        check_is_fitted(model, "solution_")
        sources = Sources.from_data(X, groups)
        _check_data(model, sources)
        rivals = {} if rivals is None else rivals
        _check_rivals(rivals)
        if comparison is not None and not isinstance(comparison, Comparison):
            raise TypeError(
                "comparison must come from roodso.model_selection.compare, or be None, got "
                f"{comparison!r}"
            )
        if target is not None:
            target = match_columns(target, sources.names, "target")
            target = check_table(target, "target", width=sources.n_columns)
        own = decision is None
        worst = model.solution_ if own else model.worst_case_cost(decision)
        columns = sources.names or tuple(f"x{j}" for j in range(sources.n_columns))
        return cls(
            model,
            label_of(model) if name is None else name,
            sources,
            Words(model.loss, formats, columns),
            as_vector(worst.decision, "decision", len(model.solution_.decision)),
            worst,
            own,
            {str(key): rival for key, rival in rivals.items()},
            comparison,
            target,
            _texts(remarks, "remarks"),
            decision_note or "",
            command or "",
            source,
        )

    @property
    def problem(self) -> Problem:
        """The loss bound to the data."""
        return self.model._problem

    @property
    def parts(self) -> list[str]:
        """Names of the decision's parts."""
        return self.words.parts(len(self.decision))

    @property
    def promise(self) -> Promise:
        """What the bound holds for."""
        return promise(self.model)

    def called(self, label: object) -> str:
        """A source's name as it stands on the page."""
        return named_source(label, self.source)

    @property
    def learned(self) -> UncertaintySet | None:
        """The set of distributions, where the method learns one."""
        found = getattr(self.model, "uncertainty_set_", None)
        return found if isinstance(found, UncertaintySet) else None

    @property
    def map(self) -> SourceMap | None:
        """The map of the sources, where there is a set with room inside."""
        known = self.learned
        if known is None or (known.n_anchors == 1 and known.radius == 0.0):
            return None
        return source_map(self.model, worst=self.worst, target=self.target)

    def choices(self) -> dict[str, Array]:
        """The decision, and what every rival would choose."""
        rivals = {name: np.asarray(m.solution_.decision) for name, m in self.rivals.items()}
        return {self.name: self.decision, **rivals}

    def mean_cost(self, decision: Array, table: Array) -> float:
        """Mean cost of a decision on samples; internal variables are the best for them."""
        weights = np.full(len(table), 1.0 / len(table))
        z = self.problem.complete(decision, table, weights)
        return float(self.problem.values(z, table).mean())


def _check_data(model: DecisionMaker, sources: Sources) -> None:
    """A page about other data than the model's would be wrong throughout."""
    if isinstance(model, BarycenterSAA):  # it keeps no sample, only the barycentre
        return
    known = getattr(model, "uncertainty_set_", None)
    if isinstance(known, UncertaintySet) and known.landmarks is not None:
        raise ValueError(
            "a page needs a model that was fitted to samples in memory; this one was fitted to a "
            "stream"
        )
    solution = model.solution_
    samples = solution.support[: sources.n_samples]
    given = sources.samples
    if isinstance(known, UncertaintySet) and samples.shape == given.shape:
        given = known.space.coordinates.clipped(given)  # as the model did before all else
    same = (
        sources.labels == solution.labels
        and samples.shape == given.shape
        and np.array_equal(samples, given)
        and np.array_equal(solution.origin[: sources.n_samples], sources.codes)
    )
    if not same:
        raise ValueError(
            "X and groups must be the data that the model was fitted to, got "
            f"{sources.n_samples} rows of {sources.n_sources} sources that differ from them"
        )


def _check_rivals(rivals: Any) -> None:
    if not isinstance(rivals, Mapping):
        raise TypeError(f"rivals must map names to fitted methods, got {rivals!r}")
    for name, rival in rivals.items():
        if not isinstance(rival, DecisionMaker):
            raise TypeError(f"rivals[{name!r}] must be a fitted method, got {rival!r}")
        check_is_fitted(rival, "solution_")


def _texts(texts: Any, name: str) -> tuple[str, ...]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} must be a sequence of str, got {texts!r}")
    return tuple(texts)
