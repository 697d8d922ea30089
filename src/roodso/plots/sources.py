r"""Where the sources lie: a map whose distances to the centre are exact.

Embeddings have as many dimensions as there are sources, and a plane has two. The map keeps what the
set is about, the distances :math:`|\hat\mu_i - \mu_c|` to the centre, so that a source is drawn
inside the circle exactly if it lies in the ball. The directions are those of classical
multidimensional scaling with the centre as origin: with the Gram matrix of differences

.. math:: B_{ij} = \langle \hat\mu_i - \mu_c, \, \hat\mu_j - \mu_c \rangle, \qquad
          B = \textstyle\sum_k \lambda_k v_k v_k^\top, \qquad
          y_i = (\sqrt{\lambda_1} v_{1i}, \sqrt{\lambda_2} v_{2i})

is the best picture in a plane, and each :math:`y_i` is stretched to the length
:math:`\sqrt{B_{ii}}`. A hull of sources has no centre: see `roodso.plots.outline`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from roodso._typing import Array
from roodso._validation import check_table
from roodso.plots._axes import axes_or_new, literal
from roodso.plots.outline import hull_map, outline, place_words
from roodso.sets.nearest import products_with_sources
from roodso.sets.uncertainty import UncertaintySet
from roodso.solver.solution import Solution
from roodso.sources import match_columns

__all__ = ["SourceMap", "plot_source_map", "source_map"]

#: Of the sources outside, so many are named in the picture.
_NAMED = 12


@dataclass(frozen=True)
class SourceMap:
    """Where sources and other distributions lie around the centre, or about a hull.

    Attributes
    ----------
    table : DataFrame
        Indexed by source: ``x``, ``y``, ``distance`` to the centre (for a hull: to the nearest
        mixture allowed), ``place`` ("inside", "boundary" or "outside"), ``weight`` (alpha; for a
        hull: in the worst case's mixture) and ``rows``.
    others : DataFrame
        The same columns without weight, for "worst case" and "target" where they are known.
    radius : float
    shown : float
        The share of the sources' squared distances that directions in a plane can keep.
    hull : ndarray of shape (m, 2) or None
        The shadow of the mixtures of a hull, and as ``edge`` that of the whole set.
    edge : ndarray of shape (m, 2) or None
    """

    table: pd.DataFrame
    others: pd.DataFrame
    radius: float
    shown: float
    hull: Array | None = None
    edge: Array | None = None

    @property
    def outside(self) -> pd.DataFrame:
        """The sources outside, farthest first."""
        found = self.table[self.table["place"] == "outside"]
        return found.sort_values("distance", ascending=False, kind="stable")


def source_map(model: Any, *, worst: Solution | None = None, target: Any = None) -> SourceMap:
    """Distances of the sources to the centre of the ball or to the hull, and places in a plane.

    Parameters
    ----------
    model : RooDSO or learner of `roodso.sets`
        Fitted.
    worst : Solution, optional
        Whose worst case is shown; by default the model's own solution, where it has one.
    target : (n, d) table, optional
        Samples of one more source, seen later.

    Returns
    -------
    SourceMap

    Examples
    --------
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.sets import SupportMeasureBall
    >>> shops = make_newsvendor_sources(8, 40, random_state=0)
    >>> ball = SupportMeasureBall(nu=0.4).fit(shops)
    >>> found = source_map(ball)
    >>> found.table["place"].value_counts().to_dict(), found.outside.index.tolist()
    ({'boundary': 4, 'inside': 3, 'outside': 1}, [2])
    """
    ball = _set_of(model)
    if ball.n_anchors > 1:
        return _hull_map(model, ball, worst, target)
    sources, alpha = ball.sources, ball.weights
    centered = ball.gram - ball.gram @ alpha - (ball.gram @ alpha)[:, None]
    centered = centered + ball.anchor_gram[0, 0]
    roots, vectors = np.linalg.eigh(0.5 * (centered + centered.T))
    axes = np.arange(len(roots))[::-1][:2]
    kept, total = np.maximum(roots[axes], 0.0), np.maximum(roots, 0.0).sum()
    directions = _pointing_up(vectors[:, axes])
    squared = np.maximum(np.diag(centered), 0.0)
    table = pd.DataFrame(
        _placed(directions * np.sqrt(kept), np.sqrt(squared)),
        index=pd.Index(list(sources.labels), dtype=object, name="source"),
        columns=["x", "y"],
    )
    table["distance"] = np.sqrt(squared)
    table["place"] = place_words(squared, ball)
    table["weight"] = alpha
    table["rows"] = sources.sizes
    others = _others(ball, directions, kept, _distributions(model, ball, worst, target))
    return SourceMap(table, others, ball.radius, float(kept.sum() / total) if total > 0 else 1.0)


def _hull_map(model: Any, known: UncertaintySet, worst: Solution | None, target: Any) -> SourceMap:
    worst = getattr(model, "solution_", None) if worst is None else worst
    mixture = None if worst is None else worst.mixture
    distributions = _distributions(model, known, worst, target)
    table, others, shown, corners = hull_map(known, mixture, distributions)
    hull, directions = outline(corners, known.cap)
    return SourceMap(table, others, known.radius, shown, hull, hull + known.radius * directions)


def plot_source_map(source_map: SourceMap, ax: Any = None) -> Any:
    """Draw the map: the set as a circle or a shadow, sources by place, those outside by name.

    Parameters
    ----------
    source_map : SourceMap
        From `source_map`.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    if source_map.hull is None or source_map.edge is None:
        _draw_ball(ax, source_map.radius)
    else:
        _draw_hull(ax, source_map.hull, source_map.edge)
    looks = {"inside": ("o", "C0"), "boundary": ("D", "C2"), "outside": ("s", "C1")}
    for place, (marker, color) in looks.items():
        part = source_map.table[source_map.table["place"] == place]
        if len(part):
            label = f"{place} ({len(part)})"
            ax.plot(part["x"], part["y"], marker, color=color, markersize=5.5, label=label)
    for name, (marker, color) in {"worst case": ("X", "C3"), "target": ("*", "C4")}.items():
        if name in source_map.others.index:
            spot = source_map.others.loc[name]
            ax.plot(spot["x"], spot["y"], marker, color=color, markersize=11, label=name)
    _name(ax, source_map.outside.head(_NAMED))
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.axis("off")
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)
    return ax


def _draw_ball(ax: Any, radius: float) -> None:
    from matplotlib.patches import Circle

    ax.add_patch(Circle((0, 0), radius, facecolor="C0", alpha=0.12, edgecolor="none"))
    ax.add_patch(Circle((0, 0), radius, fill=False, edgecolor="C0", linewidth=1.2))
    ax.plot(0, 0, "+", color="C0", markersize=10, label="centre")


def _draw_hull(ax: Any, hull: Array, edge: Array) -> None:
    """The whole set, and the mixtures of sources within it."""
    ax.fill(*edge.T, facecolor="C0", alpha=0.12, edgecolor="none")
    ax.plot(*np.vstack([edge, edge[:1]]).T, color="C0", linewidth=1.2)
    ax.plot(*np.vstack([hull, hull[:1]]).T, color="C0", linewidth=1.0, linestyle=":",
            label="mixtures")  # fmt: skip


def _name(ax: Any, outside: pd.DataFrame) -> None:
    """Names beside the points, on the side that faces away from the centre."""
    for label, row in outside.iterrows():
        right = row["x"] >= 0
        ax.annotate(
            literal(label),
            (row["x"], row["y"]),
            (6 if right else -6, 3 if row["y"] >= 0 else -3),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize="small",
        )


def _set_of(model: Any) -> UncertaintySet:
    if not hasattr(model, "get_params"):
        raise TypeError(f"model must be a fitted RooDSO or a learner of a set, got {model!r}")
    check_is_fitted(model)
    known = getattr(model, "uncertainty_set_", None)
    if not isinstance(known, UncertaintySet):
        raise TypeError(f"model must have learned a set (RooDSO, SupportMeasureBall), got {model}")
    return known


def _distributions(
    model: Any, ball: UncertaintySet, worst: Solution | None, target: Any
) -> dict[str, tuple[Array, Array]]:
    """Points and weights of what is shown besides the sources."""
    found = {}
    worst = getattr(model, "solution_", None) if worst is None else worst
    if worst is not None:
        found["worst case"] = (worst.support, worst.worst_case_weights)
    if target is not None:
        named = match_columns(target, ball.sources.names, "target")
        table = check_table(named, "target", width=ball.sources.n_columns)
        found["target"] = (table, np.full(len(table), 1.0 / len(table)))
    return found


def _others(
    ball: UncertaintySet,
    directions: Array,
    kept: Array,
    distributions: dict[str, tuple[Array, Array]],
) -> pd.DataFrame:
    r"""Place other distributions on the axes that the sources span.

    Axis k is :math:`u_k = \lambda_k^{-1/2} \sum_i v_{ki} (\mu_i - \mu_c)`, so the coordinate of P
    there is :math:`\lambda_k^{-1/2} \sum_i v_{ki} \langle \mu_P - \mu_c, \mu_i - \mu_c \rangle`.
    """
    alpha, center = ball.weights, ball.gram @ ball.weights
    names, rows = [], []
    for name, (points, weights) in distributions.items():
        products, own = products_with_sources(ball, points, weights)
        inner = products - products @ alpha - center + alpha @ center
        squared = np.array([max(own - 2 * products @ alpha + alpha @ center, 0.0)])
        usable = np.where(kept > 1e-12, np.sqrt(kept), np.inf)
        x, y = _placed((directions.T @ inner / usable)[None], np.sqrt(squared))[0]
        names.append(name)
        rows.append((x, y, float(np.sqrt(squared[0])), place_words(squared, ball)[0]))
    index = pd.Index(names, dtype=object)
    return pd.DataFrame(rows, index=index, columns=["x", "y", "distance", "place"])


def _pointing_up(vectors: Array) -> Array:
    """Eigenvectors with the sign that makes their largest entry positive, and always two."""
    largest = np.abs(vectors).argmax(axis=0)
    signed = vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.pad(signed, ((0, 0), (0, 2 - signed.shape[1])))


def _placed(flat: Array, lengths: Array) -> Array:
    """Rows of ``flat`` (m, 2) stretched to the lengths; one without direction points right."""
    short = np.linalg.norm(flat, axis=1)
    lost = short <= 1e-9 * max(float(lengths.max()), 1e-300)
    unit = np.where(lost[:, None], [1.0, 0.0], flat / np.where(lost, 1.0, short)[:, None])
    return unit * lengths[:, None]
