"""Data to try things on: the paper's generator, and a bakery chain's real demand."""

from roodso.datasets.bakery import load_bakery
from roodso.datasets.generators import make_newsvendor_sources

__all__ = ["load_bakery", "make_newsvendor_sources"]
