"""How methods fared on each source, each decided without that source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from roodso.model_selection import Comparison
from roodso.plots._axes import axes_or_new, literal

__all__ = ["costs_by_source", "plot_costs_by_source"]

_MARKERS = "osD^vPX*"
#: Names of at most these lengths stand three, or two, to a line in the legend.
_SHORT, _MEDIUM = 16, 24


def costs_by_source(comparison: Comparison, *, most: int | None = None) -> pd.DataFrame:
    """Mean costs on the sources held out, the dearest source first.

    Parameters
    ----------
    comparison : Comparison
        From `roodso.model_selection.compare`.
    most : int, optional
        Only so many sources: those on which the methods differ most.

    Returns
    -------
    DataFrame
        One row a source, one column a method; sorted by the first method's cost.

    Examples
    --------
    >>> from roodso import SAA, ConvexHullDRO
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.losses import Newsvendor
    >>> from roodso.model_selection import compare
    >>> shops = make_newsvendor_sources(4, 20, random_state=0)
    >>> loss = Newsvendor(price=[50, 40], cost=[20, 15])
    >>> costs = costs_by_source(compare({"hull": ConvexHullDRO(loss), "SAA": SAA(loss)}, shops))
    >>> costs.columns.tolist(), costs["hull"].is_monotonic_decreasing
    (['hull', 'SAA'], True)
    """
    costs = comparison.costs
    if most is not None and len(costs) > most:
        spread = (costs.max(axis=1) - costs.min(axis=1)).to_numpy()
        costs = costs.iloc[np.sort(np.argsort(-spread, kind="stable")[:most])]
    return costs.sort_values(costs.columns[0], ascending=False, kind="stable")


def plot_costs_by_source(costs: pd.DataFrame, ax: Any = None) -> Any:
    """Draw a row a source and a dot a method; the line joins its least and largest cost.

    Parameters
    ----------
    costs : DataFrame
        From `costs_by_source`.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    rows = np.arange(len(costs))
    ax.hlines(rows, costs.min(axis=1), costs.max(axis=1), color="0.6", linewidth=1.0, zorder=1)
    for place, name in reversed(list(enumerate(costs.columns))):  # the first lies on top
        ax.plot(
            costs[name],
            rows,
            _MARKERS[place % len(_MARKERS)],
            color=f"C{place % 6}",
            markersize=6.5 if place == 0 else 5.0,
            markerfacecolor=None if place == 0 else "none",
            label=literal(name),
        )
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles[::-1],
        labels[::-1],
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=min(_columns(labels), len(labels)),
    )
    ax.set_yticks(rows, [literal(label) for label in costs.index])
    ax.invert_yaxis()
    ax.margins(y=0.6 / max(len(rows), 1))
    ax.set_xlabel("mean cost (negative: profit)")
    return ax


def _columns(labels: list[str]) -> int:
    """How many names stand beside each other."""
    longest = max(map(len, labels))
    return 3 if longest <= _SHORT else 2 if longest <= _MEDIUM else 1
