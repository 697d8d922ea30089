r"""What makes one choice better than another, given its cost on every held-out source.

With costs :math:`c_u` on held-out units u = 1..U (lower is better) and each unit's own optimum
:math:`c^*_u`, the least mean cost that any one decision has on it:

================  =============================================================
``mean``          :math:`U^{-1} \sum_u c_u`
``worst``         :math:`\max_u c_u`
``cvar``          mean of the worst share ``tail`` of the units (a fraction of a unit counts so)
``regret``        :math:`U^{-1} \sum_u (c_u - c^*_u)`; ranks as ``mean`` does, in units that compare
                  between data sets
``worst regret``  :math:`\max_u (c_u - c^*_u)`
================  =============================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roodso._typing import Array
from roodso.sets.mixtures import largest_mixture

__all__ = ["CRITERIA", "as_criterion", "summarize"]

#: A criterion: costs and optima of the units, each (U,), to a number that is better when lower.
Criterion = Callable[[Array, Array], float]

CRITERIA = ("mean", "worst", "cvar", "regret", "worst regret")


def summarize(costs: Array, optima: Array, tail: float) -> dict[str, float]:
    """All named criteria of one choice.

    Examples
    --------
    >>> import numpy as np
    >>> summary = summarize(np.array([1.0, 4.0, 2.0]), np.array([1.0, 1.0, 1.0]), tail=0.5)
    >>> {name: round(value, 3) for name, value in summary.items()}
    {'mean': 2.333, 'worst': 4.0, 'cvar': 3.333, 'regret': 1.333, 'worst regret': 3.0}
    """
    regret = costs - optima
    worst_share, _ = largest_mixture(costs, cap=1.0 / (tail * len(costs)))
    return {
        "mean": float(costs.mean()),
        "worst": float(costs.max()),
        "cvar": worst_share,
        "regret": float(regret.mean()),
        "worst regret": float(regret.max()),
    }


def as_criterion(criterion: Any, tail: float) -> Criterion:
    """Return the function behind a name, or the user's callable of the costs."""
    if isinstance(criterion, str) and criterion in CRITERIA:

        def named(costs: Array, optima: Array) -> float:
            return summarize(costs, optima, tail)[criterion]

        return named
    if callable(criterion):

        def own(costs: Array, _: Array) -> float:
            return float(criterion(costs))

        return own
    listed = ", ".join(repr(name) for name in CRITERIA)
    raise ValueError(f"criterion must be one of {listed} or a callable, got {criterion!r}")
