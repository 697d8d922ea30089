"""Estimators: each joins an uncertainty set, a loss and the solver."""

from roodso.methods.barycenter import BarycenterSAA
from roodso.methods.hull import ConvexHullDRO
from roodso.methods.intersection import IntersectionDRO
from roodso.methods.rood import RooDSO
from roodso.methods.saa import SAA
from roodso.methods.wasserstein import WassersteinDRO

__all__ = [
    "SAA",
    "BarycenterSAA",
    "ConvexHullDRO",
    "IntersectionDRO",
    "RooDSO",
    "WassersteinDRO",
]
