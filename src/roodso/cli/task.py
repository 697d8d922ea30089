"""From settings to what is to be decided: table, loss, constraints, all checked together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso.cli.methods import METHODS, SETS, build
from roodso.cli.problem_file import read_problem
from roodso.cli.screen import Screen
from roodso.cli.settings import SETTINGS, Setting, merged
from roodso.cli.values import by_item
from roodso.exceptions import RooDSOWarning
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.losses.base import Loss
from roodso.methods import RooDSO
from roodso.methods.base import DecisionMaker
from roodso.model_selection import select
from roodso.planner import (
    Constraints,
    DataError,
    Note,
    PlannerData,
    ProblemError,
    load_table,
    parse_constraints,
)
from roodso.planner.constraints import Row, conflict
from roodso.planner.errors import library_errors
from roodso.planner.formats import Formats
from roodso.planner.words import Words

__all__ = ["RESULTS", "Task", "by_method", "load_data", "noted", "values_of"]

#: Settings that say where results go.
RESULTS = ("report", "json", "table")
#: What --auto chooses among.
NUS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


def values_of(
    problem: str, settings: list[Setting], given: Mapping[str, Any], *, writes: bool
) -> dict[str, Any]:
    """All settings: flags, then the problem file, then defaults.

    The places that a problem file names for results are those of its decision: where a command
    ``writes`` something else, they do not count.
    """
    path = given.get("problem")
    stored = read_problem(path, problem) if path is not None else {}
    if not writes:
        stored = {name: value for name, value in stored.items() if name not in RESULTS}
    values = merged(settings, by_method(problem, given), by_method(problem, stored))
    values.pop("set", None)
    values["problem"] = path
    return values


def by_method(problem: str, layer: Mapping[str, Any]) -> dict[str, Any]:
    """Flags, or a problem file, with the set said as the method that guards against it."""
    named = layer.get("set")
    if named is None:
        return dict(layer)
    method = SETS[SETTINGS[problem]["set"].checked(named)]
    if layer.get("method") not in (None, method):
        raise ProblemError(
            f"set {named!r} and method {layer['method']!r} contradict each other",
            cause=f"the set {named} is guarded against by the method {method}",
            remedy="give one of them",
        )
    return {**layer, "set": None, "method": method}


def load_data(values: Mapping[str, Any], problem: str | None, **options: Any) -> PlannerData:
    """The table that the settings describe."""
    names = "assets" if problem == "portfolio" else "items"
    required = {"file": "the table", "source": "the column that names the source of a row"}
    for name, what in required.items():
        if not values[name]:
            flag = "as the first argument" if name == "file" else "by --source COLUMN"
            raise ProblemError(f"{what} is not given", remedy=f"name it {flag}")
    if problem is not None and not values[names] and not values["item"]:
        raise ProblemError(f"no {names} are given", remedy=f"name them by --{names} A,B,...")
    delimiter = "\t" if values["delimiter"] in ("tab", "\\t") else values["delimiter"]
    return load_table(
        values["file"],
        values["source"],
        values[names],
        layout=values["layout"],
        item=values["item"],
        value=values["value"],
        row=values["row"],
        missing=values["missing"],
        negative=values.get("negative", "keep"),
        decimal=values["decimal"],
        delimiter=delimiter,
        sheet=values["sheet"],
        kind=problem or "newsvendor",
        currency=values.get("currency", ""),
        unit=values.get("unit", ""),
        **options,
    )


@dataclass(frozen=True)
class Task:
    """A decision to make.

    Attributes
    ----------
    settings : mapping
        By name.
    data : PlannerData
    loss : Loss
    lower, upper : ndarray of shape (d,)
    constraints : Constraints
    pack : ndarray of shape (d,) or None
        Units in a pack, where orders are whole.
    command : str
        The command line that asks for it.
    """

    settings: Mapping[str, Any]
    data: PlannerData
    loss: Loss
    lower: Array
    upper: Array
    constraints: Constraints
    pack: Array | None
    command: str = ""

    @classmethod
    def build(
        cls, problem: str, values: Mapping[str, Any], data: PlannerData, command: str = ""
    ) -> Task:
        """Check the settings against the data; says which requirements exclude each other."""
        items = data.items
        constraints = parse_constraints(values["constraints"], items)
        lower = by_item(values["lower"], items, "lower", 0.0)
        given = values["upper"]
        upper = by_item(np.inf if given is None else given, items, "upper", np.inf)
        if problem == "portfolio":
            upper = np.minimum(upper, 1.0)
        _check_feasible(problem, lower, upper, constraints, items)
        A, b = constraints.inequalities(len(items))
        sides = {"A_ub": A, "b_ub": b} if len(b) else {}
        loss: Loss
        if problem == "newsvendor":
            high = None if np.isinf(upper).all() else upper
            loss = Newsvendor(**_costs(values, items), lower=lower, upper=high, **sides)
        else:
            loss = CVaRPortfolio(
                values["risk_aversion"], values["tail"], lower=lower, upper=upper, **sides
            )
        with library_errors():
            loss.bind(data.table.to_numpy().min(axis=0), data.table.to_numpy().max(axis=0))
        return cls(values, data, loss, lower, upper, constraints, _packs(values, items), command)

    @property
    def formats(self) -> Formats:
        """How numbers are written."""
        return Formats(self.data.currency, self.data.unit)

    @property
    def words(self) -> Words:
        """How decisions, data and costs are spoken of."""
        return Words(self.loss, self.formats, self.data.items)

    @property
    def method(self) -> str:
        """The method's name on the command line."""
        return str(self.settings["method"])

    def estimator(self, name: str | None = None) -> DecisionMaker:
        """A method with the settings given, not fitted."""
        return build(name or self.method, self.loss, self.settings)

    def fit(self, screen: Screen, name: str | None = None) -> DecisionMaker:
        """A fitted method; with --auto, nu is chosen first."""
        model = self.estimator(name)
        label = METHODS[name or self.method].label
        with screen.progress(label) as progress, noted(screen), library_errors():
            if self.settings["auto"] and name is None:
                return self._selected(model, progress, screen)
            if "progress" in model.get_params(deep=False):
                model.set_params(progress=progress)
            model.fit(self.data.table, groups=self.data.groups)
            if "progress" in model.get_params(deep=False):
                model.set_params(progress=None)
            return model

    def _selected(self, model: DecisionMaker, progress: Any, screen: Screen) -> DecisionMaker:
        if not isinstance(model, RooDSO):
            raise ProblemError(
                f"--auto chooses for the methods rood, conformal and thick, not for {self.method}",
                remedy="leave --auto or --method out",
            )
        if len(self.data.labels) < 3:
            raise DataError(
                f"--auto needs at least 3 sources, got {len(self.data.labels)}",
                cause="settings are judged on sources held out",
                remedy="choose yourself, by --nu or --thickness",
            )
        found = select(
            model,
            {"nu": list(NUS)} if self.method == "rood" else None,
            self.data.table,
            self.data.groups,
            criterion=self.settings["criterion"],
            progress=progress,
        )
        assert found.best_estimator_ is not None
        chosen = " and ".join(
            f"{name.rpartition('__')[2]} = {'none' if value is None else format(value, 'g')}"
            for name, value in found.best_params_.items()
        )
        text = f"{chosen} cost least on sources held out ({self.settings['criterion']})"
        screen.note(Note(text.replace("tail", "source_tail")))
        return found.best_estimator_


def _costs(values: Mapping[str, Any], items: list[str]) -> dict[str, Array]:
    """Price, cost, holding and backorder of each item; what cannot be meant is refused."""
    costs = {}
    for name in ("price", "cost", "holding", "backorder"):
        if values[name] is None:
            raise ProblemError(f"the {name} is not given", remedy=f"give it by --{name} NUMBERS")
        costs[name] = by_item(values[name], items, name, None if name in ("price", "cost") else 0.0)
        for item, amount in zip(items, costs[name], strict=True):
            if amount < 0 and name != "holding":
                raise ProblemError(
                    f"the {name} of {item!r} is below 0: {amount:g}",
                    remedy="give what a unit brings or costs as a positive number",
                )
    return costs


def economic_notes(values: Mapping[str, Any], items: list[str]) -> list[Note]:
    """What is odd about prices and costs, though it can be meant."""
    costs = _costs(values, items)
    notes = []
    for place, item in enumerate(items):
        price, cost = costs["price"][place], costs["cost"][place]
        if price < cost:
            notes.append(f"{item!r} is sold below its cost ({price:g} < {cost:g})")
        if costs["holding"][place] < 0:
            notes.append(f"a unit of {item!r} left over brings {-costs['holding'][place]:g}")
    return [Note(text, "warning") for text in notes]


def _packs(values: Mapping[str, Any], items: list[str]) -> Array | None:
    sizes = values.get("pack_size")
    if sizes is None:
        return np.ones(len(items)) if values.get("integer") else None
    pack = by_item(sizes, items, "pack_size", 1.0)
    for item, size in zip(items, pack, strict=True):
        if size <= 0:
            raise ProblemError(
                f"the pack size of {item!r} must be above 0, got {size:g}",
                remedy="give the number of units in a pack",
            )
    return pack


def _check_feasible(
    problem: str, lower: Array, upper: Array, constraints: Constraints, items: list[str]
) -> None:
    rows = list(constraints.rows)
    for place, item in enumerate(items):
        unit = np.zeros(len(items))
        unit[place] = 1.0
        rows.append(Row(-unit, -lower[place], False, f"{item} >= {lower[place]:g}"))
        if np.isfinite(upper[place]):
            rows.append(Row(unit, upper[place], False, f"{item} <= {upper[place]:g}"))
    if problem == "portfolio":
        rows.append(Row(np.ones(len(items)), 1.0, True, "the weights add up to 1"))
    texts = conflict(rows, len(items))
    if texts:
        raise ProblemError(
            "no decision meets all bounds and constraints",
            cause="these exclude each other: " + "; ".join(texts),
            remedy="loosen or leave out one of them",
        )


@contextmanager
def noted(screen: Screen) -> Iterator[None]:
    """Show the library's warnings as warnings to people, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RooDSOWarning)
        yield
    seen = dict.fromkeys(
        str(warning.message) for warning in caught if issubclass(warning.category, RooDSOWarning)
    )
    for text in seen:
        screen.note(Note(text, "warning"))
