"""The methods by their names on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import roodso
from roodso import sets
from roodso.losses.base import Loss
from roodso.methods.base import DecisionMaker
from roodso.planner.errors import library_errors

__all__ = ["METHODS", "SETS", "Method", "build", "without_effect"]


@dataclass(frozen=True)
class Method:
    """A method.

    Attributes
    ----------
    label : str
        For tables.
    estimator : str
        Its class's name in `roodso`.
    learner : str
        Name in `roodso.sets` of a set to give it instead of its own.
    """

    label: str
    estimator: str
    learner: str = ""


METHODS = {
    "rood": Method("RooD-SO", "RooDSO"),
    "conformal": Method("RooD-SO, conformal", "RooDSO", "ConformalBall"),
    "thick": Method("thickened hull (ours)", "RooDSO", "ThickenedHull"),
    "saa": Method("pooled average", "SAA"),
    "hull": Method("hull of sources", "ConvexHullDRO"),
    "wasserstein": Method("Wasserstein ball", "WassersteinDRO"),
    "barycenter": Method("barycentre", "BarycenterSAA"),
    "intersection": Method("intersection", "IntersectionDRO"),
}

#: Methods by the set of distributions that they guard against.
SETS = {"ball": "rood", "hull": "hull", "thick": "thick"}

#: Parameters of methods and sets, and the settings that give them.
_PARAMETERS = {
    "nu": "nu",
    "scale": "scale",
    "thickness": "thickness",
    "tail": "source_tail",
    "n_support": "support_points",
    "random_state": "seed",
    "n_jobs": "jobs",
}
#: Those of them that shape the answer, so that one without effect is worth a word.
_SHAPING = ("nu", "scale", "thickness", "source_tail", "support_points")


def build(name: str, loss: Loss, values: Mapping[str, Any]) -> DecisionMaker:
    """The estimator with the settings that it has."""
    estimator: DecisionMaker = getattr(roodso, METHODS[name].estimator)(loss)
    learner = _learner(name)
    if learner is None:
        estimator.set_params(**_known(estimator, values))
    else:
        learner.set_params(**_known(learner, _of_set(name, values)))
        rest = {key: value for key, value in values.items() if key not in ("nu", "scale")}
        estimator.set_params(**_known(estimator, rest), uncertainty_set=learner)
    with library_errors():
        estimator._validate()
    return estimator


def without_effect(name: str, values: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """The settings given that the method makes no use of.

    Examples
    --------
    >>> values = {"thickness": 0.1, "nu": 0.3}
    >>> without_effect("rood", values, {"thickness": 0.1, "nu": 0.3})
    ['thickness']
    >>> without_effect("thick", values, {"thickness": 0.1, "nu": 0.3})
    ['nu']
    """
    learner, shaping = _learner(name), dict.fromkeys(_SHAPING)
    known = _known(getattr(roodso, METHODS[name].estimator)(None), shaping)
    if learner is not None:  # its own nu and scale stand for the method's
        known.pop("nu")
        known |= _known(learner, _of_set(name, shaping | {"thickness": values["thickness"]}))
    used = {_PARAMETERS[parameter] for parameter in known}
    return [key for key in _SHAPING if given.get(key) is not None and key not in used]


def _learner(name: str) -> Any:
    """The set that replaces the method's own, or None."""
    learner = METHODS[name].learner
    return getattr(sets, learner)() if learner else None


def _of_set(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that count for a set: nu says nothing where the thickness is given."""
    given = name == "thick" and not isinstance(values["thickness"], str)
    return {key: value for key, value in values.items() if not (given and key == "nu")}


def _known(estimator: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an estimator or a set that there are settings for."""
    own = estimator.get_params(deep=False)
    return {
        parameter: values[setting]
        for parameter, setting in _PARAMETERS.items()
        if parameter in own and setting in values
    }
