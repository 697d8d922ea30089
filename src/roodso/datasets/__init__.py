"""Data to try things on: the paper's generator."""

from roodso.datasets.generators import make_newsvendor_sources

__all__ = ["make_newsvendor_sources"]
