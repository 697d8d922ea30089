r"""Sample average approximation: the pooled samples are taken for the truth.

.. math:: \min_{x \in \mathcal X} \; \frac1N \sum_{i=1}^M \sum_{j=1}^{n_i} f(x, \xi_{ij})

(paper, section 4, "SAA"). Every row counts the same, so a source counts by its number of rows.
"""

from __future__ import annotations

from typing import Any

from roodso.methods.base import SampleMethod

__all__ = ["SAA"]


class SAA(SampleMethod):
    """Sample average approximation on the pooled samples.

    The rows of all sources are pooled and each has the weight 1/N: larger sources count for more.
    The method guards against nothing; what it minimises is an average, so ``objective_`` is the
    average cost of the decision on the data it was fitted to.

    Parameters
    ----------
    loss : Loss
        What a decision costs: `Newsvendor`, `CVaRPortfolio` or `ConvexLoss`.
    tol : float, default=1e-6
        Relative certified gap to reach. (The newsvendor without side constraints has a closed form,
        the quantile of each item's demand at (p + b - c) / (p + b + h).)
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
        The average cost of the decision.
    solution_ : Solution
        ``worst_case_weights`` are 1/N for each sample: there is but one distribution.

    Examples
    --------
    >>> from roodso.losses import Newsvendor
    >>> demand = {"north": [[1.0], [2.0], [3.0]], "south": [[9.0]]}
    >>> model = SAA(Newsvendor(price=2, cost=1)).fit(demand)
    >>> model.decision_.tolist(), model.objective_
    ([2.0], -1.5)
    """

    def __init__(
        self,
        loss: Any,
        *,
        tol: float = 1e-6,
        max_iter: int = 2000,
        time_limit: float | None = None,
        progress: Any = None,
    ) -> None:
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.progress = progress
