"""Which world are we being robust against? The worst case beside the pooled data.

Column by column as two histograms on the same bins, and as the nearest mixture of the sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array
from roodso._validation import check_integer
from roodso.plots._axes import axes_or_new, literal
from roodso.sets.nearest import nearest_mixture, products_with_sources
from roodso.sets.uncertainty import UncertaintySet
from roodso.solver.solution import Solution

__all__ = [
    "WorstCaseColumn",
    "WorstMixture",
    "plot_worst_case",
    "plot_worst_mixture",
    "worst_case_column",
    "worst_mixture",
]

#: Sources with less weight than this are rounding.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class WorstCaseColumn:
    """One column of the data under two distributions.

    Attributes
    ----------
    name : str
    edges : ndarray of shape (B + 1,)
    pooled, worst : ndarray of shape (B,)
        Shares in each bin: of all samples, and of the worst case.
    pooled_mean, worst_mean : float
    """

    name: str
    edges: Array
    pooled: Array
    worst: Array
    pooled_mean: float
    worst_mean: float


@dataclass(frozen=True)
class WorstMixture:
    """The mixture of sources that is nearest to the worst case.

    Attributes
    ----------
    weights : Series
        Indexed by source, in the order of the data.
    distance : float
        From the worst case to the mixture; ``radius`` is the ball's, to compare it with.
    radius : float
    """

    weights: pd.Series
    distance: float
    radius: float


def worst_case_column(
    model: Any, column: int | str, *, worst: Solution | None = None, bins: int = 24
) -> WorstCaseColumn:
    """One column of the pooled samples and of the worst case, as shares in common bins.

    Parameters
    ----------
    model : DecisionMaker
        Fitted, by any method.
    column : int or str
        Its place, or its name.
    worst : Solution, optional
        Whose worst case; by default the model's own. ``model.worst_case_cost(x)`` gives the one
        that is worst for x.
    bins : int, default=24

    Returns
    -------
    WorstCaseColumn

    Examples
    --------
    >>> from roodso import RooDSO
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.losses import Newsvendor
    >>> shops = make_newsvendor_sources(8, 40, random_state=0)
    >>> model = RooDSO(Newsvendor(price=[50, 40], cost=[20, 15]), random_state=0).fit(shops)
    >>> first = worst_case_column(model, 0, bins=4)
    >>> first.name, first.pooled.round(2).tolist(), first.worst.round(2).tolist()
    ('x0', [0.18, 0.19, 0.47, 0.15], [0.6, 0.0, 0.0, 0.4])
    """
    check_integer(bins, "bins", low=1)
    worst = _solution(model, worst)
    names = worst.names or tuple(f"x{j}" for j in range(worst.support.shape[1]))
    place = _place(column, names)
    values, weights = worst.support[:, place], worst.worst_case_weights
    pooled = values[worst.origin >= 0]
    shown = np.concatenate([pooled, values[weights > 0]])
    edges = np.histogram_bin_edges(shown, bins)
    return WorstCaseColumn(
        names[place],
        edges,
        np.histogram(pooled, edges)[0] / len(pooled),
        np.histogram(values, edges, weights=weights)[0],
        float(pooled.mean()),
        float(weights @ values),
    )


def plot_worst_case(column: WorstCaseColumn, ax: Any = None, *, decision: Any = None) -> Any:
    """Draw both distributions of a column.

    Parameters
    ----------
    column : WorstCaseColumn
        From `worst_case_column`.
    ax : matplotlib Axes, optional
    decision : float, optional
        A decision in the column's units, such as an order, marked by a line.

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    ax.stairs(column.pooled, column.edges, fill=True, color="0.6", alpha=0.45, label="all sources")
    ax.stairs(column.worst, column.edges, color="C3", linewidth=1.8, label="worst case")
    if decision is not None:
        ax.axvline(float(decision), color="C0", linestyle="--", linewidth=1.4, label="decision")
    ax.set(xlabel=literal(column.name), ylabel="share")
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="x", nbins=6)
    ax.legend(
        frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1.2
    )
    return ax


def worst_mixture(model: Any, *, worst: Solution | None = None) -> WorstMixture:
    """The mixture of the sources nearest to the worst case; see `roodso.sets.nearest_mixture`.

    Of a hull it is the mixture within whose thickness the worst case lies.

    Parameters
    ----------
    model : RooDSO
        Fitted.
    worst : Solution, optional
        Whose worst case; by default the model's own.

    Returns
    -------
    WorstMixture

    Examples
    --------
    >>> from roodso import RooDSO
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.losses import Newsvendor
    >>> shops = make_newsvendor_sources(8, 40, random_state=0)
    >>> model = RooDSO(Newsvendor(price=[50, 40], cost=[20, 15]), random_state=0).fit(shops)
    >>> found = worst_mixture(model)
    >>> round(float(found.weights.sum()), 9), found.distance <= found.radius
    (1.0, True)
    """
    worst = _solution(model, worst)
    known = getattr(model, "uncertainty_set_", None)
    if not isinstance(known, UncertaintySet):
        raise TypeError(f"model must have learned a set of distributions (RooDSO), got {model}")
    mixture, distance = _near(known, worst)
    index = pd.Index(list(known.labels), dtype=object, name="source")
    weights = pd.Series(np.where(mixture > _NEGLIGIBLE, mixture, 0.0), index, name="weight")
    return WorstMixture(weights, distance, known.radius)


def plot_worst_mixture(mixture: WorstMixture, ax: Any = None, *, most: int = 12) -> Any:
    """Draw the heaviest sources of the mixture as bars.

    Parameters
    ----------
    mixture : WorstMixture
        From `worst_mixture`.
    ax : matplotlib Axes, optional
    most : int, default=12
        How many sources.

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    heavy = mixture.weights[mixture.weights > 0].sort_values(ascending=False, kind="stable")
    heavy = heavy.head(most)
    places = np.arange(len(heavy))
    ax.barh(places, heavy.to_numpy(), height=0.65, color="C3")
    for place, weight in zip(places, heavy, strict=True):
        ax.annotate(
            f"{weight:.1%}", (weight, place), (4, 0), textcoords="offset points", va="center"
        )
    ax.set_yticks(places, [literal(label) for label in heavy.index])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.18 * heavy.max())
    ax.set_xlabel("share of the mixture")
    return ax


def _near(known: UncertaintySet, worst: Solution) -> tuple[Array, float]:
    """The mixture and its distance; a hull's solution has found one that the cap allows."""
    if known.n_anchors == 1:
        return nearest_mixture(known, worst.support, worst.worst_case_weights)
    mixture: Array = worst.mixture @ known.mixtures
    products, own = products_with_sources(known, worst.support, worst.worst_case_weights)
    squared = float(mixture @ known.gram @ mixture - 2 * mixture @ products + own)
    return mixture, float(np.sqrt(max(squared, 0.0)))


def _solution(model: Any, worst: Solution | None) -> Solution:
    if not hasattr(model, "get_params"):
        raise TypeError(f"model must be a fitted method, got {model!r}")
    check_is_fitted(model, "solution_")
    found: Solution = model.solution_ if worst is None else worst
    return found


def _place(column: int | str, names: tuple[str, ...]) -> int:
    if isinstance(column, str):
        if column not in names:
            raise ValueError(f"column must be one of {list(names)}, got {column!r}")
        return names.index(column)
    place = check_integer(column, "column")
    if place >= len(names):
        raise ValueError(f"column must be a whole number below {len(names)}, got {column!r}")
    return place
