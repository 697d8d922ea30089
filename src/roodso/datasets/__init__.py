"""Data to try things on: the paper's generator, two harder ones, and a bakery chain's demand."""

from roodso.datasets.bakery import load_bakery
from roodso.datasets.brought import load_coffee, load_etf
from roodso.datasets.generators import (
    make_heavy_tailed_sources,
    make_multimodal_sources,
    make_newsvendor_sources,
)

__all__ = [
    "load_bakery",
    "load_coffee",
    "load_etf",
    "make_heavy_tailed_sources",
    "make_multimodal_sources",
    "make_newsvendor_sources",
]
