"""Which method when: the tables of ``docs/how-to-choose.md``, from the rows of all studies.

One line of each study stands for it: `CASES`. Methods are compared as the studies tuned them, in
pairs on the same draws; an interval that lies on one side of 0 is *clear*.
"""

from __future__ import annotations

import pandas as pd

from roodso.experiments.measures import Sample, contrast, table
from roodso.experiments.methods import (
    BALL,
    DEFAULT,
    HULL,
    HULL_FOR_MEANS,
    HULL_FOR_TAILS,
    METHODS,
)
from roodso.experiments.study import Study

__all__ = ["CASES", "MEASURES", "choice"]

#: Of each study, the case that stands for it, and what it is called.
CASES = {
    "table1: M = 2, n in [200, 500]": "generated, M = 2",
    "table1: M = 20, n in [200, 500]": "generated, M = 20",
    "heavy-tailed: M = 20, n in [200, 500]": "heavy tails, M = 20",
    "coffee: cost 30%, holding 5%, backorder 20%; weeks from Sunday": "coffee",
    "bakery: costs of the demo": "bakery",
    "etf: total returns": "funds (risk)",
}
MEASURES = {"mean": "mean", "quantile 90": "90% quantile", "worst": "worst"}
#: Which is compared with which: tuned with tuned, and what is not tuned with its like.
_PAIRS = (
    (HULL, BALL),
    (HULL, "SAA"),
    (HULL, "DRO-Conv"),
    (HULL_FOR_TAILS, DEFAULT),
    (HULL_FOR_TAILS, "DRO-Conv"),
    (HULL_FOR_MEANS, "SAA"),
)


def choice(studies: dict[str, tuple[Study, pd.DataFrame]]) -> list[str]:
    """The tables, as lines of Markdown.

    Parameters
    ----------
    studies : mapping of name to (study, rows)
        Those that have been run.
    """
    samples = _samples(studies)
    lines: list[str] = []
    for measure, title in MEASURES.items():
        shown = {name: by[measure] for name, by in samples.items() if measure in by}
        lines += ["", f"**Cost: {title} over unseen sources**", "", *_costs(shown)]
    lines += [
        "",
        "**In pairs**: on how many of the comparisons above the first costs clearly less",
        "",
    ]
    lines += _counts(samples)
    for first, second in _PAIRS:
        lines += ["", f"**{first}, less {second}**", "", *_differences(samples, first, second)]
    return lines[1:]


def _samples(studies: dict[str, tuple[Study, pd.DataFrame]]) -> dict[str, dict[str, Sample]]:
    """By the name of a case, its measures."""
    found: dict[str, dict[str, Sample]] = {}
    for study, rows in studies.values():
        for sample in getattr(study, "samples", lambda _: [])(rows):
            if sample.study in CASES:
                found.setdefault(CASES[sample.study], {})[sample.measure] = sample
    return {name: found[name] for name in CASES.values() if name in found}


def _costs(samples: dict[str, Sample]) -> list[str]:
    """A row a method, a column a case."""
    values = {
        case: dict(zip(sample.table.columns, sample.value(), strict=True))
        for case, sample in samples.items()
    }
    there = {name for by in values.values() for name in by}
    names = [*(name for name in METHODS if name in there), *sorted(there - set(METHODS))]
    cells = [[name, *(_number(by.get(name)) for by in values.values())] for name in names]
    return table(cells, ["method", *values])


def _differences(samples: dict[str, dict[str, Sample]], first: str, second: str) -> list[str]:
    """A row a case, a column a measure."""
    cells = []
    for case, by in samples.items():
        row = [case]
        for measure in MEASURES:
            told = contrast([by[measure]], first, second) if measure in by else pd.DataFrame()
            row.append("" if told.empty else _with_interval(told.iloc[0]))
        cells.append(row)
    return table(cells, ["study", *MEASURES.values()])


def _counts(samples: dict[str, dict[str, Sample]]) -> list[str]:
    """A row a pair: comparisons, and how many are clear either way, for the mean and the tails."""
    cells = []
    for first, second in _PAIRS:
        row = [first, second]
        for measures in (("mean",), tuple(MEASURES)[1:]):
            chosen = [by[m] for by in samples.values() for m in measures if m in by]
            told = contrast(chosen, first, second)
            lower, higher = int((told["high"] < 0).sum()), int((told["low"] > 0).sum())
            row += [str(len(told)), str(lower), str(higher)]
        cells.append(row)
    columns = ["of the mean", "less", "more", "of the tails", "less", "more"]
    return table(cells, ["first", "second", *columns], words=2)


def _with_interval(row: pd.Series) -> str:
    numbers = [_number(row[name]) for name in ("difference", "low", "high")]
    text = f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
    return f"**{text}**" if row["high"] < 0 or row["low"] > 0 else text


def _number(value: float | None) -> str:
    """Few digits, without an exponent.

    Examples
    --------
    >>> _number(-1234.5), _number(-69.34), _number(0.01234), _number(None)
    ('-1234', '-69.3', '0.012', '')
    """
    if value is None or pd.isna(value):
        return ""
    if value == 0 or abs(value) >= 1000:
        return f"{value:.0f}"
    return (
        f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
        if abs(value) >= 1
        else f"{value:.3f}"
    )
