"""The studies' pictures, made from their summaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["by_method"]

#: Of measures that are better where they are higher.
_TITLES = {"sharpe": "Sharpe ratio (right: better)"}


def by_method(summary: pd.DataFrame, measures: list[str]) -> Any:
    """Differences to RooD-SO with intervals: a row a case, a column a measure, a line a method.

    Parameters
    ----------
    summary : DataFrame
        From `roodso.experiments.measures.summarize`.
    measures : list of str

    Returns
    -------
    matplotlib Figure
    """
    from matplotlib.figure import Figure

    studies, names = (list(dict.fromkeys(summary[column])) for column in ("study", "method"))
    size = (2.4 * len(measures) + 1.2, 1.9 * len(studies) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(studies), len(measures), sharey=True, squeeze=False)
    for i, study in enumerate(studies):
        for j, measure in enumerate(measures):
            here = summary[(summary["study"] == study) & (summary["measure"] == measure)]
            _draw(axes[i, j], here, names)
            if i == 0:
                axes[i, j].set_title(_TITLES.get(measure, measure), fontsize=9)
            if j == 0:
                axes[i, j].set_ylabel(_broken(study), fontsize=8)
    figure.supxlabel("difference to RooD-SO (right: costs more), 95% intervals", fontsize=9)
    return figure


def _draw(ax: Any, cells: pd.DataFrame, names: list[str]) -> None:
    ax.axvline(0.0, color="black", linewidth=0.8)
    places = [names.index(name) for name in cells["method"]]
    value = cells["difference_to_ball"].to_numpy()
    around = [value - cells["diff_low"].to_numpy(), cells["diff_high"].to_numpy() - value]
    ax.errorbar(value, places, xerr=np.maximum(around, 0.0), fmt="o", markersize=3, linewidth=1)
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="x", labelsize=7)
    ax.grid(alpha=0.3, axis="x")


def _broken(label: str) -> str:
    """A label over two lines."""
    return label.replace(": ", ":\n").replace(", ", ",\n", 1)
