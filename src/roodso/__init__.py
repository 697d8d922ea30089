"""Robust out-of-distribution stochastic optimisation: decide where no data exist yet."""

from roodso import datasets, losses, sets
from roodso.exceptions import (
    ConvergenceWarning,
    DegenerateDataWarning,
    RooDSOWarning,
    SolverError,
)
from roodso.methods import RooDSO
from roodso.portable import load

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "DegenerateDataWarning",
    "RooDSO",
    "RooDSOWarning",
    "SolverError",
    "datasets",
    "load",
    "losses",
    "sets",
]
