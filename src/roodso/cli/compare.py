"""``roodso compare``: which method would have fared best on each source, had it been unseen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import typer

import roodso
from roodso.cli.commands import command, epilog
from roodso.cli.methods import METHODS, SETS
from roodso.cli.outputs import Outputs
from roodso.cli.reporting import COMPARED, compared
from roodso.cli.results import as_json, described
from roodso.cli.screen import Screen
from roodso.cli.settings import Setting, settings_of
from roodso.cli.task import Task, load_data, values_of
from roodso.model_selection import Comparison
from roodso.planner import DataError, Note, ProblemError
from roodso.planner.errors import nearest
from roodso.planner.words import sentence

__all__ = ["compare_app"]

compare_app = typer.Typer(
    no_args_is_help=True,
    help="Compare methods, each source in turn left out.",
    epilog=epilog(["roodso compare newsvendor --problem problem.toml"]),
)

_DEFAULT = list(COMPARED)
_OWN = [
    Setting("methods", "method", f"What to compare, among {', '.join(METHODS)}; ball is rood. "
            f"Default: {','.join(_DEFAULT)}.", "names"),
    Setting("tune", "method", "Tune each method on the sources that remain; takes long.", "switch",
            False),
]  # fmt: skip
_SECTIONS = ("data", "newsvendor", "portfolio", "decision", "method", "output", "run")
_BUT = ("integer", "pack_size", "report", "target_note", "method", "set", "auto", "criterion")


@command(
    compare_app,
    "newsvendor",
    [*_OWN, *settings_of("newsvendor", _SECTIONS, but=_BUT)],
    examples=[
        (
            "roodso compare newsvendor --problem problem.toml --methods rood,saa,hull "
            "--table comparison.csv"
        )
    ],
)
def compare_newsvendor(given: dict[str, Any]) -> None:
    """What each method would have ordered for each shop unseen, and what that cost there."""
    _compare("newsvendor", given)


@command(
    compare_app,
    "portfolio",
    [*_OWN, *settings_of("portfolio", _SECTIONS, but=_BUT)],
    examples=[
        (
            "roodso compare portfolio returns.csv --source family --assets stocks,bonds,gold "
            "--methods rood,saa"
        )
    ],
)
def compare_portfolio(given: dict[str, Any]) -> None:
    """What each method would have held for each family unseen, and how that fared there."""
    _compare("portfolio", given)


def _methods(given: dict[str, Any]) -> list[str]:
    if given["methods"] is None:
        return _DEFAULT
    names: list[str] = [SETS.get(name, name) for name in _OWN[0].checked(given["methods"])]
    for name in names:
        if name not in METHODS:
            raise ProblemError(f"there is no method {name!r}", remedy=nearest(name, METHODS))
    if len(set(names)) < len(names) or not names:
        raise ProblemError(f"methods must name each method once, got {', '.join(names)}")
    return names


def _compare(problem: str, given: dict[str, Any]) -> None:
    names = _methods(given)
    values = values_of(problem, settings_of(problem, _SECTIONS), given, writes=False)
    values["auto"] = False
    inputs = tuple(path for path in (values["file"], values["problem"]) if path)
    places = {name: values[name] for name in ("json", "table")}
    outputs = Outputs(places, force=values["force"], inputs=inputs)
    screen = Screen(quiet=values["quiet"] or outputs.to_stdout)
    data = load_data(values, problem)
    screen.note(Note(described(data)))
    for note in data.notes:
        screen.note(note)
    tune = bool(given["tune"])
    needed = 3 if tune else 2
    if len(data.labels) < needed:
        raise DataError(f"{len(data.labels)} sources, at least {needed} are needed here")
    task = Task.build(problem, values, data)
    comparison = compared(task, names, screen, tune=tune)
    contents: dict[str, Callable[[], str]] = {
        "json": lambda: as_json(_as_dict(task, comparison, screen.notes)),
        "table": lambda: comparison.table.to_csv(index=False, lineterminator="\n"),
    }
    texts = {name: make() for name, make in contents.items() if outputs.wants(name)}
    if not outputs.to_stdout:
        show(task, comparison, screen)
    for name, text in texts.items():
        outputs.write(name, text)
    for place in outputs.written:
        screen.note(Note(f"written: {place}"))


def show(task: Task, comparison: Comparison, screen: Screen) -> None:
    """The summary, and what may be concluded."""
    summary = comparison.summary()
    if screen.quiet:
        for name, row in summary.iterrows():
            screen.bare(f"{name}\t{row['mean']:.15g}")
        return

    def cost(amount: float) -> str:
        return "failed" if math.isnan(amount) else task.words.cost_said(amount)

    rows = [
        [
            str(name),
            cost(row["mean"]),
            f"{cost(row['low'])} to {cost(row['high'])}",
            cost(row["worst"]),
            cost(row["regret"]),
            f"{row['rank']:.1f}",
        ]
        for name, row in summary.iterrows()
    ]
    screen.table(
        f"{sentence(task.words.costs)} on sources held out",
        [
            "method",
            "mean",
            f"{comparison.confidence:.0%} interval",
            "worst source",
            "regret",
            "rank",
        ],
        rows,
    )
    screen.say(sentence(comparison.verdict()), style="bold")


def _as_dict(task: Task, comparison: Comparison, notes: Sequence[Note]) -> dict[str, Any]:
    numbers = comparison.table.drop(columns=["params"]).astype(object).to_dict("records")
    summary = comparison.summary().reset_index().astype(object).to_dict("records")
    return {
        "schema": "roodso.comparison/1",
        "version": roodso.__version__,
        "kind": task.data.kind,
        "summary": [_plain(row) for row in summary],
        "costs": [_plain(row) for row in numbers],
        "verdict": comparison.verdict(),
        "notes": [{"level": note.level, "text": note.text} for note in notes],
    }


def _plain(row: dict[Any, Any]) -> dict[str, Any]:
    """A row with numbers as Python's own."""
    return {
        str(key): value if isinstance(value, str) else float(value) for key, value in row.items()
    }
