r"""What the adversary may choose: the product of learning, the input of optimisation.

With anchors :math:`\mu_k = \sum_i W_{ki} \hat\mu_i` (mixtures of the sources' embeddings) it is

.. math:: \mathcal{U} = \Big\{ P : \big| \mu_P - \textstyle\sum_k a_k \mu_k \big| \le R
          \text{ for some } a \in \mathcal{A} \Big\}, \quad
          \mathcal{A} = \{ a \ge 0, \; \textstyle\sum_k a_k = 1, \; a_k \le \text{cap} \},

and its support function is :math:`\max_{a \in \mathcal{A}} \sum_k a_k \langle g, \mu_k \rangle +
R |g|`. One anchor W = alpha* gives the paper's ball (eq:empirical_kernelized_SMC_uncertainty_set);
the sources themselves as anchors give their hull, thickened by R; R = 0 gives group DRO, and with
one anchor the sample average. The solver knows this one form.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import check_table
from roodso.embedding import KernelSpace, source_means
from roodso.kernels import Kernel
from roodso.sources import Sources, match_columns

__all__ = ["MEMBERSHIP_TOLERANCE", "UncertaintySet"]

#: Squared distances are differences of sums near C, so they are exact to a few 1e-16 C; the centre
#: comes from a QP solved to 1e-10. A distribution on the boundary must count as inside.
MEMBERSHIP_TOLERANCE = 1e-9
#: Radii below this share of sqrt(C) are not told from 0 by squared distances in double precision.
_RADIUS_FLOOR = 1e-7


@dataclass(frozen=True)
class UncertaintySet:
    """Distributions near the mixtures of the sources that are allowed.

    Attributes
    ----------
    mixtures : ndarray of shape (K, M)
        W, the anchors as mixtures of sources; rows sum to one.
    radius : float
        R, with gamma; 0 where it is not told from 0 in double precision.
    radius_without_gamma : float
    space : KernelSpace
        The kernel and the coordinates it works in.
    sources : Sources
        The samples behind the embeddings.
    gram : ndarray of shape (M, M)
        Inner products of the sources' embeddings.
    cap : float
        Largest weight of one anchor.
    """

    mixtures: Array
    radius: float
    radius_without_gamma: float
    space: KernelSpace
    sources: Sources
    gram: Array
    cap: float = 1.0

    @classmethod
    def ball(
        cls,
        weights: Array,
        squared_radius: float,
        gamma: float,
        space: KernelSpace,
        sources: Sources,
        gram: Array,
    ) -> UncertaintySet:
        """The ball {P : |mu_P - sum_i weights_i mu_i|^2 <= squared_radius + gamma}."""
        floor = _RADIUS_FLOOR**2 * space.kernel.bound
        plain, enlarged = (
            float(np.sqrt(r2)) if r2 > floor else 0.0
            for r2 in (squared_radius, squared_radius + gamma)
        )
        return cls(weights[None, :], enlarged, plain, space, sources, gram)

    @property
    def n_anchors(self) -> int:
        """K."""
        return len(self.mixtures)

    @property
    def weights(self) -> Array:
        """alpha, the weight of each source in the centre of a ball: (M,)."""
        if self.n_anchors > 1:
            raise AttributeError("a hull of several anchors has no single centre: see mixtures")
        return self.mixtures[0]

    @property
    def kernel(self) -> Kernel:
        """The kernel, with its bandwidth."""
        return self.space.kernel

    @property
    def bandwidth(self) -> float:
        """The kernel's bandwidth, in its own coordinates (the user's units unless scaled)."""
        first = self.space.kernel.bandwidths[0]
        assert first is not None
        return first

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """Names of the sources, in the order of the columns of ``mixtures``."""
        return self.sources.labels

    @cached_property
    def anchor_gram(self) -> Array:
        """Inner products of the anchors: (K, K)."""
        return self.mixtures @ self.gram @ self.mixtures.T

    def distance(self, samples: Any) -> float:
        """Distance in the RKHS from the empirical embedding of ``samples`` (n, d) to the centre."""
        if self.n_anchors > 1:
            raise NotImplementedError("distance to a hull of several anchors")
        table = check_table(
            match_columns(samples, self.sources.names, "samples"),
            "samples",
            width=self.sources.n_columns,
        )
        return float(np.sqrt(max(self._squared_distance(table), 0.0)))

    def _squared_distance(self, table: Array) -> float:
        # |mu_P - mu_c|^2 = |mu_P|^2 - 2 sum_i alpha_i <mu_P, mu_i> + alpha' K alpha, where P's
        # samples join as one more source so that one pass gives all inner products.
        coordinates = self.space.coordinates
        used = np.flatnonzero(self.weights > 0)
        rows = np.isin(self.sources.codes, used)
        codes = np.searchsorted(used, self.sources.codes[rows])
        samples = coordinates(self.sources.samples[rows])
        fresh = coordinates(table)
        cross = source_means(self.kernel, samples, codes, len(used), fresh)[len(samples) :]
        own = source_means(self.kernel, fresh, np.zeros(len(fresh), dtype=np.intp), 1)
        inner = float(cross.mean(axis=0) @ self.weights[used])
        return float(own.mean()) - 2 * inner + float(self.anchor_gram[0, 0])

    def contains(self, samples: Any) -> bool:
        """Whether the empirical distribution of ``samples`` (n, d) lies in the set.

        A tolerance of 1e-9 C on squared distances makes the boundary belong to the set.
        """
        slack = MEMBERSHIP_TOLERANCE * self.kernel.bound
        return self.distance(samples) ** 2 <= self.radius**2 + slack
