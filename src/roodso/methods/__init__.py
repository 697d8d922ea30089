"""Estimators: each joins an uncertainty set, a loss and the solver."""

from roodso.methods.hull import ConvexHullDRO
from roodso.methods.rood import RooDSO
from roodso.methods.saa import SAA
from roodso.methods.wasserstein import WassersteinDRO

__all__ = ["SAA", "ConvexHullDRO", "RooDSO", "WassersteinDRO"]
