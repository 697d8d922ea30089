"""The methods that the studies compare, under the paper's names, and how each is tuned.

Six are the paper's. The thickened hulls are this library's, and are named so.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roodso._typing import Array
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
from roodso.sets import ThickenedHull

__all__ = [
    "BALL",
    "DEFAULT",
    "HULL",
    "HULL_FOR_MEANS",
    "HULL_FOR_TAILS",
    "METHODS",
    "Method",
    "candidates",
    "fitted",
    "settings_text",
    "tuned",
]

#: The paper's method, which differences are taken to.
BALL = "RooD-SO"
#: The same with this library's default nu, not tuned.
DEFAULT = "RooD-SO, nu = 0.2"
#: This library's own.
HULL = "thickened hull"
#: The same with a thickness and a tail that are not tuned: one for the worst, one for the mean.
HULL_FOR_TAILS = "thickened hull, r = 0.1, tail = 0.2"
HULL_FOR_MEANS = "thickened hull, r = 0.05, tail = 1"
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
    grid : callable, optional
        What is searched for so many sources, where that is not the paper's grid.
    """

    name: str
    make: _Make
    paper: bool = True
    random: bool = False
    grid: Callable[[int], dict[str, list[Any]]] | None = None

    def searched(
        self, model: DecisionMaker, n_sources: int, quick: bool = False
    ) -> dict[str, list[Any]]:
        """The grid for so many sources, a few of its values where quick; empty: nothing to tune."""
        grid = paper_grid(model, n_sources) if self.grid is None else self.grid(n_sources)
        if quick:
            return {name: values[:: max(1, len(values) // 2)] for name, values in grid.items()}
        return grid


def _intersection(loss: Loss, seed: int, _: bool) -> DecisionMaker:
    return IntersectionDRO(loss, max_iter=_INTERSECTION_ROUNDS, random_state=seed, n_jobs=1)


def _lambdas(n_sources: int) -> dict[str, list[Any]]:
    """The paper's grid for two sources, less the two inner values of its four for lambda_2.

    They run from 0.002 to 0.02, and what lies between costs half an hour and changes nothing that
    could be seen. With more sources the paper takes its heuristic radius, and so does this.
    """
    if n_sources != 2:
        return {}
    shares = [round(0.1 * step, 1) for step in range(11)]
    return {"lambdas": [(first, second) for first in shares for second in (0.002, 0.02)]}


def _thicknesses(_: int) -> dict[str, list[Any]]:
    return {
        "uncertainty_set__tail": [None, 0.5, 0.2],
        "uncertainty_set__thickness": [0.0, 0.05, 0.1, 0.2, 0.3],
    }


def _thickened(thickness: float = 0.1, tail: float | None = None) -> _Make:
    """The thickened hull, with a thickness and tail that tuning may replace."""

    def make(loss: Loss, seed: int, scale: bool) -> DecisionMaker:
        learner = ThickenedHull(thickness, tail=tail, scale=scale, random_state=seed, n_jobs=1)
        return RooDSO(loss, uncertainty_set=learner, random_state=seed, n_jobs=1)

    return make


def _nothing(_: int) -> dict[str, list[Any]]:
    """The grid of a method that is taken as it is."""
    return {}


_ALL = (
    Method("SAA", lambda loss, *_: SAA(loss)),
    Method("DRO-W", lambda loss, *_: WassersteinDRO(loss)),
    Method("SAA-WB", lambda loss, seed, _: BarycenterSAA(loss, random_state=seed), random=True),
    Method("DRO-Intx", _intersection, random=True, grid=_lambdas),
    Method("DRO-Conv", lambda loss, *_: ConvexHullDRO(loss)),
    Method(
        BALL,
        lambda loss, seed, scale: RooDSO(loss, scale=scale, random_state=seed, n_jobs=1),
        random=True,
    ),
    Method(
        DEFAULT,
        lambda loss, seed, scale: RooDSO(loss, scale=scale, random_state=seed, n_jobs=1),
        paper=False,
        random=True,
        grid=_nothing,
    ),
    Method(HULL, _thickened(), paper=False, random=True, grid=_thicknesses),
    Method(
        HULL_FOR_TAILS,
        _thickened(thickness=0.1, tail=0.2),
        paper=False,
        random=True,
        grid=_nothing,
    ),
    Method(
        HULL_FOR_MEANS,
        _thickened(thickness=0.05, tail=1.0),
        paper=False,
        random=True,
        grid=_nothing,
    ),
)
METHODS = {method.name: method for method in _ALL}


def tuned(
    method: Method, model: DecisionMaker, sources: list[Array], cv: Any, quick: bool
) -> dict[str, Any]:
    """The parameters that are best on what ``cv`` holds out, in the mean."""
    grid = method.searched(model, len(sources), quick)
    if not grid:
        return {}
    with _gaps_recorded():
        found = select(model, grid, sources, cv=cv, refit=False)
    return found.best_params_


def candidates(
    method: Method, model: DecisionMaker, data: Array, groups: Any, cv: Any, quick: bool
) -> tuple[list[DecisionMaker], list[dict[str, Any]], int]:
    """Every candidate fitted to all data, their parameters, and which one ``cv`` would choose."""
    grid = method.searched(model, len(set(groups.tolist())), quick)
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
