"""Robust out-of-distribution stochastic optimisation: decide where no data exist yet."""

import logging

from roodso import datasets, guarantees, losses, model_selection, plots, sets, streams
from roodso.exceptions import (
    ConvergenceWarning,
    DegenerateDataWarning,
    RooDSOWarning,
    SampleSizeWarning,
    SolverError,
)
from roodso.methods import (
    SAA,
    BarycenterSAA,
    ConvexHullDRO,
    IntersectionDRO,
    RooDSO,
    WassersteinDRO,
)
from roodso.portable import load

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # nothing is printed unasked

__all__ = [
    "SAA",
    "BarycenterSAA",
    "ConvergenceWarning",
    "ConvexHullDRO",
    "DegenerateDataWarning",
    "IntersectionDRO",
    "RooDSO",
    "RooDSOWarning",
    "SampleSizeWarning",
    "SolverError",
    "WassersteinDRO",
    "datasets",
    "guarantees",
    "load",
    "losses",
    "model_selection",
    "plots",
    "sets",
    "streams",
]
