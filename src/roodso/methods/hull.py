r"""Group DRO: the best decision against the worst mixture of the sources.

.. math:: \min_{x \in \mathcal X} \max_{\alpha \in \Delta^M} \; \sum_{i=1}^M \alpha_i
          \frac1{n_i} \sum_{j=1}^{n_i} f(x, \xi_{ij})

(paper, eq:Group_DRO_ambiguity_set, "DRO-Conv"). The maximum over all mixtures is that over the
sources. With a cap :math:`\alpha_i \le 1/(\tau M)` it is the mean over the worst share tau of the
sources: the conditional value at risk over sources.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roodso._typing import Array
from roodso._validation import check_real
from roodso.methods.base import SampleMethod

__all__ = ["ConvexHullDRO"]


class ConvexHullDRO(SampleMethod):
    """Distributionally robust over the convex hull of the sources, solved exactly.

    Parameters
    ----------
    loss : Loss
        What a decision costs: `Newsvendor`, `CVaRPortfolio` or `ConvexLoss`.
    tail : float in (0, 1] or None, default=None
        None guards against the worst source. A share guards against the mean of the worst
        ``tail * M`` sources (no mixture weight exceeds ``1 / (tail * M)``); 1 minimises the mean
        over sources, each counting the same.
    tol : float, default=1e-6
        Relative certified gap to reach.
    max_iter : int, default=2000
        Rounds of the solver.
    time_limit : float, optional
        Seconds for the solver.
    progress : callable, optional
        ``progress(stage, fraction_or_None, details)``.

    Attributes
    ----------
    decision_ : ndarray of shape (n,) or Series
    objective_ : float
        Certified upper bound on the worst mixture's expected loss.
    solution_ : Solution
        ``mixture`` is a worst mixture, by source in the order of first appearance: no decision
        brings its mean below ``lower_bound``.

    Examples
    --------
    >>> from roodso.losses import Newsvendor
    >>> demand = {"north": [[1.0], [2.0], [3.0]], "south": [[9.0]]}
    >>> model = ConvexHullDRO(Newsvendor(price=2, cost=1)).fit(demand)
    >>> model.decision_.round(4).tolist(), round(model.objective_, 4)
    ([2.0], -1.3333)
    """

    def __init__(
        self,
        loss: Any,
        *,
        tail: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 2000,
        time_limit: float | None = None,
        progress: Any = None,
    ) -> None:
        self.loss = loss
        self.tail = tail
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.progress = progress

    def _validate(self) -> None:
        super()._validate()
        if self.tail is not None:
            check_real(self.tail, "tail", low=0.0, high=1.0, low_open=True)

    def _anchors(self) -> tuple[Array, float]:
        sources = self._sources
        anchors = np.zeros((sources.n_samples, sources.n_sources))
        anchors[np.arange(sources.n_samples), sources.codes] = 1.0 / sources.sizes[sources.codes]
        cap = 1.0 if self.tail is None else min(1.0, 1.0 / (self.tail * sources.n_sources))
        return anchors, cap
