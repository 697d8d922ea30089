"""The seam to the report: what `roodso.report` is called with, and what it needs beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from roodso.cli.methods import METHODS
from roodso.cli.results import Result, described
from roodso.cli.screen import Screen
from roodso.cli.task import Task, noted
from roodso.exceptions import SolverError
from roodso.methods.base import DecisionMaker
from roodso.model_selection import Comparison, compare
from roodso.planner import MissingPackageError, Note
from roodso.planner.errors import library_errors
from roodso.planner.words import sentence

__all__ = ["COMPARED", "check_report", "compared", "full_report", "rivals"]

#: What a report sets beside the decision. The intersection is left out: it can take minutes.
COMPARED = ("rood", "thick", "saa", "hull", "wasserstein", "barycenter")


def check_report() -> None:
    """Refuse before any work where reports cannot be made."""
    try:
        import roodso.report  # noqa: F401  here, since it brings matplotlib along
    except ImportError as error:
        raise MissingPackageError(
            "reports cannot be written by this installation",
            cause=str(error),
            remedy="install what they need: pip install 'roodso[report]'",
        ) from None


def rivals(task: Task, screen: Screen) -> dict[str, DecisionMaker]:
    """The other methods, fitted to the same data; one that fails is named and left out."""
    fitted = {}
    for name in COMPARED:
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


def full_report(
    result: Result,
    screen: Screen,
    *,
    others: dict[str, DecisionMaker] | None = None,
    target: pd.DataFrame | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """The page on a decision with all rivals, compared on every source held out.

    Parameters
    ----------
    result : Result
    screen : Screen
        Its warnings are on the page as well.
    others : dict, optional
        The rivals, where they are fitted already.
    target : DataFrame, optional
        What the source turned out to be.
    remarks : sequence of str
        What else should be known of the data.
    """
    from roodso.report import build_report

    task, data = result.task, result.task.data
    own = result.whole is None and not result.evaluated
    others = rivals(task, screen) if others is None else others
    comparison = _comparison(task, screen)
    warned = [note.text for note in screen.notes if note.level == "warning"]
    with noted(screen):
        return build_report(
            result.model,
            data.table,
            data.groups,
            decision=None if own else result.decision,
            decision_note=result.origin,
            rivals=others,
            comparison=comparison,
            target=target,
            remarks=[
                sentence(text) + "." * (text[-1:] not in ".?") for text in (*remarks, *warned)
            ],
            command=task.command,
            title=f"{sentence(task.words.noun)} for {result.place}",
            note=described(data),
            name=METHODS[task.method].label,
            source=data.source,
            currency=data.currency,
            unit=data.unit,
        )


def _comparison(task: Task, screen: Screen) -> Comparison | None:
    """The method and its rivals on sources held out, where enough remain to decide from."""
    if len(task.data.labels) < 3:
        return None
    names = [task.method, *[name for name in COMPARED if name != task.method]]
    return compared(task, names, screen)
