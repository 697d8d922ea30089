"""The price of robustness: what caution costs and saves along the values of a parameter.

For each value: the decision from all sources and its certified worst case; and, leaving one source
out at a time, the mean cost over the sources held out and the cost on the worst of them. The larger
the set, the higher its worst case; what that buys shows in the held-out costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from roodso._typing import Progress
from roodso.methods.base import DecisionMaker
from roodso.model_selection import fit_grid, select
from roodso.plots._axes import axes_or_new

__all__ = ["RobustnessPathDisplay", "plot_robustness_path"]

#: The paper's grid of nu.
_VALUES = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass
class RobustnessPathDisplay:
    """The path of a parameter, as data and as a picture; made by `from_estimator`.

    Attributes
    ----------
    table : DataFrame
        Indexed by the parameter's value: ``worst_case`` (certified, from all sources),
        ``held_out_mean`` and ``held_out_worst`` (leave-one-source-out; absent with
        ``held_out=False``).
    decisions : DataFrame
        Decisions from all sources, indexed by the same values.
    ax_ : matplotlib Axes
        Set by `plot`, as is ``figure_``.

    Examples
    --------
    >>> from roodso import RooDSO
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.losses import Newsvendor
    >>> shops = make_newsvendor_sources(8, 40, random_state=0)
    >>> model = RooDSO(Newsvendor(price=[50, 40], cost=[20, 15]), random_state=0)
    >>> path = RobustnessPathDisplay.from_estimator(model, shops, values=[0.1, 0.5, 0.9])
    >>> path.table.index.tolist(), path.decisions.shape
    ([0.1, 0.5, 0.9], (3, 2))
    """

    table: pd.DataFrame
    decisions: pd.DataFrame

    @classmethod
    def from_estimator(
        cls,
        model: DecisionMaker,
        X: Any,
        groups: Any = None,
        *,
        parameter: str = "nu",
        values: Sequence[float] = _VALUES,
        held_out: bool = True,
        n_jobs: int | None = 1,
        progress: Progress | None = None,
    ) -> Self:
        """Compute the path, sharing kernel values over all its fits.

        Parameters
        ----------
        model : DecisionMaker
            Not changed; its own value of the parameter plays no part.
        X, groups
            Data as for the model's ``fit``.
        parameter : str, default="nu"
            Or "gamma", a rival's "radius": any numeric parameter.
        values : sequence of float
        held_out : bool, default=True
            Whether to leave sources out as well: one fit more for each source and value.
        n_jobs, progress
            As for `roodso.model_selection.select`.
        """
        grid = {parameter: list(values)}
        fitted = fit_grid(model, grid, X, groups)
        index = pd.Index(list(values), name=parameter)
        columns: dict[str, Any] = {"worst_case": [each.objective_ for each in fitted]}
        if held_out:
            found = select(model, grid, X, groups, refit=False, n_jobs=n_jobs, progress=progress)
            columns["held_out_mean"] = found.cv_results_["mean"]
            columns["held_out_worst"] = found.cv_results_["worst"]
        decisions = [pd.Series(each.decision_) for each in fitted]
        return cls(pd.DataFrame(columns, index), pd.DataFrame(decisions).set_index(index))

    def plot(self, ax: Any = None) -> Self:
        """Draw the costs against the parameter.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new figure by default.

        Returns
        -------
        self
        """
        self.ax_ = plot_robustness_path(self.table, ax)
        self.figure_ = self.ax_.figure
        return self


def plot_robustness_path(table: pd.DataFrame, ax: Any = None) -> Any:
    """Draw costs against a parameter.

    Parameters
    ----------
    table : DataFrame
        As ``RobustnessPathDisplay.table``.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    values = np.asarray(table.index, dtype=float)
    labels = {
        "worst_case": ("certified worst case", ":"),
        "held_out_worst": ("worst held-out source", "-"),
        "held_out_mean": ("mean over held-out sources", "--"),
    }
    for column, (label, style) in labels.items():
        if column in table:
            ax.plot(values, table[column], style, label=label)
    ax.set(xlabel=str(table.index.name), ylabel="cost (negative: profit)")
    ax.legend(frameon=False)
    return ax
