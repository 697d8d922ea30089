"""Estimators: each joins an uncertainty set, a loss and the solver."""

from roodso.methods.rood import RooDSO

__all__ = ["RooDSO"]
