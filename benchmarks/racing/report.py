"""The table, the growth, and the page of the documentation, all from the rows.

Times are wall seconds of the fastest repetition; a factor is how many times ours, at the same size,
in the same run. Growth is the slope of log seconds over log size, by least squares on the largest
sizes solved, four at most, and at least two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from racing.events import EVENTS, OURS, Event

__all__ = ["exponent", "page", "table"]

#: So many sizes are fitted, from the largest down.
_FITTED = 4
_WRITTEN = (
    "This page is written by `make race`; its figures are those of one run. Its rows are in "
    "`results/race/rows.csv`."
)
_MACHINE = (
    "Machine: {processor}, {cores} cores, {memory_gb} GB, {system}, Python {python}, NumPy {numpy}."
)
_RULES = (
    "Every contestant runs in a process of its own, with its own environment, on the same arrays. "
    "Times are wall seconds from the raw data to the decision, the fastest of up to "
    "{repetitions} repetitions, after a warm-up on the smallest size; in brackets, how many times "
    "ours in the same run. Growth is the exponent fitted to the largest sizes solved, four at "
    "most. Memory is the peak at the largest size solved, above that of the imported packages. A "
    "process was ended after {seconds:g} s or at {memory_mb:g} MB, and larger sizes were then not "
    "tried (-)."
)
_SHORT = {
    "time limit": "time limit",
    "memory limit": "memory limit",
    "crashed": "crashed",
    "error": "error",
    "not installed": "not installed",
    "other problem": "other problem",
    "not run": "-",
}


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The p of seconds = c size^p, by least squares on logarithms.

    Examples
    --------
    >>> round(exponent([10, 100, 1000], [0.5, 50, 5000]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def page(rows: pd.DataFrame, settings: dict[str, Any]) -> str:
    """The page of the documentation, in Markdown; every figure is from the rows."""
    present = [event for name, event in EVENTS.items() if name in set(rows["event"])]
    limits = settings["limits"]
    lines = [
        "# The race",
        "",
        _WRITTEN,
        "",
        _MACHINE.format(**settings["machine"]),
        "",
        _RULES.format(**limits) + _load(rows),
        "",
        *headlines(rows),
        "![Seconds against size, one panel for each event](images/race.png)",
        "",
    ]
    for event in present:
        lines += [f"## {event.title}", "", event.what, "", table(rows, event), ""]
        lines += _failures(rows, event)
    return "\n".join(lines).rstrip() + "\n"


def _load(rows: pd.DataFrame) -> str:
    """How busy the machine was: on an idle one this is what the contestants did themselves."""
    load = rows["load"].dropna() if "load" in rows else pd.Series(dtype=float)
    if not len(load):
        return ""
    return (
        f" When contests began, the load of the minute before was {load.median():.1f} (median; "
        f"at most {load.max():.1f})."
    )


def headlines(rows: pd.DataFrame) -> list[str]:
    """What most people look for first."""
    lines = []
    seconds = rows[rows["status"] == "solved"].set_index(["event", "contestant", "size"])["seconds"]

    def took(event: str, contestant: str, size: int) -> float | None:
        found = seconds.get((event, contestant, size))
        return None if found is None else float(found)

    for size in (1000, 2500):
        ours = took("ball", OURS, size)
        for name in ("eigenvectors", "pivoted Cholesky"):
            theirs = took("ball", f"cvxpy, low rank by {name}", size)
            if ours and theirs:
                lines.append(
                    f"- One ball, n = {size}: {_seconds(ours)} against {_seconds(theirs)} of the "
                    f"low-rank script by {name}: {theirs / ours:.0f} times."
                )
    largest = rows[(rows["event"] == "ball") & (rows["status"] == "solved")]
    for name in (OURS, f"{OURS}, low rank"):
        own = largest[largest["contestant"] == name]
        if len(own):
            best = own.loc[own["size"].idxmax()]
            lines.append(
                f"- The largest ball solved by {name} has {2 * int(best['size']):,} support "
                f"points: {_seconds(best['seconds'])}, certified gap {_gap(best):.0e}."
            )
    ours, theirs = took("paper", OURS, 21_000), None
    rival = "herded representer, generated rows"
    theirs = took("paper", rival, 21_000)
    if ours and theirs:
        pick = rows[(rows["event"] == "paper") & (rows["size"] == 21_000)].set_index("contestant")
        lines.append(
            f"- N + J = 21,000: exact in {_seconds(ours)} with gap {_gap(pick.loc[OURS]):.0e}, the "
            f"paper's RCR + RG in {_seconds(theirs)} with gap {_gap(pick.loc[rival]):.0e}."
        )
    return [*lines, ""] if lines else []


def table(rows: pd.DataFrame, event: Event) -> str:
    """One event: a line for each contestant, a column for each size."""
    here = rows[rows["event"] == event.name]
    sizes = sorted(here["size"].unique())
    judged = "value apart from ours" if event.relative else event.score_name
    header = ["contestant", *(f"{event.size_name} = {s:,}" for s in sizes)]
    header += ["growth", "MB", f"{judged} (at most)" if event.relative else f"{judged} (last)"]
    ours = here[here["contestant"] == OURS].set_index("size")
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for contestant in event.contestants:
        own = here[here["contestant"] == contestant.name].set_index("size")
        if not len(own):
            continue
        cells = [_cell(own, ours, s, contestant.name == OURS) for s in sizes]
        solved = own[own["status"] == "solved"].sort_index()
        cells += [_growth(solved), _memory(solved), _apart(event, solved, ours)]
        lines.append("| " + " | ".join([contestant.name, *cells]) + " |")
    return "\n".join(lines)


def _cell(own: pd.DataFrame, ours: pd.DataFrame, size: int, is_ours: bool) -> str:
    if size not in own.index:
        return ""
    row = own.loc[size]
    if row["status"] != "solved":
        return _SHORT[row["status"]]
    text = _seconds(row["seconds"])
    if is_ours or size not in ours.index or ours.loc[size, "status"] != "solved":
        return text
    factor = row["seconds"] / ours.loc[size, "seconds"]
    return f"{text} ({factor:.0f}x)" if factor >= 10 else f"{text} ({factor:.2g}x)"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def _growth(solved: pd.DataFrame) -> str:
    last = solved.tail(_FITTED)
    if len(last) < 2:
        return ""
    return f"{exponent(last.index.to_list(), last['seconds'].to_list()):.2f}"


def _memory(solved: pd.DataFrame) -> str:
    if not len(solved) or pd.isna(solved["peak_mb"].iloc[-1]):
        return ""
    return f"{solved['peak_mb'].iloc[-1] - solved['idle_mb'].iloc[-1]:.0f}"


def _gap(row: Any) -> float:
    """The certified relative gap of one of our rows."""
    return float((row["value"] - row["lower"]) / max(1.0, abs(row["value"])))


def _apart(event: Event, solved: pd.DataFrame, ours: pd.DataFrame) -> str:
    if not len(solved):
        return ""
    if not event.relative:
        return f"{solved['value'].iloc[-1]:.4g} at {solved.index[-1]:,}"
    certified = solved["lower"].notna().any()
    gap = max((_gap(row) for _, row in solved.iterrows()), default=0.0) if certified else 0.0
    words = f"gap {gap:.0e}" if certified else ""
    both = solved.index.intersection(ours.index[ours["status"] == "solved"])
    if len(both) and not solved.equals(ours.loc[solved.index]):
        reference = ours.loc[both, "value"]
        apart = (solved.loc[both, "value"] - reference) / np.maximum(1.0, reference.abs())
        words = f"{apart.loc[apart.abs().idxmax()]:+.0e}" + (f", {words}" if words else "")
    return words


def _failures(rows: pd.DataFrame, event: Event) -> list[str]:
    """Remarks, and what went otherwise, in the words of whoever failed."""
    here = rows[(rows["event"] == event.name) & ~rows["status"].isin(["solved", "not run"])]
    lines = [f"- {c.name}: {c.remark}" for c in event.contestants if c.remark]
    lines += [
        f"- {row['contestant']}, {event.size_name} = {row['size']:,}: {row['status']}: "
        f"{str(row['detail']).strip()}"
        for _, row in here.iterrows()
    ]
    noted = rows[(rows["event"] == event.name) & (rows["status"] == "solved")]
    noted = noted[noted["note"].notna() & (noted["note"].astype(str) != "")]
    lines += [
        f'- {row["contestant"]}, {event.size_name} = {row["size"]:,}: ended with "{row["note"]}".'
        for _, row in noted.iterrows()
    ]
    return [*lines, ""] if lines else []
