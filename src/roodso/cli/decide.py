"""``roodso decide`` and ``roodso evaluate``: the best decision, or what one's own could cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import typer

from roodso._typing import Array
from roodso.cli.commands import command, command_line, epilog
from roodso.cli.methods import without_effect
from roodso.cli.outputs import Outputs
from roodso.cli.reporting import check_report, full_report
from roodso.cli.results import Result, as_json, described, pooled_choice
from roodso.cli.screen import Screen
from roodso.cli.settings import Setting, settings_of
from roodso.cli.task import RESULTS, Task, economic_notes, load_data, noted, values_of
from roodso.cli.values import amounts_of, by_item
from roodso.methods.base import DecisionMaker
from roodso.planner import Note, ProblemError, whole_order
from roodso.planner.errors import library_errors

__all__ = ["decide_app", "evaluate_app"]

_SECTIONS = ("data", "newsvendor", "portfolio", "decision", "method", "output", "run")

decide_app = typer.Typer(
    no_args_is_help=True,
    help="Decide for a source without data.",
    epilog=epilog(["roodso decide newsvendor --problem problem.toml"]),
)
evaluate_app = typer.Typer(
    no_args_is_help=True,
    help="The certified worst case of a decision of your own.",
    epilog=epilog(["roodso evaluate newsvendor --problem problem.toml --order 120,150"]),
)

#: Guarding against the worst costs something on the average; whether it pays is for data to say.
_HINT = Note("whether it pays to guard against the worst, see by: roodso compare")

_ORDER = Setting("order", "decision", "The order in mind, like a=10,b=20.", "amounts")
_WEIGHTS = Setting("weights", "decision", "The weights in mind, like a=0.6,b=0.4.", "amounts")


@command(
    decide_app,
    "newsvendor",
    settings_of("newsvendor", _SECTIONS),
    examples=[
        (
            "roodso decide newsvendor sales.csv --source shop --items loaves,rolls "
            "--price 50,40 --cost 20,15 --holding 5,3 --backorder 10,8"
        ),
        (
            "roodso decide newsvendor --problem problem.toml "
            '--constraint "loaves + 2 * rolls <= 400" '
            "--pack-size loaves=6,rolls=12 --json decision.json --table order.csv"
        ),
    ],
)
def decide_newsvendor(given: dict[str, Any]) -> None:
    """Order quantities for a shop without history: the best against the worst it may meet."""
    _decide("newsvendor", given)


@command(
    decide_app,
    "portfolio",
    settings_of("portfolio", _SECTIONS),
    examples=[
        (
            "roodso decide portfolio returns.csv --source family --assets stocks,bonds,gold "
            '--risk-aversion 10 --tail 0.2 --constraint "gold <= 0.3"'
        ),
    ],
)
def decide_portfolio(given: dict[str, Any]) -> None:
    """Weigh assets of a fund family without history, by mean return and its worst outcomes."""
    _decide("portfolio", given)


@command(
    evaluate_app,
    "newsvendor",
    [_ORDER, *settings_of("newsvendor", _SECTIONS, but=("integer", "pack_size"))],
    examples=["roodso evaluate newsvendor --problem problem.toml --order loaves=120,rolls=150"],
)
def evaluate_newsvendor(given: dict[str, Any]) -> None:
    """What an order you have in mind could cost at worst, certified, beside the best one."""
    _evaluate("newsvendor", given, _ORDER)


@command(
    evaluate_app,
    "portfolio",
    [_WEIGHTS, *settings_of("portfolio", _SECTIONS)],
    examples=[
        (
            "roodso evaluate portfolio returns.csv --source family --assets stocks,bonds,gold "
            "--weights stocks=0.5,bonds=0.4,gold=0.1"
        )
    ],
)
def evaluate_portfolio(given: dict[str, Any]) -> None:
    """What weights you have in mind could cost at worst, certified, beside the best ones."""
    _evaluate("portfolio", given, _WEIGHTS)


def _begin(
    problem: str, given: dict[str, Any], own: Setting | None = None
) -> tuple[Task, Screen, Outputs]:
    """Settings, places to write to, table and problem: all checked before any solving.

    With ``own`` it is for a decision of the user's, given by that setting.
    """
    settings = settings_of(problem, _SECTIONS)
    values = values_of(problem, settings, given, writes=own is None)
    inputs = tuple(path for path in (values["file"], values["problem"]) if path)
    places = {name: values[name] for name in RESULTS}
    outputs = Outputs(places, force=values["force"], inputs=inputs)
    if outputs.wants("report"):
        check_report()
    screen = Screen(quiet=values["quiet"] or outputs.to_stdout)
    data = load_data(values, problem)
    screen.note(Note(described(data)))
    for note in data.notes:
        screen.note(note)
    verb, flags = ("decide", settings) if own is None else ("evaluate", [*settings, own])
    line = command_line(f"{verb} {problem}", flags, given)
    task = Task.build(problem, values, data, line)
    for name in without_effect(task.method, values, given):
        flag = "--" + name.replace("_", "-")
        screen.note(Note(f"{flag} has no effect on the method {task.method}", "warning"))
    if problem == "newsvendor":
        for note in economic_notes(values, data.items):
            screen.note(note)
    return task, screen, outputs


def _decide(problem: str, given: dict[str, Any]) -> None:
    task, screen, outputs = _begin(problem, given)
    model = task.fit(screen)
    result = decision(task, model, screen)
    if task.method != "saa":
        screen.note(_HINT)
    finish(result, screen, outputs)


def decision(task: Task, model: DecisionMaker, screen: Screen) -> Result:
    """The model's decision, in whole packs where asked for, and the pooled average's."""
    best = np.asarray(model.solution_.decision)
    whole, worst = None, model.solution_
    with noted(screen), library_errors():
        if task.pack is not None:
            whole = whole_order(
                best,
                model.worst_case_cost,
                pack=task.pack,
                lower=task.lower,
                upper=task.upper,
                constraints=task.constraints,
            )
            best, worst = whole.order, whole.solution
    pooled = pooled_worst = None
    if task.method != "saa":
        pooled = pooled_choice(task, screen)
        pooled_worst = model.worst_case_cost(pooled)
    return Result(task, model, best, worst, whole, pooled, pooled_worst)


def _evaluate(problem: str, given: dict[str, Any], setting: Setting) -> None:
    if given[setting.name] is None:
        raise ProblemError(
            f"no {setting.name} to evaluate is given",
            remedy=f"give it by {setting.option} a=10,b=20",
        )
    amounts = amounts_of(given[setting.name], setting.name)
    task, screen, outputs = _begin(problem, given, setting)
    own = by_item(amounts, task.data.items, setting.name)
    for text in _breaches(task, own):
        screen.note(Note(f"the {setting.name} does not meet {text}", "warning"))
    model = task.fit(screen)
    with noted(screen), library_errors():
        worst = model.worst_case_cost(own)
    finish(Result(task, model, own, worst, evaluated=True), screen, outputs)


def _breaches(task: Task, x: Array) -> list[str]:
    """The bounds and constraints that a decision of the user's does not meet."""
    texts = task.constraints.violated(x)
    for item, number, low, high in zip(task.data.items, x, task.lower, task.upper, strict=True):
        if number < low:
            texts.append(f"{item} >= {low:g}")
        if number > high:
            texts.append(f"{item} <= {high:g}")
    return texts


def finish(result: Result, screen: Screen, outputs: Outputs) -> None:
    """Show the result and write what was asked for; all is made before anything is written."""
    makers: Mapping[str, Any] = {
        "report": lambda: full_report(result, screen),
        "json": lambda: as_json(result.as_dict(screen.notes)),
        "table": result.as_csv,
    }
    contents = {name: make() for name, make in makers.items() if outputs.wants(name)}
    if not outputs.to_stdout:
        result.show(screen)
    for name, content in contents.items():
        outputs.write(name, content)
    for place in outputs.written:
        screen.note(Note(f"written: {place}"))
