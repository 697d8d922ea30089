"""``roodso demo``: a bakery store is left out as the shop that opens tomorrow.

Everything is decided from the year before the opening and from the other stores; only then is it
looked at what the store truly sold afterwards. Prices and costs are made up; demand is real.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from roodso import SAA
from roodso.cli.commands import command_line
from roodso.cli.decide import decision
from roodso.cli.methods import METHODS
from roodso.cli.outputs import Outputs
from roodso.cli.reporting import check_report, full_report, rivals
from roodso.cli.results import Result
from roodso.cli.screen import Screen
from roodso.cli.settings import Setting, merged, settings_of
from roodso.cli.task import Task, by_method
from roodso.datasets import load_bakery
from roodso.methods.base import DecisionMaker
from roodso.planner import MissingPackageError, Note, PlannerData, ProblemError
from roodso.planner.errors import nearest

__all__ = ["SETTINGS", "demo"]

#: What of the method may be chosen.
_CHOICES = ("set", "nu", "thickness", "source_tail", "seed", "jobs")
_DEFAULT_REPORT = "roodso-demo.html"
SETTINGS = [
    Setting("store", "run", "The store to leave out. Default: the first.", "text"),
    Setting("report", "run", "Where to write the page.", "path", _DEFAULT_REPORT),
    *[s for s in settings_of("newsvendor", ("method",)) if s.name in _CHOICES],
    *[s for s in settings_of("newsvendor", ("output",)) if s.name in ("force", "quiet")],
    Setting("debug", "run", "Show the traceback of an error.", "switch", False),
]

_SECTIONS = ("data", "newsvendor", "decision", "method")

#: The opening: a year before the data end, so that there is a year to judge by.
_OPENING = pd.Timestamp("2018-04-30")
_HISTORY = pd.Timedelta(weeks=52)
#: Weeks with fewer open days are left out; with fewer weeks a store cannot be judged.
_OPEN_DAYS, _FEWEST_WEEKS = 5, 26
_MADE_UP = "Demand is that of a real bakery chain; prices and costs are made up."
_NAMES = {"p101": "product 101", "p109": "product 109", "p110": "product 110"}
_MONEY = {
    "price": [0.40, 2.50, 1.20],
    "cost": [0.15, 0.90, 0.45],
    "holding": [0.02, 0.10, 0.05],
    "backorder": [0.05, 0.30, 0.15],
}


def demo(given: dict[str, Any]) -> None:
    """Leave a bakery store out, order for it, and see what that would have earned there."""
    values = merged(SETTINGS, given, {})
    outputs = Outputs({"report": values["report"]}, force=values["force"])
    screen = Screen(quiet=values["quiet"] or outputs.to_stdout)
    try:
        check_report()
    except MissingPackageError as error:
        if given["report"] is not None:
            raise
        screen.note(Note(f"no page is written: {error}", "warning"))
        outputs.places.clear()
    store, before, after = _scene(values["store"])
    chosen = by_method("newsvendor", {name: given[name] for name in _CHOICES})
    settings = merged(settings_of("newsvendor", _SECTIONS), chosen, {})
    note = f"store {store}, as if it opened on {_OPENING:%d %B %Y}"
    task = Task.build(
        "newsvendor",
        settings | _MONEY | {"integer": True, "target_note": note},
        before,
        command_line("demo", SETTINGS, given),
    )
    screen.say(
        f"Store {store} opens on {_OPENING:%d %B %Y}. {len(before.labels)} other stores of the "
        f"chain have sold the same three products in the year before ({len(before.table):,} weeks, "
        f"mean demand a day). {_MADE_UP}\n"
    )
    model = task.fit(screen)
    result = decision(task, model, screen)
    result.show(screen)
    others = rivals(task, screen)
    if not outputs.to_stdout:
        _afterwards(result, others, after, screen)
    if outputs.wants("report"):
        content = full_report(result, screen, others=others, target=after, remarks=[_MADE_UP])
        outputs.write("report", content)
        if not outputs.to_stdout:
            screen.say(f"\nThe page to show around: {values['report']}", style="bold")


def _scene(store: str | None) -> tuple[str, PlannerData, pd.DataFrame]:
    """The store, the other stores' year before the opening, and the store's weeks after it."""
    frame = load_bakery(as_frame=True, min_days=_OPEN_DAYS).frame.rename(columns=_NAMES)
    items, weeks = list(_NAMES.values()), frame["week_start"]
    after = frame[weeks >= _OPENING]
    sizes = after["store"].value_counts(sort=False)
    stores = [str(label) for label in sizes.index[sizes >= _FEWEST_WEEKS]]
    chosen = stores[0] if store is None else store.strip()
    if chosen not in stores:
        raise ProblemError(
            f"there is no store {chosen!r} with enough weeks after the opening",
            remedy=nearest(chosen, stores),
        )
    past = frame[(weeks < _OPENING) & (weeks >= _OPENING - _HISTORY)]
    past = past[past["store"].astype(str) != chosen].reset_index(drop=True)
    groups = past["store"].astype(str).astype(object).rename("source")
    data = PlannerData(
        past[items], groups, "the bakery data set", "store", currency="EUR", unit="pieces"
    )
    return chosen, data, after.loc[after["store"].astype(str) == chosen, items]


def _afterwards(
    result: Result, others: dict[str, DecisionMaker], after: pd.DataFrame, screen: Screen
) -> None:
    """What each order would have earned a day in the store that nobody had seen."""
    if screen.quiet:
        return
    loss = result.task.loss
    best = SAA(loss).fit([after.to_numpy()])
    problem = best._problem
    demand = after.to_numpy()
    choices = {METHODS[result.task.method].label: result.decision}
    choices |= {f"{name}": np.asarray(model.solution_.decision) for name, model in others.items()}
    choices["had one known the demand"] = np.asarray(best.solution_.decision)
    rows, formats = [], result.task.formats
    for name, order in choices.items():
        earned = -problem.values(order, demand)
        amounts = [formats.number(float(np.round(number))) for number in order]
        rows.append(
            [name, *amounts, formats.money(earned.mean()), formats.money(np.quantile(earned, 0.1))]
        )
    screen.table(
        f"What the orders would have earned in the {len(after)} weeks after the opening, a day",
        ["method", *result.items, "mean", "in bad weeks (10%)"],
        rows,
    )
    demanded = ", ".join(f"{name} {value:,.0f}" for name, value in after.mean().items())
    screen.say(f"Mean demand a day turned out to be: {demanded}.")
