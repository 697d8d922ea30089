"""Estimators: each joins an uncertainty set, a loss and the solver."""
