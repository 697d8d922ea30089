"""The page of the study of defaults, made from its summary alone."""

from __future__ import annotations

from typing import Any

import pandas as pd

from roodso.experiments.runs import Row

__all__ = ["NOTHING", "PAPER", "PRESET", "page"]

#: The setting of a contender that has none.
NOTHING = "-"
#: Contender and setting of the defaults, and of `RooDSO.for_heavy_tails`.
PAPER = ("paper's setting", "nu=0.2")
PRESET = ("scale='robust'", "nu=0.95")

_TITLES = {
    "bakery": "The bakery: one store left out",
    "heavy-tailed": "Generated, heavy-tailed",
    "paper": "Generated as in the paper: light tails",
}
_WORDS = {
    "bakery": "on the bakery's stores",
    "heavy-tailed": "on the heavy-tailed generator",
    "paper": "on the paper's generator",
}
_NOTE = (
    "This page is made by `python -m roodso.experiments.page docs` from `results/defaults`, which "
    "`roodso reproduce defaults` writes; its figures are those of the last full run."
)
_WHY = """\
## What goes wrong

The worst case lies on the support points: all samples, and points drawn in their box. One outlier
makes the box as large as itself, and it is a support point of its own, so cutting the box alone
changes little. At small nu the ball is so large that it holds next to the worst distribution on
these points: the decision is then that of robust optimisation over them, and outliers make it.

## What can be done

| option | what it does | what it gives up |
|---|---|---|
| `nu` near 1 | a ball as small as the nearest sources allow | most sources lie outside |
| `scale="robust"` | columns are divided by a deviation that outliers hardly change | nothing |
| `support_box=0.01` | points are drawn between quantiles of each column | samples beyond stay |
| `n_support=0` | no points are drawn | the certificate is over the samples only |
| `clip=0.05` | samples beyond quantiles of a column are moved to them | see below |
| `bandwidth="3*median"` | mass far out moves the embedding further | detail |

Clipping comes before all else. The certified worst case is then over distributions between the
fences only, which has to be said with it; `model.clipped_` says where they are and how many samples
were moved. It moves samples, rather than taking points from the support alone: a small ball around
embeddings of samples that the support leaves out may contain no distribution on what is left. New
data are clipped where the set is asked about them, and never where costs are: `score`, `select` and
`compare` judge on data as they are.

`RooDSO.for_heavy_tails(loss)` sets `nu=0.95` and `scale="robust"`; what is given besides goes
before these. The defaults remain the paper's.

```pycon
>>> from roodso import RooDSO
>>> from roodso.datasets import make_heavy_tailed_sources
>>> from roodso.losses import Newsvendor
>>> shops = make_heavy_tailed_sources(12, (30, 60), random_state=1)
>>> loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
>>> model = RooDSO.for_heavy_tails(loss, clip=0.01, random_state=0).fit(shops)
>>> model.clipped_.columns.tolist(), model.clipped_["above"].tolist()
(['lower', 'upper', 'below', 'above'], [6, 6])

```
"""
_DO = """\
## What to do

1. **Compare first**, with SAA among the methods: `compare` can say that SAA is best. {mean}
2. Where bad sources matter more than the mean, choose nu, or the tail of `ConvexHullDRO`, by data:
   `select(model, grid, X, groups, criterion="cvar")`, or `roodso decide --auto --criterion cvar`.
   The default nu of 0.2 is more cautious than pays here.
3. Without data to choose by: `RooDSO.for_heavy_tails(loss)`; or `ConvexHullDRO(loss, tail=0.5)`,
   which needs no kernel, or `ThickenedHull(thickness=0.1, tail=0.5)`, which give up about as much
   of the mean or somewhat more, and guard bad sources as well or better. Their tail was picked from
   the tables below, which flatters them; nu chosen by data comes to the preset's figures. None of
   these sets promises to contain the next source.
4. Clip where a small nu is wanted, and say that the worst case is over clipped distributions.
"""


def page(summary: pd.DataFrame, settings: Any) -> str:
    """The page of the documentation, in Markdown; every figure of a result is from the summary.

    Parameters
    ----------
    summary : DataFrame
        From `roodso.experiments.defaults.summarize`.
    settings : Settings
        What the study's rows depend on.
    """
    lines = ["# Data with heavy tails", "", _NOTE, "", _WHY, *_findings(summary), ""]
    lines += [_DO.format(mean=_nothing_beats_saa(summary))]
    lines += ["## How it was measured", "", _how(summary, settings), ""]
    for dataset in dict.fromkeys(summary["dataset"]):
        part = summary[summary["dataset"] == dataset]
        lines += [f"## {_TITLES[dataset]}", "", "**Chosen by data**", "", *_chosen(part), ""]
        lines += ["**Setting by setting** (mean / worst fifth / worst)", "", *_settings(part), ""]
    return "\n".join(lines).rstrip() + "\n"


def _nothing_beats_saa(summary: pd.DataFrame) -> str:
    """How many of the others are below SAA's mean beyond chance."""
    others = summary[summary["contender"] != "SAA"]
    better = int((others["mean_more_high"] < 0).sum())
    return (
        f"Of the\n   {len(others)} settings and choices below, {better or 'none'} has a lower mean "
        "than SAA's beyond chance (95% each)."
    )


def _findings(summary: pd.DataFrame) -> list[str]:
    lines = ["## What came of it", ""]
    for dataset in dict.fromkeys(summary["dataset"]):
        rows: list[Row] = summary[summary["dataset"] == dataset].to_dict("records")
        lines += [f"**{_WORDS[dataset].capitalize()}**", ""]
        lines += [f"- {text}" for text in (_of_mean(rows), _of_tail(rows), _of_preset(rows))]
        lines.append("")
    return lines[:-1]


def _row(rows: list[Row], contender: str, setting: str = NOTHING) -> Row:
    """The row of a contender's setting."""
    return next(r for r in rows if (r["contender"], r["setting"]) == (contender, setting))


def _of_mean(rows: list[Row]) -> str:
    """Whether anything is better than SAA in the mean."""
    others = [row for row in rows if row["contender"] != "SAA"]
    best = min(others, key=lambda row: row["mean"])
    better = sum(row["mean_more_high"] < 0 for row in others)
    return (
        f"Mean cost: SAA's is {_number(_row(rows, 'SAA')['mean'])}. The lowest of the "
        f"{len(others)} others is {_number(best['mean'])} ({_name(best)}), "
        f"{_difference(best, 'mean')}; {better or 'none'} of them is below SAA's beyond chance."
    )


def _of_tail(rows: list[Row]) -> str:
    """Who is best for the worst fifth of the targets, and on the worst."""
    told = []
    for measure, words in (("cvar", "Worst fifth of targets"), ("worst", "Worst target")):
        best = min(rows, key=lambda row: row[measure])
        told.append(
            f"{words}: lowest {_number(best[measure])} ({_name(best)}), "
            f"{_difference(best, measure)} against SAA's {_number(_row(rows, 'SAA')[measure])}."
        )
    return " ".join(told)


def _of_preset(rows: list[Row]) -> str:
    """The preset beside SAA, the paper's setting and a choice by data."""
    saa, paper, preset = _row(rows, "SAA"), _row(rows, *PAPER), _row(rows, *PRESET)
    costs = {
        measure: f"{_number(preset[measure])} (SAA {_number(saa[measure])}, the paper's setting "
        f"{_number(paper[measure])})"
        for measure in ("mean", "cvar", "regret")
    }
    chosen = _row(rows, PRESET[0], "by mean")
    return (
        f"`RooDSO.for_heavy_tails`: mean {costs['mean']}, worst fifth {costs['cvar']}, mean regret "
        f"{costs['regret']}. With nu chosen by the mean on sources left out instead of given: mean "
        f"{_number(chosen['mean'])}, worst fifth {_number(chosen['cvar'])}."
    )


def _how(summary: pd.DataFrame, settings: Any) -> str:
    units = summary.groupby("dataset")["units"].max()
    generated = ", ".join(
        f"{count} repetitions {_WORDS[str(dataset)]}"
        for dataset, count in units.items()
        if dataset != "bakery"
    )
    return (
        f"Bakery: each of {settings.n_stores} stores in turn is the target, its rows unseen; price "
        "3, cost 1, holding 0.2 and backorder 0.5 for each product. Generated: "
        f"{generated}, each with {settings.n_sources} sources of {settings.n_samples[0]} to "
        f"{settings.n_samples[1]} samples and {settings.n_fresh} fresh targets, of which "
        f"{settings.n_population} samples each tell the costs; the paper's two-item newsvendor. "
        "Costs are on targets as they are, never clipped. The worst fifth is the mean over the "
        "costliest 20% of the targets, regret that to the best single decision for the target. "
        '"Chosen by" a criterion: in each unit the setting that costs least on sources left out (a '
        "tenth at a time), without the target; kernel, scale and fences are then those of all the "
        "unit's sources. Brackets are 95% intervals by resampling targets (bakery) or repetitions; "
        "those of differences to SAA are of the same targets. Options not named are the paper's."
    )


def _chosen(part: pd.DataFrame) -> list[str]:
    """SAA, what the preset and the paper's setting do, and all choices by data."""
    fixed = [("SAA", NOTHING), PAPER, PRESET]
    keys = part[["contender", "setting"]].apply(tuple, axis=1)
    by_data = part[part["setting"].isin(("by mean", "by cvar"))]
    rows = pd.concat([part[keys.isin(fixed)], by_data])
    lines = [
        "| contender | setting | mean | against SAA | worst fifth | against SAA | worst | regret |",
        "|---|---|---:|---|---:|---|---:|---:|",
    ]
    for row in rows.to_dict("records"):
        lines.append(
            f"| {row['contender']} | {row['setting'].replace('by ', 'chosen by ')} | "
            f"{_number(row['mean'])} | {_interval(row, 'mean')} | {_number(row['cvar'])} | "
            f"{_interval(row, 'cvar')} | {_number(row['worst'])} | {_number(row['regret'])} |"
        )
    return lines


def _settings(part: pd.DataFrame) -> list[str]:
    """A row a contender; balls have a column for each nu, others their own settings in a cell."""
    fixed = part[~part["setting"].str.startswith("by ")]
    balls = fixed[fixed["setting"].str.startswith("nu=")]
    nus = sorted({float(setting.removeprefix("nu=")) for setting in balls["setting"]})
    lines = [
        f"| contender | {' | '.join(f'nu = {nu:g}' for nu in nus)} |",
        f"|---|{'---:|' * len(nus)}",
    ]
    for contender in dict.fromkeys(balls["contender"]):
        own = {
            row["setting"]: _cell(row)
            for row in balls[balls["contender"] == contender].to_dict("records")
        }
        cells = [own.get(f"nu={nu:g}", "") for nu in nus]
        lines.append(f"| {contender} | {' | '.join(cells)} |")
    others = fixed[~fixed["setting"].str.startswith("nu=")]
    lines += ["", "| contender | setting | |", "|---|---|---:|"]
    lines += [
        f"| {row['contender']} | {row['setting']} | {_cell(row)} |"
        for row in others.to_dict("records")
    ]
    return lines


def _cell(row: Any) -> str:
    return f"{_number(row['mean'])} / {_number(row['cvar'])} / {_number(row['worst'])}"


def _name(row: Any) -> str:
    if row["setting"] == NOTHING:
        return str(row["contender"])
    setting = row["setting"]
    return f"{row['contender']}, {setting if '=' in setting else f'chosen {setting}'}"


def _difference(row: Any, measure: str) -> str:
    low, high = row[f"{measure}_more_low"], row[f"{measure}_more_high"]
    return f"a difference of {row[f'{measure}_more']:+.1f} [{low:+.1f}, {high:+.1f}]"


def _interval(row: Any, measure: str) -> str:
    more, low, high = (row[f"{measure}_more{end}"] for end in ("", "_low", "_high"))
    return f"{more:+.1f} [{low:+.1f}, {high:+.1f}]" if row["contender"] != "SAA" else ""


def _number(value: float) -> str:
    return f"{value:.1f}"
