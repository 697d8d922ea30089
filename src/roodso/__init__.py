"""Robust out-of-distribution stochastic optimisation: decide where no data exist yet."""
