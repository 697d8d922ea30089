"""Programmes of the solver made by hand, without an estimator around them."""

from __future__ import annotations

import numpy as np

from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.kernels import RBF
from roodso.losses import Newsvendor
from roodso.sets import UncertaintySet
from roodso.solver.rows import Programme
from roodso.sources import Sources

TERMS = ([50.0, 40.0], [20.0, 15.0], [5.0, 3.0], [10.0, 8.0])
NEWSVENDOR = Newsvendor(*TERMS)


def some_tables(seed=0, n_sources=4, d=2):
    """Small sources of different sizes around different means."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 8, n_sources)
    return [rng.uniform(1, 3, d) + 0.3 * rng.standard_normal((n, d)) for n in sizes]


def programme(
    tables, loss=NEWSVENDOR, *, radius=0.3, mixtures=None, cap=1.0, kernel=None, n_extra=12, seed=0
):
    """The programme over a set of the given radius around mixtures of the sources."""
    sources = Sources.from_data(tables)
    low, high = sources.samples.min(axis=0), sources.samples.max(axis=0)
    extra = np.random.default_rng(seed).uniform(low, high, (n_extra, sources.n_columns))
    coordinates = Coordinates.from_samples(sources.samples, scale=False)
    space = KernelSpace(kernel or RBF(1.0), coordinates)
    embedding = Embedding.compute(space, sources, extra)
    if mixtures is None:
        mixtures = np.full((1, sources.n_sources), 1.0 / sources.n_sources)
    uncertainty = UncertaintySet(
        np.asarray(mixtures), radius, radius, space, sources, embedding.gram, cap
    )
    return Programme(loss.bind(low, high), uncertainty, embedding)
