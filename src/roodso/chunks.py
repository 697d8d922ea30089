"""Points a chunk at a time: where they are, work goes to them, and only its results come back.

Whatever needs all points, however many, is a function of one chunk and a sum or selection over the
chunks' results, taken in the chunks' order. Points in memory, in files and on a cluster then differ
in `Chunks.map` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from roodso._typing import Array, IntArray
from roodso.embedding import Embedding, _in_order
from roodso.sources import Sources

__all__ = ["Chunk", "Chunks", "SourceChunks", "SupportChunks"]

T = TypeVar("T")

#: Points of a chunk in memory: enough for threads to share, few enough to hold kernel values for.
_ROWS = 1 << 14


@dataclass(frozen=True)
class Chunk:
    """Some of the points.

    Attributes
    ----------
    points : ndarray of shape (n, d)
        In the user's units.
    codes : ndarray of shape (n,)
        The source of each; -1 for points that are no samples.
    first : int
        Number of the first point among all.
    means : ndarray of shape (n, M), optional
        The values of the sources' embeddings, where they are known already.
    """

    points: Array
    codes: IntArray
    first: int
    means: Array | None = None

    def __len__(self) -> int:
        return len(self.points)


class Chunks(ABC):
    """All points, a chunk at a time, any number of times."""

    @abstractmethod
    def map(self, work: Callable[[Chunk], T], *, n_jobs: int = 1) -> Iterator[T]:
        """``work`` of each chunk, in the chunks' order; it must not change the chunk."""


class SourceChunks(Chunks):
    """All samples of sources in memory, source after source."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._order = np.argsort(sources.codes, kind="stable")

    def map(self, work: Callable[[Chunk], T], *, n_jobs: int = 1) -> Iterator[T]:
        """See `Chunks.map`."""
        return _in_order(lambda number: work(self._chunk(number)), len(self), n_jobs)

    def __len__(self) -> int:
        return -(-len(self._order) // _ROWS)

    def _chunk(self, number: int) -> Chunk:
        rows = self._order[number * _ROWS : (number + 1) * _ROWS]
        return Chunk(self._sources.samples[rows], self._sources.codes[rows], number * _ROWS)


class SupportChunks(Chunks):
    """An embedding's support points, with the values of its means."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        drawn = len(embedding.support) - embedding.sources.n_samples
        self._codes = np.concatenate([embedding.sources.codes, np.full(drawn, -1, dtype=np.intp)])

    def map(self, work: Callable[[Chunk], T], *, n_jobs: int = 1) -> Iterator[T]:
        """See `Chunks.map`."""
        return _in_order(lambda number: work(self._chunk(number)), len(self), n_jobs)

    def __len__(self) -> int:
        return -(-len(self._codes) // _ROWS)

    def _chunk(self, number: int) -> Chunk:
        rows = slice(number * _ROWS, (number + 1) * _ROWS)
        known = self._embedding
        return Chunk(known.support[rows], self._codes[rows], rows.start, known.means[rows])
