"""Which objects of the library a file may hold, and how each becomes JSON and is made again.

Objects are numbered, and refer to those before them as ``{"$object": number}``; what several share
is there once and is shared again on reading. There are three kinds:

- records, our frozen dataclasses: their fields;
- estimators (methods, learners of sets, losses): parameters, and results where they are fitted;
- problems: the loss and the box that it was bound to. It is bound again, so a file can leave the
  loss out and take it from the caller.

Kernels stand where they are used, as ``{"$kernel": description}``.

A file names only what is registered here: nothing is imported or evaluated by name. Fields and
results are held against their annotations on both ways, so what is written can be read.
"""

from __future__ import annotations

import dataclasses
import numbers
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.expansion import KernelExpansion
from roodso.kernels import Kernel, kernel_from_dict
from roodso.losses import CVaRPortfolio, Loss, Newsvendor, Problem
from roodso.losses.base import Origin
from roodso.lowrank import Landmarks, LowRank, Streamed
from roodso.methods import (
    SAA,
    BarycenterSAA,
    ConvexHullDRO,
    IntersectionDRO,
    RooDSO,
    WassersteinDRO,
)
from roodso.methods.base import DecisionMaker
from roodso.portable.values import ValueReader, ValueWriter, whole_number_below
from roodso.sets import (
    ConformalBall,
    FixedBall,
    SupportMeasureBall,
    ThickenedHull,
    UncertaintySet,
)
from roodso.solver.continuous import BoxSearch
from roodso.solver.intersection import Balls, Inner, IntersectionSolution
from roodso.solver.rows import Programme
from roodso.solver.solution import BoxBound, EmbeddingReport, Solution, Witness
from roodso.solver.wasserstein import WassersteinBall
from roodso.sources import SampledSources, Sources

__all__ = ["LEARNERS", "LOSSES", "METHODS", "RECORDS", "ObjectReader", "ObjectWriter"]

#: One line each for whatever a file may hold. Names are those of the classes.
METHODS: tuple[type[DecisionMaker], ...] = (
    BarycenterSAA,
    ConvexHullDRO,
    IntersectionDRO,
    RooDSO,
    SAA,
    WassersteinDRO,
)
LEARNERS: tuple[type[BaseEstimator], ...] = (
    ConformalBall,
    FixedBall,
    SupportMeasureBall,
    ThickenedHull,
)
LOSSES: tuple[type[Loss], ...] = (
    CVaRPortfolio,
    Newsvendor,
)
RECORDS: tuple[type, ...] = (
    BoxBound,
    BoxSearch,
    Balls,
    Coordinates,
    Embedding,
    EmbeddingReport,
    Inner,
    IntersectionSolution,
    KernelExpansion,
    KernelSpace,
    Landmarks,
    LowRank,
    Programme,
    SampledSources,
    Solution,
    Sources,
    Streamed,
    UncertaintySet,
    WassersteinBall,
    Witness,
)

#: Parameters that are never kept: functions, which have no portable form.
_DROPPED = ("progress",)
#: What scikit-learn keeps on an estimator for itself: no parameter, no result.
_FOREIGN = ("_metadata_request", "_sklearn_output_config")
#: Results that exist only where the data had column names.
_OPTIONAL = ("feature_names_in_",)


_REGISTERED: dict[str, Any] = {
    cls.__name__: cls for cls in (*METHODS, *LEARNERS, *LOSSES, *RECORDS)
}


class ObjectWriter(ValueWriter):
    """Writes values with objects of the library in them.

    Parameters
    ----------
    include_loss : bool
        Whether the loss of the model and of its problem is written.

    Attributes
    ----------
    objects : list of dict
    """

    def __init__(self, include_loss: bool) -> None:
        super().__init__()
        self.objects: list[dict[str, Any]] = []
        self._include_loss = include_loss
        self._known: dict[int, tuple[Any, int]] = {}

    def write(self, value: Any, where: str) -> Any:
        """See `ValueWriter.write`."""
        if isinstance(value, Kernel):
            return self._kernel(value, where)
        if isinstance(value, Loss | Problem) or type(value) in _REGISTERED.values():
            return {"$object": self.number(value, where)}
        return super().write(value, where)

    def number(self, value: Any, where: str) -> int:
        """Write an object after all that it refers to, once, and return its number."""
        if id(value) not in self._known:
            described = self._describe(value, where)
            self._known[id(value)] = value, len(self.objects)
            self.objects.append(described)
        return self._known[id(value)][1]

    def _describe(self, value: Any, where: str) -> dict[str, Any]:
        if isinstance(value, Problem):
            return self._problem(value, where)
        if isinstance(value, Loss):
            return self._loss(value, where)
        if isinstance(value, BaseEstimator):
            return self._estimator(value, where)
        values = {
            field.name: getattr(value, field.name)
            if field.metadata.get("portable", True)
            else field.default
            for field in dataclasses.fields(value)
        }
        return {"type": type(value).__name__, "fields": self._attributes(value, values, where)}

    def _problem(self, problem: Problem, where: str) -> dict[str, Any]:
        origin = problem.origin
        if origin is None:
            raise TypeError(f"{where} cannot be saved: it was not made by DecisionMaker._bind")
        parts = {"lower": origin.lower, "upper": origin.upper}
        if self._include_loss:
            parts["loss"] = origin.loss
        return {"problem": {name: self.write(part, name) for name, part in parts.items()}}

    def _loss(self, loss: Loss, where: str) -> dict[str, Any]:
        parameters = loss.to_dict()["parameters"]
        if type(loss) not in LOSSES:
            raise TypeError(
                f"{where} cannot be saved: {type(loss).__name__} is not a loss of this library; "
                "save the model with include_loss=False and pass loss= on loading"
            )
        return {"type": type(loss).__name__, "parameters": self._parameters(parameters, where)}

    def _estimator(self, value: Any, where: str) -> dict[str, Any]:
        parameters = value.get_params(deep=False)
        results = {
            name: result
            for name, result in vars(value).items()
            if name not in parameters and name not in _FOREIGN
        }
        if isinstance(value, DecisionMaker) and not self._include_loss:
            del parameters["loss"]
        return {
            "type": type(value).__name__,
            "parameters": self._parameters(parameters, where),
            "results": self._attributes(value, results, where) if results else {},
        }

    def _parameters(self, parameters: dict[str, Any], where: str) -> dict[str, Any]:
        return {
            name: self.write(value, f"{where}.{name}")
            for name, value in parameters.items()
            if name not in _DROPPED
        }

    def _attributes(self, owner: Any, values: dict[str, Any], where: str) -> dict[str, Any]:
        wrong = _what_is_wrong(type(owner), values)
        if wrong:
            raise TypeError(f"{where} cannot be saved: {wrong}")
        return {name: self.write(value, f"{where}.{name}") for name, value in values.items()}

    def _kernel(self, kernel: Kernel, where: str) -> Any:
        try:
            description = kernel.to_dict()
            same = kernel_from_dict(description) == kernel
        except Exception:  # a kernel of the user's own may fail in any way
            same = False
        if not same:
            raise self.refuse(kernel, where, "kernels of roodso.kernels, their sums and products")
        return {"$kernel": description}


class ObjectReader(ValueReader):
    """Inverse of `ObjectWriter`.

    Parameters
    ----------
    arrays : list of ndarray
    loss : Loss or None
        Stands wherever the file leaves the loss out.
    """

    def __init__(self, arrays: list[npt.NDArray[Any]], loss: Loss | None) -> None:
        super().__init__(arrays)
        self.loss = loss
        self.objects: list[Any] = []

    def read_objects(self, described: list[dict[str, Any]]) -> list[Any]:
        """Make all objects, each from those before it."""
        for number, description in enumerate(described):
            try:
                self.objects.append(self._make(description))
            except Exception as error:  # whatever goes wrong, the description is at fault
                name = description.get("type") if isinstance(description, dict) else None
                raise ValueError(f"object {number} ({name or 'problem'}): {error}") from error
        return self.objects

    def read_tagged(self, tag: str, content: Any) -> Any:
        """See `ValueReader.read_tagged`."""
        if tag == "$object":
            return self.objects[whole_number_below(content, len(self.objects), "object")]
        if tag == "$kernel":
            return kernel_from_dict(content)
        return super().read_tagged(tag, content)

    def _make(self, description: dict[str, Any]) -> Any:
        if "problem" in description:
            return self._problem(**description["problem"])
        cls = _REGISTERED.get(description["type"])
        if cls is None:
            raise ValueError(
                f"unknown type {description['type']!r}; expected one of {list(_REGISTERED)}"
            )
        if cls in RECORDS:
            return cls(**self._attributes(cls, description["fields"]))
        parameters = {name: self.read(value) for name, value in description["parameters"].items()}
        if issubclass(cls, DecisionMaker) and "loss" not in parameters:
            parameters["loss"] = self.loss
        made = cls(**parameters)
        results = description.get("results", {})
        if results:
            for name, value in self._attributes(cls, results).items():
                setattr(made, name, value)
        return made

    def _problem(self, lower: Any, upper: Any, loss: Any = None) -> Problem:
        low, high = self.read(lower), self.read(upper)
        bound = self.loss if loss is None else self.read(loss)
        if not isinstance(bound, Loss):
            raise ValueError(f"expected a loss, got {bound!r}")
        problem = bound.bind(low, high)
        problem.origin = Origin(bound, low, high)
        return problem

    def _attributes(self, cls: Any, written: dict[str, Any]) -> dict[str, Any]:
        values = {name: self.read(value) for name, value in written.items()}
        wrong = _what_is_wrong(cls, values)
        if wrong:
            raise ValueError(wrong)
        return values


def _what_is_wrong(cls: Any, values: dict[str, Any]) -> str:
    """How fields or results depart from what the class annotates; empty where they do not."""
    hints = get_type_hints(cls)
    if issubclass(cls, BaseEstimator):
        hints = {name: hints[name] for name in hints if name not in cls._get_param_names()}
        required = set(hints) - set(_OPTIONAL)
    else:
        required = {
            field.name
            for field in dataclasses.fields(cls)
            if field.default is field.default_factory is dataclasses.MISSING
        }
    for name in sorted(required - set(values)):
        return f"{name} is missing"
    for name, value in values.items():
        if name not in hints:
            return f"{name} is not annotated in {cls.__name__}"
        if not conforms(value, hints[name]):
            return f"{name} must be {hints[name]}, got {type(value).__name__}"
    return ""


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says, as far as the forms used in this library go.

    Examples
    --------
    >>> conforms((1, 2), tuple[int, ...]), conforms(None, float | None), conforms("a", float)
    (True, True, False)
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if hint in (int, float):
        number = numbers.Integral if hint is int else numbers.Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is None:
        return isinstance(value, hint)
    if origin in (Union, types.UnionType):
        return any(conforms(value, argument) for argument in arguments)
    if not isinstance(value, origin):
        return False
    if origin is np.ndarray:
        (entry,) = get_args(arguments[1])
        return bool(value.dtype.kind == np.dtype(entry).kind)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return len(value) == len(arguments) and all(map(conforms, value, arguments))
    if origin in (tuple, list):
        return all(conforms(item, arguments[0]) for item in value)
    if origin is dict:
        return all(
            conforms(k, arguments[0]) and conforms(v, arguments[1]) for k, v in value.items()
        )
    return True
