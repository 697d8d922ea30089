"""Pictures. Each is drawn from plain data that it also hands out; drawing needs matplotlib.

A function without ``plot_`` in its name computes the data, the one with it draws them on ``ax`` and
returns the Axes. The pages of `roodso.report` show the same pictures.
"""

from roodso.plots.comparison import costs_by_source, plot_costs_by_source
from roodso.plots.path import RobustnessPathDisplay, plot_robustness_path
from roodso.plots.sources import SourceMap, plot_source_map, source_map
from roodso.plots.worst_case import (
    WorstCaseColumn,
    WorstMixture,
    plot_worst_case,
    plot_worst_mixture,
    worst_case_column,
    worst_mixture,
)

__all__ = [
    "RobustnessPathDisplay",
    "SourceMap",
    "WorstCaseColumn",
    "WorstMixture",
    "costs_by_source",
    "plot_costs_by_source",
    "plot_robustness_path",
    "plot_source_map",
    "plot_worst_case",
    "plot_worst_mixture",
    "source_map",
    "worst_case_column",
    "worst_mixture",
]
