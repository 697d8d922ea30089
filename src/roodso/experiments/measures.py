r"""What is measured of a decision on unseen distributions, and how sure that is.

On each unseen distribution a decision has a mean cost, a 95% quantile of cost, and a mean cost of
the worst 5% (CVaR). Over the unseen distributions these become the measures of `MEASURES`.

Intervals resample the *units* with replacement, 95% percentile bootstrap: repetitions where each
draws sources and unseen distributions afresh, and targets where there is one set of real data,
since replications on the same data differ in what the method draws alone. All methods of a
resample share its units, so differences are paired. For the largest of few targets such an
interval is rough: it never reaches beyond the largest target seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from roodso._typing import Array
from roodso.experiments.methods import BALL
from roodso.losses.base import Loss
from roodso.support import data_box

__all__ = [
    "MEASURES",
    "SUMMARY",
    "TAIL",
    "Costs",
    "Sample",
    "Verdict",
    "contrast",
    "costs_of",
    "judge",
    "summarize",
]

#: Measures over unseen distributions; lower is better.
MEASURES = {
    "mean": "mean over distributions",
    "quantile 90": "90% quantile over distributions",
    "worst": "worst distribution",
    "largest quantile 95": "largest 95% quantile",
    "largest CVaR": "largest CVaR (worst 5%)",
}
TAIL = tuple(MEASURES)[1:]
SUMMARY = [
    "study", "method", "measure", "value", "low", "high",
    "difference_to_ball", "diff_low", "diff_high",
]  # fmt: skip
_RESAMPLES = 2000
_LEVEL = 0.95
_SHARE = 0.05


@dataclass(frozen=True)
class Costs:
    """What a decision costs on samples of one distribution."""

    mean: float
    quantile: float
    cvar: float
    largest: float


def costs_of(loss: Loss, decision: Array, table: Array) -> Costs:
    """Mean, 95% quantile, mean of the worst 5% and largest of a decision's costs.

    Internal variables of the loss are those that are best for the table, as in ``score``.

    Examples
    --------
    >>> from roodso.losses import Newsvendor
    >>> demand = np.arange(1.0, 101.0)[:, None]
    >>> found = costs_of(Newsvendor(price=0, cost=0, backorder=1), np.zeros(1), demand)
    >>> found.mean, round(found.quantile, 2), found.cvar, found.largest
    (50.5, 95.05, 98.0, 100.0)
    """
    problem = loss.bind(*data_box(table))
    z = problem.complete(decision, table, np.full(len(table), 1.0 / len(table)))
    costs = problem.values(z, table)
    worst = max(1, round(_SHARE * len(costs)))
    return Costs(
        mean=float(costs.mean()),
        quantile=float(np.quantile(costs, 1 - _SHARE)),
        cvar=float(np.partition(costs, -worst)[-worst:].mean()),
        largest=float(costs.max()),
    )


def over_distributions(found: Sequence[Costs]) -> dict[str, float]:
    """The measures of `MEASURES` from costs on each unseen distribution."""
    means = np.array([costs.mean for costs in found])
    return {
        "mean": float(means.mean()),
        "quantile 90": float(np.quantile(means, 0.9)),
        "worst": float(means.max()),
        "largest quantile 95": max(costs.quantile for costs in found),
        "largest CVaR": max(costs.cvar for costs in found),
    }


#: Values over units, (..., units, methods), to one value a method, (..., methods).
Statistic = Callable[[Array], Array]


def _mean(values: Array) -> Array:
    found: Array = values.mean(axis=-2)
    return found


def _largest(values: Array) -> Array:
    found: Array = values.max(axis=-2)
    return found


def _quantile(values: Array) -> Array:
    found: Array = np.quantile(values, 0.9, axis=-2)
    return found


#: How a measure comes from its values on targets, where targets are the units.
OVER_TARGETS: dict[str, tuple[str, Statistic]] = {
    "mean": ("cost", _mean),
    "quantile 90": ("cost", _quantile),
    "worst": ("cost", _largest),
    "largest quantile 95": ("quantile", _largest),
    "largest CVaR": ("cvar", _largest),
}


@dataclass(frozen=True)
class Sample:
    """One measure of one case: values by unit (rows) and method (columns).

    Attributes
    ----------
    study : str
    measure : str
    table : DataFrame
    statistic : callable
        By default the mean over units.
    """

    study: str
    measure: str
    table: pd.DataFrame
    statistic: Statistic = _mean

    def resampled(self) -> Array:
        """The statistic on resamples of the units, (resamples, methods)."""
        rng = np.random.default_rng(0)
        values = self.table.to_numpy()
        units = rng.integers(len(values), size=(_RESAMPLES, len(values)))
        return self.statistic(values[units])

    def value(self) -> Array:
        """The statistic, one number a method."""
        return self.statistic(self.table.to_numpy())

    def intervals(self, drawn: Array) -> tuple[Array, Array]:
        """Lower and upper ends over resamples (first axis); NaN where there is but one unit."""
        tails = [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]
        low, high = np.quantile(drawn, tails, axis=0)
        if len(self.table) < 2:
            return np.full_like(low, np.nan), np.full_like(high, np.nan)
        return low, high


def summarize(samples: Iterable[Sample]) -> pd.DataFrame:
    """One row a study, method and measure, with intervals and paired differences to the ball.

    Returns
    -------
    DataFrame
        Columns as in `SUMMARY`. A difference above 0 says that the ball costs less.
    """
    rows = []
    for sample in samples:
        names = list(sample.table.columns)
        value, drawn = sample.value(), sample.resampled()
        low, high = sample.intervals(drawn)
        ball = names.index(BALL) if BALL in names else None
        missing = np.full(len(names), np.nan)
        difference = diff_low = diff_high = missing
        if ball is not None:
            difference = value - value[ball]
            diff_low, diff_high = sample.intervals(drawn - drawn[:, [ball]])
        for place, name in enumerate(names):
            numbers = (value, low, high, difference, diff_low, diff_high)
            row = [sample.study, name, sample.measure]
            rows.append([*row, *(float(one[place]) for one in numbers)])
    return pd.DataFrame(rows, columns=SUMMARY)


def contrast(samples: Iterable[Sample], first: str, second: str) -> pd.DataFrame:
    """First minus second, paired: ``study``, ``measure``, ``difference``, ``low``, ``high``."""
    rows = []
    for sample in samples:
        if not {first, second} <= set(sample.table.columns):
            continue
        a, b = (sample.table.columns.get_loc(name) for name in (first, second))
        value, drawn = sample.value(), sample.resampled()
        low, high = sample.intervals((drawn[:, a] - drawn[:, b])[:, None])
        rows.append(
            [
                sample.study,
                sample.measure,
                float(value[a] - value[b]),
                float(low[0]),
                float(high[0]),
            ]
        )
    return pd.DataFrame(rows, columns=["study", "measure", "difference", "low", "high"])


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    Attributes
    ----------
    claim : str
        The paper's, with its place.
    verdict : str
    numbers : str
    """

    claim: str
    verdict: str
    numbers: str

    def line(self) -> str:
        """One item of a Markdown list."""
        return f"- {self.claim} **{self.verdict[0].upper()}{self.verdict[1:]}**: {self.numbers}."


def judge(contrasts: pd.DataFrame) -> tuple[str, str]:
    """Whether 'the first costs less' holds, on the mean and on the tail measures.

    A comparison is *clear* where the whole interval of the difference lies on one side of 0. In
    a group of comparisons the claim holds where more than half are clearly for it and none is
    clearly against it, mostly where some are; more than half clearly against it refute it.

    Parameters
    ----------
    contrasts : DataFrame
        From `contrast`.

    Returns
    -------
    verdict, numbers : str
    """
    tail = contrasts["measure"] != "mean"
    states, said = [], []
    for name, group in (("mean", contrasts[~tail]), ("tail measures", contrasts[tail])):
        good, bad, of = int((group["high"] < 0).sum()), int((group["low"] > 0).sum()), len(group)
        states.append(_state(good, bad, of))
        said.append(f"{name}: clearly lower in {good} of {of}, clearly higher in {bad}")
    return _word(*states), "; ".join(said)


def _state(good: int, bad: int, of: int) -> str:
    if good > of / 2:
        return "mostly" if bad else "holds"
    return "refuted" if bad > of / 2 else "open"


def _word(mean: str, tail: str) -> str:
    """One verdict from the states of both groups."""
    for_it = ("holds", "mostly")
    if mean in for_it and tail in for_it:
        return "holds" if mean == tail == "holds" else "holds mostly"
    if tail in for_it:
        return f"holds for {'most ' if tail == 'mostly' else ''}tail measures only"
    if mean in for_it:
        return f"holds {'mostly ' if mean == 'mostly' else ''}for the mean only"
    return "does not hold here" if "refuted" in (mean, tail) else "undecided here"


def lower(
    samples: Iterable[Sample], claim: str, firsts: Sequence[str], seconds: Sequence[str]
) -> Verdict:
    """The verdict on a claim that each of some methods costs less than each of some others."""
    samples = list(samples)
    parts = [contrast(samples, first, second) for first in firsts for second in seconds]
    verdict, numbers = judge(pd.concat(parts, ignore_index=True))
    return Verdict(claim, verdict, numbers)


def table(rows: Iterable[Iterable[Any]], columns: Sequence[str], words: int = 1) -> list[str]:
    """A Markdown table; the first ``words`` columns hold words, the others numbers.

    Examples
    --------
    >>> table([["SAA", 1]], ["method", "cost"])
    ['| method | cost |', '| --- | ---: |', '| SAA | 1 |']
    """
    marks = ["---" if place < words else "---:" for place in range(len(columns))]
    lines = [list(columns), marks, *[[str(cell) for cell in row] for row in rows]]
    return [f"| {' | '.join(line)} |" for line in lines]
