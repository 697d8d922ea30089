"""The seam to the report: what `roodso.report` is called with, and what it needs beforehand."""

from __future__ import annotations

from importlib import import_module

import pandas as pd

from roodso.cli.methods import METHODS
from roodso.cli.results import Result
from roodso.cli.screen import Screen
from roodso.cli.task import Task, noted
from roodso.exceptions import SolverError
from roodso.methods.base import DecisionMaker
from roodso.model_selection import Comparison, compare
from roodso.planner import MissingPackageError, Note
from roodso.planner.errors import library_errors

__all__ = ["RIVALS", "check_report", "compared", "full_report", "report", "rivals"]

#: Imported when a report is asked for only: it brings matplotlib along.
_REPORT = "roodso.report"

#: What a report sets beside the decision. The intersection is left out: it can take minutes.
RIVALS = ("saa", "hull", "wasserstein", "barycenter")


def check_report() -> None:
    """Refuse before any work where reports cannot be made."""
    try:
        import_module(_REPORT)
    except ImportError as error:
        raise MissingPackageError(
            "reports cannot be written by this installation",
            cause=str(error),
            remedy="install what they need: pip install 'roodso[report]'",
        ) from None


def rivals(task: Task, screen: Screen) -> dict[str, DecisionMaker]:
    """The other methods, fitted to the same data; one that fails is named and left out."""
    fitted = {}
    for name in RIVALS:
        if name == task.method:
            continue
        try:
            fitted[METHODS[name].label] = task.fit(screen, name)
        except SolverError as error:
            screen.note(Note(f"{METHODS[name].label} is left out: {error}", "warning"))
    return fitted


def compared(task: Task, names: list[str], screen: Screen, *, tune: bool = False) -> Comparison:
    """Leave-one-source-out over the methods named, each without the source that it is judged on."""
    methods = {}
    for name in names:
        estimator = task.estimator(name)
        methods[METHODS[name].label] = (estimator, None) if tune else estimator
    with screen.progress("Held-out sources") as progress, noted(screen), library_errors():
        return compare(
            methods,
            task.data.table,
            task.data.groups,
            random_state=task.settings["seed"],
            n_jobs=task.settings["jobs"] or 1,
            progress=progress,
        )


def report(
    result: Result,
    *,
    others: dict[str, DecisionMaker],
    comparison: Comparison | None,
    title: str,
    target: pd.DataFrame | None = None,
) -> str:
    """The page on a decision, as HTML; ``target`` is what the source turned out to be."""
    task, data = result.task, result.task.data
    made = import_module(_REPORT).build_report(
        result.model,
        data.table,
        data.groups,
        decision=None if result.whole is None else result.decision,
        rivals=others,
        comparison=comparison,
        target=target,
        title=title,
        note=task.settings["target_note"] or None,
        name=METHODS[task.method].label,
        currency=data.currency,
        unit=data.unit,
    )
    return str(made)


def full_report(result: Result, screen: Screen) -> str:
    """The page with all rivals, compared on every source held out."""
    task = result.task
    names = [task.method, *[name for name in RIVALS if name != task.method]]
    comparison = compared(task, names, screen) if len(task.data.labels) >= 3 else None
    noun = "Portfolio" if task.data.kind == "portfolio" else "Order"
    return report(
        result,
        others=rivals(task, screen),
        comparison=comparison,
        title=f"{noun} for {task.settings['target_note'] or 'a source without data'}",
    )
