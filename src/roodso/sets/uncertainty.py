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

from roodso._typing import Array, IntArray
from roodso._validation import check_table
from roodso.embedding import KernelSpace, source_means, source_means_at
from roodso.kernels import Kernel
from roodso.lowrank import Landmarks
from roodso.sets.quadratic import best_mixture
from roodso.sources import Sources, match_columns

__all__ = ["UncertaintySet", "membership_slack"]

#: A distribution on the boundary must count as inside. Squared distances are differences of sums
#: near C, so they carry an absolute error; wide data add a share of their own (`roodso.pairs`).
_ABSOLUTE_SLACK, _RELATIVE_SLACK = 1e-12, 1e-9
#: Radii below this share of sqrt(C) are not told from 0 by squared distances in double precision.
_RADIUS_FLOOR = 1e-7


def membership_slack(squared_radius: float, bound: float) -> float:
    """By how much a squared distance may exceed the squared radius and count as inside.

    ``bound`` is the kernel's C.
    """
    return _RELATIVE_SLACK * squared_radius + _ABSOLUTE_SLACK * bound


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
    radius_error : float
        A learned radius is a distance of sources whose embeddings may be known up to an error only
        (`roodso.lowrank`): it is at most ``radius`` and less by this at most. 0 where all is exact,
        and where the radius was given.
    landmarks : Landmarks or None
        Where the samples are elsewhere (`roodso.streams`), what stands for the sources' embeddings:
        distances are then to that, which is within ``landmarks.errors`` of the embeddings.

    Examples
    --------
    The hull of two sources, of which neither may weigh more than 3/4, without thickness:

    >>> import numpy as np
    >>> from roodso.embedding import Coordinates, Embedding
    >>> from roodso.kernels import RBF
    >>> sources = Sources.from_data([[[0.0]], [[1.0]]])
    >>> space = KernelSpace(RBF(1.0), Coordinates(np.zeros(1), np.ones(1)))
    >>> gram = Embedding.compute(space, sources, np.empty((0, 1))).gram
    >>> hull = UncertaintySet(np.eye(2), 0.0, 0.0, space, sources, gram, cap=0.75)
    >>> hull.contains([[0.0], [0.0], [1.0]]), hull.contains([[0.0]])
    (True, False)
    >>> round(hull.distance([[0.0]]), 4)
    0.2218
    """

    mixtures: Array
    radius: float
    radius_without_gamma: float
    space: KernelSpace
    sources: Sources
    gram: Array
    cap: float = 1.0
    radius_error: float = 0.0
    landmarks: Landmarks | None = None

    @classmethod
    def ball(
        cls,
        weights: Array,
        squared_radius: float,
        gamma: float,
        space: KernelSpace,
        sources: Sources,
        gram: Array,
        *,
        least_squared_radius: float | None = None,
    ) -> UncertaintySet:
        """The ball {P : |mu_P - sum_i weights_i mu_i|^2 <= squared_radius + gamma}.

        Where the squared radius is known up to an error only, it is the largest possible one, and
        the smallest one comes besides.
        """
        least = squared_radius if least_squared_radius is None else least_squared_radius
        plain, enlarged = (
            _told_from_zero(float(np.sqrt(r2)), space.kernel)
            for r2 in (squared_radius, squared_radius + gamma)
        )
        error = max(enlarged - float(np.sqrt(max(least + gamma, 0.0))), 0.0)
        return cls(weights[None, :], enlarged, plain, space, sources, gram, radius_error=error)

    @classmethod
    def hull(
        cls,
        anchors: IntArray,
        radius: float,
        radius_without_gamma: float,
        cap: float,
        space: KernelSpace,
        sources: Sources,
        gram: Array,
        *,
        least_radius: float | None = None,
    ) -> UncertaintySet:
        """Mixtures of the sources numbered ``anchors``, none above ``cap``, thickened.

        ``least_radius`` is as for `ball`; a radius that was given has none.
        """
        plain, enlarged = (_told_from_zero(r, space.kernel) for r in (radius_without_gamma, radius))
        mixtures = np.eye(sources.n_sources)[anchors]
        error = 0.0 if least_radius is None else max(enlarged - least_radius, 0.0)
        return cls(mixtures, enlarged, plain, space, sources, gram, cap, error)

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
    def least_radius(self) -> float:
        """The smallest value that the radius may have; see ``radius_error``."""
        return self.radius - self.radius_error

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
        """Distance in the RKHS from the empirical embedding of ``samples`` to the centre.

        Where there are several anchors, it is to the nearest mixture of them that is allowed.

        Parameters
        ----------
        samples : (n, d) array or DataFrame

        Returns
        -------
        float
        """
        return float(np.sqrt(self.squared_distance(samples)))

    def contains(self, samples: Any) -> bool:
        """Whether the empirical distribution of ``samples`` (n, d) lies in the set.

        The boundary belongs to the set; so that rounding leaves it there, the squared radius gets a
        billionth of itself and 1e-12 C more.
        """
        return bool(self.admits(self.squared_distance(samples)))

    def admits(self, squared_distances: Any) -> Any:
        """Whether something at these squared distances counts as inside, entry by entry."""
        slack = membership_slack(self.radius**2, self.kernel.bound)
        return squared_distances <= self.radius**2 + slack

    def nearest_mixture(self, products: Array, own: float) -> Array:
        """The mixture a of anchors nearest to a distribution P, among those that are allowed.

        Parameters
        ----------
        products : ndarray of shape (K,)
            Inner products of mu_P with the anchors.
        own : float
            |mu_P|^2.

        Returns
        -------
        ndarray of shape (K,)
        """
        return best_mixture(self._differences(products, own), np.zeros(self.n_anchors), self.cap)

    def _differences(self, products: Array, own: float) -> Array:
        """Gram matrix of the differences mu_k - mu_P, of which the nearest mixture is shortest."""
        differences: Array = self.anchor_gram - products - products[:, None] + own
        return differences

    def squared_distance(self, samples: Any, name: str = "samples") -> float:
        """The square of `distance`; messages call the argument ``name``."""
        named = match_columns(samples, self.sources.names, name)
        table = check_table(named, name, width=self.sources.n_columns)
        # One pass gives mu_P's inner products with itself, another those with the sources.
        used = np.flatnonzero(self.mixtures.any(axis=0))
        rows = np.isin(self.sources.codes, used)
        codes = np.searchsorted(used, self.sources.codes[rows])
        known, fresh = (self.space.coordinates(x) for x in (self.sources.samples[rows], table))
        if self.landmarks is not None:
            cross = self.landmarks.means_at(self.space, fresh)[:, used]
        else:
            cross = source_means_at(self.kernel, fresh, known, codes, len(used))
        own = source_means(self.kernel, fresh, np.zeros(len(fresh), dtype=np.intp), 1).mean()
        products = self.mixtures[:, used] @ cross.mean(axis=0)
        nearest = self.nearest_mixture(products, own)
        return max(float(nearest @ self._differences(products, own) @ nearest), 0.0)


def _told_from_zero(radius: float, kernel: Kernel) -> float:
    return radius if radius > _RADIUS_FLOOR * np.sqrt(kernel.bound) else 0.0
