"""The methods that the studies compare, under the paper's names, and how each is tuned.

Six are the paper's. One is not, and says so: the thickened hull is this library's.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roodso.exceptions import ConvergenceWarning
from roodso.losses.base import Loss
from roodso.methods import (
    SAA,
    BarycenterSAA,
    ConvexHullDRO,
    IntersectionDRO,
    RooDSO,
    WassersteinDRO,
)
from roodso.methods.base import DecisionMaker
from roodso.model_selection import fit_grid, paper_grid, select

__all__ = ["BALL", "METHODS", "Method", "candidates", "settings_text", "tuned"]

#: The paper's method, which differences are taken to.
BALL = "RooD-SO"
#: Rounds of the intersection's row generation. A limit on rounds, unlike one on time, gives the
#: same rows on every machine; with portfolios some fits end at it, and the rows hold their gaps.
_INTERSECTION_ROUNDS = 30

#: A model from the loss, a seed, and whether the kernel sees scaled columns.
_Make = Callable[[Loss, int, bool], DecisionMaker]


@dataclass(frozen=True)
class Method:
    """A method of the comparisons.

    Attributes
    ----------
    name : str
    make : callable
    paper : bool
        Whether it is one of the paper's.
    random : bool
        Whether it draws anything: otherwise its replications on the same data are all the same.
    grid : mapping, optional
        What is searched, where that is not the paper's grid.
    """

    name: str
    make: _Make
    paper: bool = True
    random: bool = False
    grid: dict[str, list[Any]] | None = None

    def searched(self, model: DecisionMaker, n_sources: int) -> dict[str, list[Any]]:
        """The grid for so many sources; empty where nothing is tuned."""
        return paper_grid(model, n_sources) if self.grid is None else self.grid


def _intersection(loss: Loss, seed: int, _: bool) -> DecisionMaker:
    return IntersectionDRO(loss, max_iter=_INTERSECTION_ROUNDS, random_state=seed, n_jobs=1)


_ALL = (
    Method("SAA", lambda loss, *_: SAA(loss)),
    Method("DRO-W", lambda loss, *_: WassersteinDRO(loss)),
    Method("SAA-WB", lambda loss, seed, _: BarycenterSAA(loss, random_state=seed), random=True),
    Method("DRO-Intx", _intersection, random=True),
    Method("DRO-Conv", lambda loss, *_: ConvexHullDRO(loss)),
    Method(
        BALL,
        lambda loss, seed, scale: RooDSO(loss, scale=scale, random_state=seed, n_jobs=1),
        random=True,
    ),
)
METHODS = {method.name: method for method in _ALL}


def tuned(
    method: Method, model: DecisionMaker, sources: Any, groups: Any, cv: Any
) -> dict[str, Any]:
    """The parameters that are best on what ``cv`` holds out, in the mean."""
    n_sources = len(sources) if groups is None else len(set(groups.tolist()))
    grid = method.searched(model, n_sources)
    if not grid:
        return {}
    with _gaps_recorded():
        found = select(model, grid, sources, groups, cv=cv, refit=False)
    return found.best_params_


def candidates(
    method: Method, model: DecisionMaker, data: Any, groups: Any, cv: Any
) -> tuple[list[DecisionMaker], list[dict[str, Any]], int]:
    """Every candidate fitted to all data, their parameters, and which one ``cv`` would choose."""
    grid = method.searched(model, len(set(groups.tolist())))
    with _gaps_recorded():
        models = fit_grid(model, grid, data, groups)
        if len(models) == 1:
            return models, [{}], 0
        found = select(model, grid, data, groups, cv=cv, refit=False)
    return models, found.cv_results_["params"], found.best_index_


def settings_text(parameters: dict[str, Any]) -> str:
    """Parameters as one cell of a table.

    Examples
    --------
    >>> settings_text({"nu": 0.1, "lambdas": (0.5, 0.002)})
    '{"nu": 0.1, "lambdas": [0.5, 0.002]}'
    """
    return json.dumps(parameters)


def fitted(model: DecisionMaker, data: Any, groups: Any = None) -> DecisionMaker:
    """The model after ``fit``, in silence: rows hold the gap that a warning would tell of."""
    with _gaps_recorded():
        model.fit(data, groups=groups)
    return model


class _gaps_recorded(warnings.catch_warnings):  # noqa: N801, a context manager reads as a verb
    """Silence about gaps that are left: they are in the rows."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        warnings.simplefilter("ignore", ConvergenceWarning)
        return entered
