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

__all__ = ["METHODS", "Method", "build"]


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
    "saa": Method("pooled average", "SAA"),
    "hull": Method("worst source", "ConvexHullDRO"),
    "wasserstein": Method("Wasserstein ball", "WassersteinDRO"),
    "barycenter": Method("barycentre", "BarycenterSAA"),
    "intersection": Method("intersection", "IntersectionDRO"),
}


def build(name: str, loss: Loss, values: Mapping[str, Any]) -> DecisionMaker:
    """The estimator with the settings that it has."""
    estimator: DecisionMaker = getattr(roodso, METHODS[name].estimator)(loss)
    wanted = {
        "nu": values["nu"],
        "scale": values["scale"],
        "n_support": values["support_points"],
        "random_state": values["seed"],
        "n_jobs": values["jobs"],
    }
    if METHODS[name].learner:
        own = {key: wanted.pop(key) for key in ("nu", "scale")}
        learner = getattr(sets, METHODS[name].learner)
        wanted["uncertainty_set"] = learner(**own, random_state=values["seed"])
    known = estimator.get_params(deep=False)
    estimator.set_params(**{key: value for key, value in wanted.items() if key in known})
    with library_errors():
        estimator._validate()
    return estimator
