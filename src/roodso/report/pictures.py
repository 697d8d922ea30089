"""The pictures of the page, drawn by `roodso.plots` in the page's colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import PercentFormatter

from roodso import plots
from roodso.model_selection import Comparison
from roodso.planner.formats import share
from roodso.planner.words import Words
from roodso.plots import RobustnessPathDisplay, SourceMap, WorstCaseColumn, WorstMixture
from roodso.plots._axes import literal
from roodso.report.subject import Subject
from roodso.report.svg import as_svg, figure, palette

__all__ = ["Picture", "costs", "mixture", "price", "source_map", "worst_case"]

#: Inches; on a phone a point is then about a pixel.
_WIDTH = 4.6
#: Letters in an axis label of ours that holds a currency.
_LABEL = 60
#: Sources in the picture of costs.
_ROWS = 60


@dataclass(frozen=True)
class Picture:
    """SVG that is part of the page, and what is written below it."""

    svg: Markup
    caption: str


def _picture(ax: Any, name: str, title: str, description: str, caption: str) -> Picture:
    return Picture(Markup(as_svg(ax, name, title, description)), caption)


def costs(comparison: Comparison, subject: Subject) -> Picture:
    """Costs by source, a dot a method."""
    found = plots.costs_by_source(comparison, most=_ROWS).rename(index=subject.called)
    left_out = len(comparison.costs) - len(found)
    with palette():
        ax = plots.plot_costs_by_source(found, figure(_WIDTH, 1.3 + 0.19 * len(found)))
        ax.set_xlabel(literal(f"mean {subject.words.costs}", _LABEL))
        best = found.mean().idxmin()
        caption = "Each row is a source, decided for without its own data; left is better."
        if left_out:
            caption += f" {left_out} sources on which the methods differ least are not shown."
        return _picture(
            ax,
            "costs",
            "Mean cost of each method on each source held out",
            f"A dot plot of {len(found)} sources and {found.shape[1]} methods. The lowest mean "
            f"cost is that of {best}. The table below has the numbers.",
            caption,
        )


def source_map(found: SourceMap, counts: Mapping[Any, int], subject: Subject) -> Picture:
    """The sources around the centre of the ball, or about the hull."""
    found = replace(found, table=found.table.rename(index=subject.called))
    said = ", ".join(f"{count} {place}" for place, count in counts.items())
    with palette():
        ax = plots.plot_source_map(found, figure(_WIDTH, _map_height(found)))
        return _picture(
            ax,
            "map",
            "Map of the sources and the set",
            f"Of {len(found.table)} sources: {said}. The table below has the distances.",
            _map_caption(found),
        )


def _map_height(found: SourceMap) -> float:
    """As high as it is wide for a ball; a flat hull needs less."""
    if found.edge is None:
        return _WIDTH
    drawn = np.vstack([found.edge, found.table[["x", "y"]].to_numpy()])
    wide, high = np.ptp(drawn, axis=0)
    return _WIDTH * float(np.clip(0.15 + high / max(wide, 1e-12), 0.45, 1.2))


def _map_caption(found: SourceMap) -> str:
    kept = f"keep {share(found.shown, 0)} of the squared distances"
    if found.hull is None:
        return (
            "The circle is the set. Distances to its centre are exact; directions are the best "
            f"that a plane can show (they {kept})."
        )
    return (
        "The dotted line holds the mixtures of your sources that are allowed, the full line all "
        f"that is near one. Both are shadows on a plane, as are the sources (they {kept}): what "
        "lies within them may still lie outside the set. The table below has the distances."
    )


def worst_case(column: WorstCaseColumn, place: int, decision: Any, words: Words) -> Picture:
    """One column in the data and in the worst case."""
    with palette():
        ax = plots.plot_worst_case(column, figure(_WIDTH, 2.9), decision=decision)
        if words.in_percent:
            ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        return _picture(
            ax,
            f"column{place}",
            f"{column.name}: all sources and the worst case",
            f"Two histograms. The mean is {words.datum_said(column.pooled_mean)} in all rows "
            f"together and {words.datum_said(column.worst_mean)} in the worst case.",
            f"{column.name}: mean {words.datum_said(column.pooled_mean)} in all rows together, "
            f"{words.datum_said(column.worst_mean)} in the worst case.",
        )


def mixture(found: WorstMixture) -> Picture:
    """The mixture of sources nearest to the worst case."""
    shown = min(int((found.weights > 0).sum()), 12)
    heaviest = found.weights.idxmax()
    with palette():
        ax = plots.plot_worst_mixture(found, figure(_WIDTH, 0.8 + 0.24 * shown))
        return _picture(
            ax,
            "mixture",
            "The mixture of sources nearest to the worst case",
            f"Bars for {shown} sources. The heaviest is {heaviest} with "
            f"{share(found.weights.max(), 0)}.",
            "Shares of the sources in the mixture that is nearest to the worst case.",
        )


def price(path: RobustnessPathDisplay, words: Words) -> tuple[Picture, list[float]]:
    """Costs along the parameter with a movable mark, and where each value lies in the drawing."""
    values = [float(value) for value in path.table.index]
    with palette():
        ax = plots.plot_robustness_path(path.table, figure(_WIDTH, 3.0))
        ax.set_ylabel(literal(words.costs, _LABEL))
        ax.axvline(values[0], color="C1", linewidth=1.6, gid="mark")
        ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)
        picture = _picture(
            ax,
            "price",
            f"Costs by {path.table.index.name}",
            f"Lines over {len(values)} values of {path.table.index.name}; the certified worst "
            f"case runs from {path.table['worst_case'].iloc[0]:.6g} to "
            f"{path.table['worst_case'].iloc[-1]:.6g}. The table below has the numbers.",
            "The vertical line marks the value chosen above.",
        )
        # Drawn: the layout is settled. The drawing's unit is a point, 72 to the inch.
        scale = 72.0 / ax.figure.dpi
        positions = [scale * float(ax.transData.transform((value, 0.0))[0]) for value in values]
    return picture, positions
